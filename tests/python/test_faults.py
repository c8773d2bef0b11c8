"""Bad days of a build: a disk that fails at any moment, signals at any moment. The old file stays
as it was, or the new one is complete; nothing else is left behind."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import TinyConfig, make_checkpoint

from slipstream.builder.build import build
from slipstream.builder.engine import writer as writer_module
from slipstream.builder.engine.reader import EngineReader
from slipstream.errors import SlipstreamError

TINY = TinyConfig(vocab=300, tokenizer=True)
OLD = b"the engine that was there before"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "c", TINY)


class FailingFile:
    """The partial file; call number `at` of `method` fails, or writes only a part when `short`."""

    def __init__(self, file: Any, method: str, at: int, error: int, short: bool) -> None:
        self._file, self._method, self._at = file, method, at
        self._error, self._short = error, short
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._file, name)
        if name != self._method:
            return real

        def call(*args: Any) -> Any:
            self.calls += 1
            if self.calls - 1 != self._at:
                return real(*args)
            if self._short and args and len(args[0]) > 1:
                real(memoryview(args[0]).cast("B")[: len(args[0]) // 2])
            raise OSError(self._error, os.strerror(self._error))

        return call


def build_failing(
    checkpoint: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    at: int,
    error: int,
    short: bool = False,
) -> int | None:
    """Builds with one failing call; the calls there were if none failed, else None."""
    files: list[FailingFile] = []
    real_open = Path.open

    def open_(path: Path, *args: Any, **kwargs: Any) -> Any:
        file = real_open(path, *args, **kwargs)
        if not path.name.endswith(".partial"):
            return file
        files.append(FailingFile(file, method, at, error, short))
        return files[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_)
        try:
            build(checkpoint, out)
        except SlipstreamError as failure:
            full = error in (errno.ENOSPC, errno.EDQUOT)
            assert failure.exit_code == (2 if full else 1), failure
            assert str(out) in str(failure)
            assert ("free some space" if full else os.strerror(error)) in str(failure)
            return None
    assert len(files) == 1
    return files[0].calls


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("short", [False, True])
def test_every_write_may_fail(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, short: bool
) -> None:
    out = tmp_path / "m.engine"
    out.write_bytes(OLD)
    at = 0
    while True:
        calls = build_failing(checkpoint, out, monkeypatch, "write", at, error, short)
        if calls is not None:
            break
        assert out.read_bytes() == OLD
        assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "m.engine"], at
        at += 1 if at < 4 else 5
    assert at >= calls > 10
    with EngineReader(out) as engine:
        engine.verify_full()


@pytest.mark.parametrize("method", ["flush", "seek"])
def test_flush_and_seek_may_fail(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    out = tmp_path / "m.engine"
    out.write_bytes(OLD)
    assert build_failing(checkpoint, out, monkeypatch, method, 0, errno.EIO) is None
    assert out.read_bytes() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "m.engine"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_fsync_and_rename_may_fail(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    out = tmp_path / "m.engine"
    out.write_bytes(OLD)

    def fail(*args: Any) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(writer_module.os, call, fail)
        with pytest.raises(SlipstreamError) as failure:
            build(checkpoint, out)
    assert str(out) in str(failure.value)
    assert out.read_bytes() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "m.engine"]
    assert build(checkpoint, out).path == out


def test_a_folder_that_cannot_be_synced_is_no_failure(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync
    calls: list[int] = []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(fd)

    monkeypatch.setattr(writer_module.os, "fsync", fsync)
    with EngineReader(build(checkpoint, tmp_path / "m.engine").path) as engine:
        engine.verify_full()
    assert len(calls) == 2


def _refused_folder(folder: Path) -> Callable[[], None]:
    folder.chmod(0o555)
    return lambda: folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    undo = _refused_folder(folder)
    try:
        with pytest.raises(SlipstreamError, match="cannot write into") as failure:
            build(checkpoint, folder / "m.engine")
        assert failure.value.exit_code == 2
    finally:
        undo()


def _signal_builds(
    checkpoint: Path, tmp_path: Path, number: int, rounds: int, seed: int
) -> set[int]:
    """Builds that get a signal after drawn delays; the exit codes that were seen."""
    out = tmp_path / "m.engine"
    command = [sys.executable, "-m", "slipstream.builder.cli", str(checkpoint), "-o", str(out)]
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    whole = time.monotonic() - begin
    new = out.read_bytes()
    draw = random.Random(seed)
    seen: set[int] = set()
    for _ in range(rounds):
        out.write_bytes(OLD)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        delay = draw.uniform(0, whole * 1.2)
        time.sleep(delay)
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        context = f"after {delay:.3f} s of {whole:.3f} s: exit {process.returncode}, {err}"
        seen.add(process.returncode)
        # Before its handlers are set the system ends Python, and Python shows a traceback.
        assert process.returncode in (0, 1, 128 + number, -number), context
        assert "Exception ignored" not in err, context
        assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "m.engine"], context
        if process.returncode == 0:
            assert out.read_bytes() == new, context
        else:
            assert out.read_bytes() in (OLD, new), context
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_of_a_build(checkpoint: Path, tmp_path: Path, number: int) -> None:
    _signal_builds(checkpoint, tmp_path, number, rounds=4, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_a_hundred_moments_of_a_build(
    checkpoint: Path, tmp_path: Path, number: int
) -> None:
    seen = _signal_builds(checkpoint, tmp_path, number, rounds=100, seed=2)
    assert 128 + number in seen
