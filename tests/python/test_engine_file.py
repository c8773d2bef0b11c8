"""Engine files that were damaged: every flipped byte is found, nothing crashes."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xxhash
from tiny_models import TinyConfig, make_checkpoint

from slipstream import _native
from slipstream.builder import inspect, native
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.layout import canonical_json
from slipstream.builder.engine.reader import EngineReader
from slipstream.errors import (
    CorruptFileError,
    IncompatibleError,
    InvalidArgumentError,
    NotFoundError,
    SlipstreamError,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("engine")
    make_checkpoint(folder, TinyConfig(vocab=300, tokenizer=True))
    return build(folder, folder / "m.engine", BuildConfig(weights="f32")).path.read_bytes()


def _write(path: Path, data: bytes) -> Path:
    (path / "x.engine").write_bytes(data)
    return path / "x.engine"


def _manifest(data: bytes) -> tuple[int, dict[str, Any]]:
    start, size = struct.unpack("<QQ", data[24:40])
    return start, json.loads(data[start : start + size])


def _edit(data: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    """The file with another manifest, whose hash is right."""
    start, manifest = _manifest(data)
    edit(manifest)
    text = canonical_json(manifest)
    head = data[:16] + struct.pack("<QQQ", start + len(text), start, len(text))
    return head + hashlib.sha256(text).digest() + data[72:start] + text


def test_a_flipped_byte_anywhere_is_found(tmp_path: Path, engine: bytes) -> None:
    start, manifest = _manifest(engine)
    places = [*range(128), 128, 2000, 4095, start, len(engine) - 1]
    weights = range(0)
    for section in manifest["sections"]:
        begin, end = section["offset"], section["offset"] + section["size"]
        if section["name"] == "weights":
            weights = range(begin, end)
        places += [begin, (begin + end) // 2, end - 1]
        places += [end] if end % 4096 else []
    for place in places:
        data = bytearray(engine)
        data[place] ^= 1 << (place % 8)
        path = _write(tmp_path, bytes(data))
        if place in weights:
            with EngineReader(path) as reader, pytest.raises(CorruptFileError, match="chunk"):
                reader.verify_full()
        else:
            with pytest.raises(SlipstreamError) as error:
                EngineReader(path)
            assert error.value.exit_code == 2, place
            assert str(path) in str(error.value)


def test_cut_and_padded_files(tmp_path: Path, engine: bytes) -> None:
    for size in (0, 1, 7, 8, 127, 128, 4096, len(engine) // 2, len(engine) - 1):
        with pytest.raises(CorruptFileError):
            EngineReader(_write(tmp_path, engine[:size]))
    with pytest.raises(CorruptFileError, match="header says"):
        EngineReader(_write(tmp_path, engine + b"\0"))


def test_versions_and_features(tmp_path: Path, engine: bytes) -> None:
    with pytest.raises(IncompatibleError, match=r"format 2\.0"):
        EngineReader(_write(tmp_path, engine[:8] + b"\2\0" + engine[10:]))
    newer = _edit(engine, lambda m: m["format"].update(minor=7))
    newer = newer[:10] + b"\7\0" + newer[12:]
    EngineReader(_write(tmp_path, newer))
    with pytest.raises(IncompatibleError, match="teleport"):
        EngineReader(
            _write(tmp_path, _edit(newer, lambda m: m["required_features"].append("teleport")))
        )
    EngineReader(_write(tmp_path, _edit(engine, lambda m: m.update(novelty=[1]))))


def _nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (_nested(63), ""),
        (_nested(64), "deep"),
        (_nested(900), "deep"),
        (10**308, ""),
        (10**309, "out of range"),
        (-(10**4000), "out of range"),
        ("\ud800", "surrogate"),
    ],
)
def test_both_readers_refuse_the_same_json(
    tmp_path: Path, engine: bytes, value: Any, problem: str
) -> None:
    """In a key that no reader knows."""
    text = _edit(engine, lambda m: m.update(novelty="@"))
    encoded = json.dumps(value).encode()
    start, _ = _manifest(text)
    manifest = text[start:].replace(b'"@"', encoded)
    head = text[:16] + struct.pack("<QQQ", start + len(manifest), start, len(manifest))
    data = head + hashlib.sha256(manifest).digest() + text[72:start] + manifest
    path = _write(tmp_path, data)
    if not problem:
        EngineReader(path)
        if native.available():
            _load(path)
        return
    with pytest.raises(CorruptFileError, match=problem):
        EngineReader(path)
    if native.available():
        with pytest.raises(CorruptFileError):
            _load(path)


def _at(key: str, index: int, **values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest[key][index].update(values)


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (lambda m: m.pop("limits"), "limits"),
        (lambda m: m["limits"].update(max_seq_len=True), "limits.max_seq_len"),
        (lambda m: m["limits"].update(vocab_size=-1), "limits.vocab_size"),
        (lambda m: m.update(build_id="x"), "build_id"),
        (lambda m: m["kv"]["groups"][0].update(bytes_per_block=1), "bytes_per_block"),
        (lambda m: m["tokenizer"].update(section="gone"), "tokenizer.section"),
        (lambda m: m["verification"].update(chunk_bytes=4096), "verification.section"),
        (_at("sections", 1, offset=4096), "sections[1].offset"),
        (_at("sections", 0, size=1 << 62), "sections[0].size"),
        (_at("sections", 1, name="graph"), "sections[1].name"),
        (_at("tensors", 1, offset=128), "tensors[1].offset"),
        (_at("tensors", 2, offset=0), "tensors[2].offset"),
        (_at("tensors", 1, size=1 << 61), "tensors[1].size"),
        (_at("tensors", 1, logical_shape=[]), "tensors[1].logical_shape"),
        (_at("tensors", 1, logical_shape=[1 << 29, 1 << 29]), "tensors[1].size"),
    ],
)
def test_a_wrong_manifest_names_the_field(
    tmp_path: Path, engine: bytes, edit: Callable[[dict[str, Any]], Any], field: str
) -> None:
    with pytest.raises(CorruptFileError) as error:
        EngineReader(_write(tmp_path, _edit(engine, edit)))
    assert field in str(error.value)


def _add_target(manifest: dict[str, Any], **fields: Any) -> None:
    manifest["targets"].append({"name": "gpu", **fields})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "targets[1].section"),
        ({"section": "gone"}, "targets[1].section"),
        ({"segments": {}}, "targets[1].segments"),
        ({"segments": [{"section": "plan.cpu"}, {}]}, "targets[1].segments[1].section"),
        ({"segments": [{"section": "gone"}]}, "targets[1].segments[0].section"),
        ({"section": "plan.cpu", "segments": [{"section": 1}]}, "targets[1].segments[0].section"),
    ],
)
def test_a_target_names_sections_that_exist(
    tmp_path: Path, engine: bytes, fields: dict[str, Any], field: str
) -> None:
    path = _write(tmp_path, _edit(engine, lambda m: _add_target(m, **fields)))
    with pytest.raises(CorruptFileError) as error:
        EngineReader(path)
    assert field in str(error.value)
    if native.available():
        with pytest.raises(CorruptFileError) as error:
            _load(path)
        assert field in str(error.value)


def test_a_target_of_segments_beside_the_cpu_is_read(tmp_path: Path, engine: bytes) -> None:
    segments = [{"section": "graph", "more": 1}, {"section": "plan.cpu"}]
    path = _write(tmp_path, _edit(engine, lambda m: _add_target(m, sm=89, segments=segments)))
    with EngineReader(path) as reader:
        assert reader.manifest["targets"][1]["segments"] == segments
    if native.available():
        _load(path)


def _load(path: Path) -> None:
    from slipstream import _native

    _native.Engine.load(str(path))


def _no_cpu(manifest: dict[str, Any]) -> None:
    manifest["targets"] = []


def _cpu_in_segments(manifest: dict[str, Any]) -> None:
    manifest["targets"] = [{"name": "cpu", "segments": [{"section": "plan.cpu"}]}]


def _everything(manifest: dict[str, Any]) -> None:
    manifest["required_features"] = ["teleport", "levitate"]
    manifest["numerics"] = "cpu-numerics/9"
    manifest["parallel"]["tp"] = 2
    _no_cpu(manifest)
    manifest["tensors"][0].update(format="int3", shard={})
    manifest["tensors"][1].update(layout="spiral", scales=[1])


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda m: m.update(required_features=["teleport"]), ["teleport", "newer version"]),
        (lambda m: m.update(numerics="cpu-numerics/9"), ["cpu-numerics/9", "rebuild"]),
        (lambda m: m["quantization"].update(weights="int3"), ["int3", "--weights bf16"]),
        (lambda m: m["quantization"].update(kv_cache="int3"), ["int3", "--kv-cache bf16"]),
        (lambda m: m["parallel"].update(tp=2), ["tp = 2"]),
        (lambda m: m["verification"].update(algorithm="crc"), ["crc"]),
        (_no_cpu, ["no plan for the target cpu", "none"]),
        (_cpu_in_segments, ["no plan for the target cpu"]),
        (lambda m: m["kv"].update(groups=[]), ["no KV cache group"]),
        (lambda m: m["kv"]["groups"][0].update(kind="latent"), ["latent"]),
        (lambda m: m["kv"]["groups"][0].update(dtype="fp8"), ["fp8"]),
        (lambda m: m["kv"]["groups"][0].update(scale_granularity="token_head"), ["token_head"]),
        (_at("tensors", 0, format="int3"), ["int3"]),
        (_at("tensors", 0, layout="spiral"), ["spiral"]),
        (_at("tensors", 0, scales=[{}]), ["scales"]),
        (_at("tensors", 0, shard={"dim": 0}), ["shards"]),
        (_everything, ["teleport", "levitate", "cpu-numerics/9", "tp = 2", "int3", "spiral"]),
    ],
)
def test_what_cannot_run_is_refused_with_the_words_of_the_runtime(
    tmp_path: Path, engine: bytes, edit: Callable[[dict[str, Any]], Any], words: list[str]
) -> None:
    path = _write(tmp_path, _edit(engine, edit))
    with pytest.raises(IncompatibleError) as ours:
        EngineReader(path)
    for word in words:
        assert word in str(ours.value)
    if native.available():
        with pytest.raises(IncompatibleError) as theirs:
            _load(path)
        assert str(ours.value) == str(theirs.value)


def test_inspect(tmp_path: Path, engine: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(_write(tmp_path, engine))
    assert inspect.main([path, "--verify", "full"]) == 0
    text = capsys.readouterr().out
    for word in ("LlamaForCausalLM", "-> 512", "weight_hashes", "linear_glu", "arena", "full"):
        assert word in text
    assert inspect.main([path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == _manifest(engine)[1]
    assert inspect.main([path, "--plan"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1
    assert inspect.main([path, "--config"]) == 0
    assert json.loads(capsys.readouterr().out)["vocab_size"] == 300
    assert inspect.main([path, "--tensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(_manifest(engine)[1]["tensors"])


def test_inspect_errors(tmp_path: Path, engine: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    broken = bytearray(engine)
    weights = next(s for s in _manifest(engine)[1]["sections"] if s["name"] == "weights")
    broken[weights["offset"] + 300] ^= 4
    path = str(_write(tmp_path, bytes(broken)))
    assert inspect.main([path]) == 0
    assert inspect.main([path, "--verify", "full"]) == 2
    assert "damaged" in capsys.readouterr().err
    for arguments in ([str(tmp_path / "none")], [str(tmp_path)], [path, "--verify", "x"]):
        assert inspect.main(arguments) == 2
        assert "error" in capsys.readouterr().err
    # The disk's fault and not the input's: no file system takes so long a name.
    assert inspect.main(["x" * 300]) == 1
    assert "cannot be opened" in capsys.readouterr().err


def _with_section(data: bytes, name: str, content: bytes) -> bytes:
    """The file with other bytes in a section, no longer than before, and right hashes."""
    section = next(s for s in _manifest(data)[1]["sections"] if s["name"] == name)
    begin, size = section["offset"], section["size"]
    padded = content.ljust(size)
    data = data[:begin] + padded + data[begin + size :]
    digest = xxhash.xxh3_128_hexdigest(padded)

    def edit(manifest: dict[str, Any]) -> None:
        next(s for s in manifest["sections"] if s["name"] == name)["hash"] = digest

    return _edit(data, edit)


@pytest.mark.parametrize("content", [b"null", b"{", b'{"steps": 1}', b'{"nodes": [1]}', b"\xff"])
@pytest.mark.parametrize("section", ["plan.cpu", "graph"])
def test_inspect_of_sections_that_no_builder_wrote(
    tmp_path: Path,
    engine: bytes,
    section: str,
    content: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = _write(tmp_path, _with_section(engine, section, content))
    assert inspect.main([str(path)]) == 2
    assert f"the section {section}" in capsys.readouterr().err


def _strings(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every string below `value`."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, str):
            yield value, key
        elif isinstance(item, (dict, list)):
            yield from _strings(item)


def test_no_string_of_the_manifest_floods_a_message(tmp_path: Path, engine: bytes) -> None:
    """Both readers; the C++ one has a test like this with a file that nothing can run."""
    _, manifest = _manifest(engine)
    refused = 0
    for container, key in _strings(manifest):
        before, container[key] = container[key], "x" * 100_000
        path = _write(tmp_path, _edit(engine, lambda m: (m.clear(), m.update(manifest))))
        container[key] = before
        for load in (EngineReader, lambda path: _native.Engine.load(str(path))):
            try:
                load(path)
            except SlipstreamError as error:
                assert len(str(error)) < 1500, str(error)[:2000]
                refused += 1
    assert refused > 40


def test_a_thousand_mismatches_fit_on_a_screen(tmp_path: Path, engine: bytes) -> None:
    features = [f"feature {i}" for i in range(1000)]
    path = _write(tmp_path, _edit(engine, lambda m: m.update(required_features=features)))
    messages = []
    for load in (EngineReader, lambda path: _native.Engine.load(str(path))):
        with pytest.raises(IncompatibleError, match="feature 19") as caught:
            load(path)
        messages.append(str(caught.value))
        assert "feature 20" not in messages[-1] and "and 980 more" in messages[-1]
        assert len(messages[-1]) < 5000


def test_both_readers_agree_on_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    cases = {"folder": "is a directory", "pipe": "not a regular file", "none": "none"}
    for name, says in cases.items():
        kinds = set()
        for load in (EngineReader, lambda path: _native.Engine.load(str(path))):
            with pytest.raises(SlipstreamError, match=says) as caught:
                load(tmp_path / name)
            kinds.add(type(caught.value))
        assert kinds == {NotFoundError if name == "none" else InvalidArgumentError}
