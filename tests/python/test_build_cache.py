"""The cache: one build for a folder and configuration, a new one when either changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_models import TinyConfig, make_checkpoint

from slipstream.builder import cache
from slipstream.builder.cache import build_cached
from slipstream.builder.config import BuildConfig
from slipstream.errors import InvalidArgumentError, SlipstreamError


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPSTREAM_CACHE", str(tmp_path / "cache"))
    return make_checkpoint(tmp_path / "c", TinyConfig(vocab=300, tokenizer=True))


def test_built_once(checkpoint: Path) -> None:
    first = build_cached(checkpoint)
    before = first.stat()
    assert build_cached(checkpoint, BuildConfig()) == first
    assert first.stat().st_ino == before.st_ino
    assert build_cached(checkpoint, BuildConfig(weights="f32")) != first


def test_changed_weights_are_noticed_even_with_the_old_date(checkpoint: Path) -> None:
    first = build_cached(checkpoint).read_bytes()
    path = checkpoint / "model.safetensors"
    info, data = path.stat(), bytearray(path.read_bytes())
    data[-4:] = b"\0\0\x80\x3f"
    path.write_bytes(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert build_cached(checkpoint).read_bytes() != first


def test_a_changed_text_file_is_noticed(checkpoint: Path) -> None:
    first = build_cached(checkpoint)
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}")
    assert build_cached(checkpoint) != first


def test_a_damaged_entry_is_built_again(checkpoint: Path) -> None:
    path = build_cached(checkpoint)
    whole = path.read_bytes()
    path.write_bytes(whole[:5000])
    assert build_cached(checkpoint) == path
    assert path.read_bytes() == whole


def test_an_entry_that_is_looked_at_is_not_evicted(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_cached(checkpoint)
    os.utime(path, (0, 0))
    sound = cache._sound

    def evicted_meanwhile(entry: Path) -> bool:
        cache._evict(entry.parent, 1, entry.with_name("other.engine"), lambda line: None)
        return sound(entry)

    def no_build(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(cache, "_sound", evicted_meanwhile)
    monkeypatch.setattr("slipstream.builder.build.build", no_build)
    assert build_cached(checkpoint) == path
    assert path.exists()


def test_the_longest_unused_engines_go(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("f32", "f16", "bf16")
    old = [build_cached(checkpoint, BuildConfig(weights=name, kv_cache=name)) for name in names]
    for age, path in zip((3000, 9000, 6000), old, strict=True):
        os.utime(path, (time.time() - age,) * 2)
    # A hit counts as a use.
    assert build_cached(checkpoint, BuildConfig(weights="f32", kv_cache="f32")) == old[0]
    assert time.time() - old[0].stat().st_mtime < 60
    sizes = [path.stat().st_size for path in old]
    monkeypatch.setenv("SLIPSTREAM_CACHE_LIMIT", str(sum(sizes) + 8192))
    lines: list[str] = []
    new = build_cached(checkpoint, BuildConfig(weights="f16"), log=lines.append)
    assert [p.exists() for p in (*old, new)] == [True, False, True, True]
    assert len(lines) == 1 and str(old[1]) in lines[0] and "SLIPSTREAM_CACHE_LIMIT" in lines[0]
    assert not capsys.readouterr().err
    # However small the limit is, what was just built or used stays.
    monkeypatch.setenv("SLIPSTREAM_CACHE_LIMIT", "1")
    last = build_cached(checkpoint, BuildConfig(weights="f32"))
    assert [p.exists() for p in (*old, new, last)] == [True, False, False, True, True]
    assert "removed" in capsys.readouterr().err


def test_a_limit_that_is_no_size(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTREAM_CACHE_LIMIT", "plenty")
    with pytest.raises(InvalidArgumentError, match="SLIPSTREAM_CACHE_LIMIT is 'plenty'"):
        build_cached(checkpoint)


def test_a_hit_needs_no_numpy(checkpoint: Path) -> None:
    path = build_cached(checkpoint)
    code = (
        "import sys; sys.modules['numpy'] = None; from slipstream.builder.cache import "
        f"build_cached; print(build_cached({str(checkpoint)!r}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, f"{path}\n"), run.stderr


def test_an_unreadable_checkpoint_is_not_blamed_on_the_cache(checkpoint: Path) -> None:
    (checkpoint / "folder.json").mkdir()
    with pytest.raises(SlipstreamError, match=r"folder\.json.*readable"):
        build_cached(checkpoint)


def test_errors(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SlipstreamError, match="no folder"):
        build_cached(tmp_path / "none")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLIPSTREAM_CACHE", str(tmp_path / "file"))
    with pytest.raises(SlipstreamError, match="SLIPSTREAM_CACHE"):
        build_cached(checkpoint)
