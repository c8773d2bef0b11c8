"""Builds: contents, reproducibility, limits, and everything that must be refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_models import TinyConfig, make_checkpoint, make_tensors

from slipstream.builder import cli, inspect, native
from slipstream.builder.build import build, prepare
from slipstream.builder.checkpoint.convert import STORAGE, from_f32
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine import pack
from slipstream.builder.engine import writer as writer_module
from slipstream.builder.engine.reader import EngineReader
from slipstream.builder.errors import InputError
from slipstream.builder.plan.tensors import pad_rows
from slipstream.builder.resolve import resolve
from slipstream.errors import SlipstreamError

TINY = TinyConfig(vocab=300, attention_bias=True, mlp_bias=True, tokenizer=True)


@pytest.mark.parametrize("fmt", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("tied", [True, False])
def test_stored_tensors_equal_the_converted_checkpoint(
    tmp_path: Path, fmt: str, tied: bool
) -> None:
    tiny = TinyConfig(
        vocab=301, hidden=45, heads=6, kv_heads=3, head_dim=6, intermediate=43, tied=tied,
        tokenizer=True, attention_bias=True,
    )  # fmt: skip
    make_checkpoint(tmp_path, tiny)
    build(tmp_path, tmp_path / "m.engine", BuildConfig(weights=fmt))
    expected, seen = make_tensors(tiny), set()
    with EngineReader(tmp_path / "m.engine") as engine:
        engine.verify_full()
        for tensor in engine.manifest["tensors"]:
            stored = np.frombuffer(engine.tensor_bytes(tensor["name"]), STORAGE[tensor["format"]])
            for source in tensor["sources"]:
                name = source["checkpoint_name"]
                values = from_f32(expected[name].astype(np.float32), tensor["format"])
                if tensor["layout"] == "n16k4":
                    cols = values.shape[1]
                    packed_cols = cols + cols % (4 // stored.itemsize)
                    first = source["offset"] * packed_cols
                    flat = stored[first : first + pad_rows(len(values)) * packed_cols]
                    found = pack.unpack_n16k4(flat, len(values), cols)
                else:
                    begin = source["offset"] * (values.size // len(values))
                    found = stored[begin : begin + values.size].reshape(values.shape)
                np.testing.assert_array_equal(found, values, err_msg=name)
                seen.add(name)
    assert seen == set(expected)


@pytest.mark.skipif(not native.available(), reason="needs the C++ library")
@pytest.mark.parametrize("fmt", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(1, 1), (16, 4), (17, 7), (48, 33), (5, 64)])
def test_numpy_and_cpp_pack_the_same_bytes(fmt: str, shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    elements = from_f32(rows, fmt)
    assert native.pack_n16k4(elements, fmt).tobytes() == pack.pack_n16k4(elements).tobytes()


def test_built_twice_and_elsewhere_is_byte_identical(tmp_path: Path) -> None:
    first = make_checkpoint(tmp_path / "a", TINY)
    shutil.copytree(first, tmp_path / "other name")
    one = build(first, tmp_path / "1.engine")
    two = build(tmp_path / "other name", tmp_path / "2.engine")
    assert one.path.read_bytes() == two.path.read_bytes()
    three = build(first, tmp_path / "3.engine", BuildConfig(max_seq_len=64))
    assert three.build_id != one.build_id == two.build_id
    assert str(tmp_path).encode() not in one.path.read_bytes()


def test_one_changed_weight_changes_the_build_id(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, TINY)
    before = build(tmp_path, tmp_path / "1.engine").build_id
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"][3] *= 1.01
    save_file(tensors, tmp_path / "model.safetensors")
    assert build(tmp_path, tmp_path / "2.engine").build_id != before


def test_manifest_tells_what_was_asked_and_why_it_differs(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, TINY)
    build(tmp_path, tmp_path / "m.engine", BuildConfig(max_num_tokens=32))
    with EngineReader(tmp_path / "m.engine") as engine:
        config = engine.manifest["config"]
    assert config["requested"]["max_batch_size"] is None
    assert config["resolved"]["max_batch_size"] == 32
    changed = {k for k, v in config["resolved"].items() if config["requested"][k] != v}
    assert {c["field"] for c in config["changes"]} == changed
    for change in config["changes"]:
        assert change["to"] == config["resolved"][change["field"]] and change["reason"]


def test_resolving_keeps_explicit_values_or_fails() -> None:
    kept, _ = resolve(BuildConfig(max_seq_len=100, max_batch_size=600), 131072)
    assert (kept.max_seq_len, kept.max_batch_size, kept.max_num_tokens) == (100, 600, 600)
    assert resolve(BuildConfig(), 131072)[0].max_seq_len == 8192
    assert resolve(BuildConfig(), 512)[0].max_seq_len == 512
    with pytest.raises(InputError, match="at most 512"):
        resolve(BuildConfig(max_seq_len=513), 512)
    with pytest.raises(InputError, match="raise it to 9"):
        resolve(BuildConfig(max_batch_size=9, max_num_tokens=8), 512)


@pytest.mark.parametrize("values", [{"weights": "int3"}, {"max_seq_len": 0},
                                    {"max_batch_size": 1.5}, {"target": "tpu"}])  # fmt: skip
def test_bad_configuration(values: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        BuildConfig(**values)


def _json(name: str, **values: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return edit


def _tensors(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors")

    return run


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: shutil.rmtree(f), ["does not exist"]),
        (lambda f: (f / "config.json").unlink(), ["config.json", "does not exist"]),
        (lambda f: (f / "config.json").write_text("{,"), ["config.json", "not valid JSON"]),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), ["config.json", "UTF-8"]),
        (lambda f: (f / "config.json").write_text("[" * 9000), ["config.json", "deep"]),
        (lambda f: (f / "config.json").write_text('{"a": 1, "a": 2}'), ["'a'", "twice"]),
        (lambda f: (f / "model.safetensors").unlink(), ["model.safetensors"]),
        (lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json"]),
        (lambda f: (f / "tokenizer.json").write_text("{}"), ["tokenizer.json", "model"]),
        (_json("config.json", architectures=["Foo"]), ["Foo", "LlamaForCausalLM"]),
        (_json("config.json", hidden_size=10**12), ["hidden_size"]),
        (_json("config.json", num_hidden_layers=-1), ["num_hidden_layers"]),
        (_tensors(lambda t: t.pop(NORM)), [NORM, "missing", "[40]"]),
        (_tensors(lambda t: t.update({NORM: np.ones(41, np.float32)})), [NORM, "[41]", "[40]"]),
        (_tensors(lambda t: t.update({NORM: np.ones(40, np.int32)})), [NORM, "I32"]),
        (_tensors(lambda t: t[NORM].__setitem__(3, np.nan)), [NORM, "nan"]),
    ],
)
def test_bad_checkpoint(
    tmp_path: Path,
    damage: Callable[[Path], Any],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    damage(folder)
    started = time.monotonic()
    assert cli.main([str(folder), "-o", str(tmp_path / "m.engine")]) == 2
    assert time.monotonic() - started < 5
    message = capsys.readouterr().err
    assert message.startswith("build-engine: error: ") and len(message) < 1000
    for word in words:
        assert word in message
    assert [p.name for p in tmp_path.iterdir()] in (["c"], [])


@pytest.mark.parametrize(
    "arguments",
    [["--weights", "int3"], ["--kv-cache", "x"], ["--max-seq-len", "a"], ["--bogus"],
     ["--max-seq-len", "0"], ["--max-seq-len", "999999"], ["--max-batch-size", "-4"],
     ["--target", "tpu"], ["--name", ""], ["--dry"]],
)  # fmt: skip
def test_bad_arguments(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    assert cli.main([str(folder), "-o", str(tmp_path / "m.engine"), *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_bad_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    for out, word in (
        (tmp_path / "none" / "m.engine", "create it first"),
        (tmp_path, "folder"),
        (Path("/dev/null"), "regular"),
        (Path("/proc/m.engine"), "cannot write"),
        (folder / "config.json", "part of the checkpoint"),
    ):
        assert cli.main([str(folder), "-o", str(out)]) == 2
        assert word in capsys.readouterr().err
    assert cli.main([str(folder)]) == 2
    assert "-o" in capsys.readouterr().err
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == 300


def test_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    out = tmp_path / "m.engine"
    out.write_bytes(b"old")
    original = writer_module.EngineWriter._put

    def full(self: writer_module.EngineWriter, data: Any) -> None:
        if self.offset > 60_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(self, data)

    monkeypatch.setattr(writer_module.EngineWriter, "_put", full)
    with pytest.raises(SlipstreamError, match="free some space") as error:
        build(folder, out)
    assert error.value.exit_code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "m.engine"]
    assert out.read_bytes() == b"old"


def test_file_size_limit_is_found_by_the_real_system_call(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    code = (
        "import resource, sys; from slipstream.builder.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000));"
        f"sys.exit(main([{str(folder)!r}, '-o', {str(tmp_path / 'm.engine')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "disk is full" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)

    def progress(done: int, total: int) -> None:
        raise error

    with pytest.raises(error):
        build(folder, tmp_path / "m.engine", progress=progress)
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_an_int8_cache_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    assert cli.main([str(folder), "--dry-run", "--kv-cache", "int8"]) == 0
    per_token = TINY.layers * 2 * TINY.kv_heads * (TINY.hidden // TINY.heads + 4)
    line = f"KV per token  {per_token} bytes (int8, a scale for each token and head)"
    assert line in capsys.readouterr().out
    engine = str(tmp_path / "m.engine")
    assert cli.main([str(folder), "-o", engine, "--kv-cache", "int8"]) == 0
    capsys.readouterr()
    assert inspect.main([engine]) == 0
    out = capsys.readouterr().out
    assert "KV cache int8" in out and "int8 with a scale for each token and head" in out
    with EngineReader(engine) as reader:
        (group,) = reader.manifest["kv"]["groups"]
    assert (group["dtype"], group["scale_granularity"]) == ("int8", "token_head")
    assert group["bytes_per_block"] == 32 * per_token


def test_ctrl_c_while_the_command_is_imported() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="build-engine")
    module, _, function = script.value.partition(":")
    code = f"""
import importlib, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "slipstream.builder.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.exit(importlib.import_module({module!r}).{function}())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "build-engine: error: interrupted; nothing was written\n"


def test_sigterm_removes_the_partial_file(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    code = (
        "import os, signal, sys; from slipstream.builder import build as b, cli;"
        "old = b.write_weights;"
        "b.write_weights = lambda *a: (os.kill(os.getpid(), signal.SIGTERM), old(*a))[1];"
        f"sys.exit(cli.main([{str(folder)!r}, '-o', {str(tmp_path / 'm.engine')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 143, done.stderr
    assert "terminated" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.skipif(not native.available(), reason="needs the C++ library")
@pytest.mark.parametrize("fmt", ["f32", "f16", "bf16"])
def test_the_runtime_reads_what_the_builder_wrote(tmp_path: Path, fmt: str) -> None:
    from slipstream import _native

    make_checkpoint(tmp_path, TINY)
    report = build(tmp_path, tmp_path / "m.engine", BuildConfig(weights=fmt, kv_cache=fmt))
    engine = _native.Engine.load(str(report.path), verify_full=True)
    assert engine.build_id == report.build_id
    assert engine.eos_token_ids == [2] and engine.bos_token_id == 1
    assert engine.limits.max_seq_len == 256


def test_too_little_space_is_found_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    stats = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: type(
        "Stats", (), {"f_bavail": 1, "f_frsize": stats.f_frsize})())  # fmt: skip
    with pytest.raises(SlipstreamError, match="free some space"):
        build(folder, tmp_path / "m.engine")
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_tied_head_with_other_values_is_refused(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c", TinyConfig(vocab=300, tied=True, tokenizer=True))
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    save_file(tensors, folder / "model.safetensors")
    build(folder, tmp_path / "m.engine")
    tensors["lm_head.weight"][7, 7] += 1
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match="tie_word_embeddings"):
        build(folder, tmp_path / "n.engine")


def test_dry_run_reports_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "c", TINY)
    assert cli.main([str(folder), "--dry-run", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    report = build(folder, tmp_path / "m.engine")
    assert 0 <= facts["file_bytes"] - report.file_bytes < 200_000
    assert facts["memory"] == prepare(folder).program.memory
    assert facts["memory"]["arena_bytes"] >= facts["memory"]["arena_lower_bound_bytes"] > 0
    assert facts["default_kv_pool"]["tokens"] > 0
    report.path.unlink()
    assert cli.main([str(folder), "--dry-run"]) == 0
    assert "fuse_qkv" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def partial_files(folder: Path) -> list[Path]:
    return list(folder.glob(".*.partial"))


def test_a_symbolic_link_is_never_replaced(tmp_path: Path) -> None:
    """A rename would replace the link itself, be it /dev/stdout."""
    make_checkpoint(tmp_path / "c", TINY)
    target, link, dangling = tmp_path / "target", tmp_path / "m.engine", tmp_path / "d.engine"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nothing")
    for output in (link, dangling):
        with pytest.raises(InputError, match="is a symbolic link"):
            build(tmp_path / "c", output, BuildConfig())
        assert output.is_symlink()
    assert target.read_bytes() == b"mine"


def test_names_of_outputs_may_have_any_length_that_the_system_takes(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "c", TINY)
    longest = tmp_path / ("a" * 255)
    build(tmp_path / "c", longest, BuildConfig())
    assert longest.is_file() and not partial_files(tmp_path)
    with pytest.raises(InputError, match="File name too long"):
        build(tmp_path / "c", tmp_path / ("a" * 256), BuildConfig())


def test_what_a_killed_build_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    folder, output = make_checkpoint(tmp_path / "c", TINY), tmp_path / "m.engine"
    code = (
        "import os, signal, sys; from slipstream.builder import build as b, cli;"
        "b.write_weights = lambda *a: os.kill(os.getpid(), signal.SIGKILL);"
        f"sys.exit(cli.main([{str(folder)!r}, '-o', {str(output)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -9
    assert len(partial_files(tmp_path)) == 1 and not output.exists()
    build(folder, output, BuildConfig())
    assert output.is_file() and not partial_files(tmp_path)


def test_builds_of_one_process_to_one_output_do_not_meet(tmp_path: Path) -> None:
    """The partial file of a build that still runs is not taken for abandoned."""
    folder, output = make_checkpoint(tmp_path / "c", TINY), tmp_path / "m.engine"
    expected = build(folder, tmp_path / "alone.engine", BuildConfig()).path.read_bytes()
    with writer_module.EngineWriter(output) as running:
        running.section("graph", b"x")
        build(folder, output, BuildConfig())
        assert len(partial_files(tmp_path)) == 1
    assert output.read_bytes() == expected and not partial_files(tmp_path)


@pytest.mark.parametrize("closed", [">&-", ">/dev/full", "| true"])
@pytest.mark.parametrize("options", ["--dry-run", "--dry-run --json", "-o m.engine"])
def test_a_report_that_cannot_be_printed_is_no_traceback(
    tmp_path: Path, closed: str, options: str
) -> None:
    make_checkpoint(tmp_path / "c", TINY)
    command = f"{sys.executable} -m slipstream.builder.cli c {options} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    for word in ("Traceback", "internal", "ignored", "defect"):
        assert word not in done.stderr
    assert done.returncode == (1 if closed == ">/dev/full" else 0)
    assert (tmp_path / "m.engine").exists() == ("-o" in options)
