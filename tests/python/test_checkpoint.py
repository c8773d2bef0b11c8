"""Checkpoints: safetensors against the reference library, conversion, bad input."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tiny_models import TinyConfig, make_checkpoint, make_tensors, write_tokenizer

from slipstream.builder.checkpoint import Checkpoint, folder, read_text_files
from slipstream.builder.checkpoint.convert import convert, from_f32, to_f32
from slipstream.builder.errors import InputError
from slipstream.errors import CorruptFileError, IoError, SlipstreamError


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_equal_the_reference_library(tmp_path: Path, shards: int, dtype: str) -> None:
    tiny = TinyConfig(shards=shards, dtype=dtype)
    opened = Checkpoint(make_checkpoint(tmp_path, tiny))
    expected = make_tensors(tiny)
    assert opened.shapes == {name: t.shape for name, t in expected.items()}
    for name, values in expected.items():
        tensor = opened.tensor(name)
        rows = np.concatenate([to_f32(r, tensor.format) for _, r in tensor.row_blocks()])
        np.testing.assert_array_equal(rows, values.astype(np.float32))


def test_blocks_are_bounded_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "BLOCK_BYTES", 4 * 40 * 33)
    opened = Checkpoint(make_checkpoint(tmp_path, TinyConfig(hidden=40)))
    blocks = list(opened.tensor("model.embed_tokens.weight").row_blocks(16))
    assert [(first, len(rows)) for first, rows in blocks] == [
        (0, 32), (32, 32), (64, 32), (96, 32), (128, 3),
    ]  # fmt: skip


def test_every_16_bit_value_converts_as_in_ml_dtypes() -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    wide = to_f32(bits, "bf16")
    np.testing.assert_array_equal(
        wide.view(np.uint32), bits.view(ml_dtypes.bfloat16).astype(np.float32).view(np.uint32)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        f16 = from_f32(wide, "f16")
        expected = wide.astype(np.float16)
    np.testing.assert_array_equal(f16.view(np.uint16), expected.view(np.uint16))


def test_rounding_to_bf16_is_to_nearest_even() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    # Ties, and their neighbours, for every exponent and both parities.
    top = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = np.concatenate([bits, top | 0x7FFF, top | 0x8000, top | 0x8001])
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(from_f32(values, "bf16"), expected)
    nan = np.array([np.nan], np.float32)
    assert np.isnan(to_f32(from_f32(nan, "bf16"), "bf16"))[0]


@pytest.mark.parametrize(
    ("value", "target", "words"),
    [
        (70000.0, "f16", ["w.weight", "[3, 1]", "65504", "--weights bf16"]),
        (3.4e38, "bf16", ["w.weight", "--weights f32"]),
        (float("nan"), "f32", ["w.weight", "nan", "finite"]),
        (float("-inf"), "bf16", ["w.weight", "-inf", "finite"]),
    ],
)
def test_a_value_is_never_lost_silently(value: float, target: str, words: list[str]) -> None:
    rows = np.ones((4, 3), np.float32)
    rows[1, 1] = value
    with pytest.raises(InputError) as error:
        convert(rows, "f32", target, "w.weight", 2)
    for word in words:
        assert word in str(error.value)


def _edit_header(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


NORM = "model.norm.weight"
FIRST = "model.layers.0.input_layernorm.weight"


def _set(key: str, value: Any) -> Callable[[Path], None]:
    return lambda path: _edit_header(path, lambda h: h[NORM].update({key: value}))


def _overlap(path: Path) -> None:
    def edit(header: dict[str, Any]) -> None:
        header[NORM]["data_offsets"] = header[FIRST]["data_offsets"]

    _edit_header(path, edit)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _head(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data + path.read_bytes()[len(data) :]) and None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut, ["cut"]),
        (lambda p: p.write_bytes(b"abc"), ["3 bytes"]),
        (lambda p: p.write_bytes(b""), ["0 bytes"]),
        (_head(struct.pack("<Q", 1 << 60)), ["limit", "100000000"]),
        (_head(struct.pack("<Q", 50_000_000)), ["beyond the file"]),
        (lambda p: p.write_bytes(p.read_bytes()[:8] + b"[" + p.read_bytes()[9:]), ["JSON"]),
        (lambda p: p.write_bytes(p.read_bytes() + b"xx"), ["2 bytes follow"]),
        (_overlap, ["overlaps"]),
        (_set("dtype", "F99"), ["F99", NORM]),
        (_set("dtype", "F16"), [NORM, "needs"]),
        (_set("shape", [-1]), [NORM, "shape"]),
        (_set("shape", [1 << 61, 1 << 61]), [NORM, "needs"]),
        (_set("data_offsets", [0, 1 << 50]), [NORM]),
        (_set("data_offsets", "x"), [NORM, "data_offsets"]),
    ],
)
def test_damaged_shard(tmp_path: Path, damage: Callable[[Path], Any], words: list[str]) -> None:
    make_checkpoint(tmp_path, TinyConfig())
    path = tmp_path / "model.safetensors"
    damage(path)
    with pytest.raises(SlipstreamError) as error:
        Checkpoint(tmp_path)
    assert error.value.exit_code == 2
    for word in ["model.safetensors", *words]:
        assert word in str(error.value)


def _index(tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    path = tmp_path / "model.safetensors.index.json"
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda p: (p / "model-00002-of-00003.safetensors").unlink(), ["model-00002-of-00003"]),
        (lambda p: _index(p, lambda v: v["weight_map"].update(x="../a")), ["'x'", "../a"]),
        (lambda p: _index(p, lambda v: v["weight_map"].pop(NORM)), [NORM, "not in"]),
        (
            lambda p: _index(
                p, lambda v: v["weight_map"].update(x="model-00001-of-00003.safetensors")
            ),
            ["'x'", "does not hold it"],
        ),
        (lambda p: _index(p, lambda v: v.pop("weight_map")), ["weight_map"]),
        (
            lambda p: (p / "model-00001-of-00003.safetensors").write_bytes(
                (p / "model-00002-of-00003.safetensors").read_bytes()
            ),
            ["both"],
        ),
    ],
)
def test_damaged_index(tmp_path: Path, damage: Callable[[Path], Any], words: list[str]) -> None:
    damage(make_checkpoint(tmp_path, TinyConfig(shards=3)))
    with pytest.raises(SlipstreamError) as error:
        Checkpoint(tmp_path)
    assert error.value.exit_code == 2
    for word in words:
        assert word in str(error.value)


def _settings(path: Path, template: Any) -> None:
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))


def test_chat_template_forms(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, 300)
    assert read_text_files(tmp_path, 300).chat_template is None
    _settings(tmp_path, "A")
    assert read_text_files(tmp_path, 300).chat_template == b"A"
    named = [{"name": "tools", "template": "B"}, {"name": "default", "template": "C"}]
    _settings(tmp_path, named)
    text = read_text_files(tmp_path, 300)
    assert text.chat_template == b"C"
    assert "default" in text.log[0] and "tools" in text.log[0]
    _settings(tmp_path, named[:1])
    with pytest.raises(InputError, match="no 'default'"):
        read_text_files(tmp_path, 300)
    (tmp_path / "chat_template.jinja").write_text("D")
    assert read_text_files(tmp_path, 300).chat_template == b"D"


@pytest.mark.parametrize("added", [3, True, "x", {"a": 1}])
def test_added_tokens_that_are_no_list(tmp_path: Path, added: Any) -> None:
    make_checkpoint(tmp_path, TinyConfig(vocab=300, tokenizer=True))
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = added
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match=r"'added_tokens'.*list"):
        read_text_files(tmp_path, 300)


def test_generation_config_ids(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, 300)
    path = tmp_path / "generation_config.json"
    path.write_text('{"eos_token_id": [2, 0, 2], "bos_token_id": 1}')
    text = read_text_files(tmp_path, 300)
    assert (text.bos_token_id, text.eos_token_ids) == (1, (2, 0))
    path.write_text('{"eos_token_id": 300}')
    with pytest.raises(InputError, match="0 to 299"):
        read_text_files(tmp_path, 300)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_weights_that_are_no_regular_file_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    """Opening a pipe must not wait for somebody who writes into it."""
    make_checkpoint(tmp_path, TinyConfig())
    weights = tmp_path / "model.safetensors"
    weights.unlink()
    if kind == "pipe":
        os.mkfifo(weights)
    elif kind == "folder":
        weights.mkdir()
    else:
        weights.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is not a regular file"):
        Checkpoint(tmp_path)


def test_names_that_the_system_refuses_are_input_errors(tmp_path: Path) -> None:
    long = "a" * 5000
    with pytest.raises(InputError, match="cannot be looked up: File name too long"):
        Checkpoint(tmp_path / long)
    make_checkpoint(tmp_path, TinyConfig(shards=2))
    index = tmp_path / "model.safetensors.index.json"
    value = json.loads(index.read_text())
    value["weight_map"]["model.norm.weight"] = long
    index.write_text(json.dumps(value))
    with pytest.raises(InputError, match="cannot be looked up: File name too long"):
        Checkpoint(tmp_path)


def test_weights_that_are_cut_while_they_are_read_are_an_error(tmp_path: Path) -> None:
    """A mapping would end the process with SIGBUS instead."""
    opened = Checkpoint(make_checkpoint(tmp_path, TinyConfig()))
    path = tmp_path / "model.safetensors"
    for size in (path.stat().st_size // 2, 0):
        os.truncate(path, size)
        with pytest.raises(CorruptFileError, match=rf"it has {size} bytes.*another program cut it"):
            for name in opened.shapes:
                for _ in opened.tensor(name).row_blocks():
                    pass


def test_weights_that_vanish_after_they_were_opened_are_read_to_the_end(tmp_path: Path) -> None:
    tiny = TinyConfig()
    opened = Checkpoint(make_checkpoint(tmp_path, tiny))
    (tmp_path / "model.safetensors").unlink()
    for name, values in make_tensors(tiny).items():
        tensor = opened.tensor(name)
        rows = np.concatenate([to_f32(r, tensor.format) for _, r in tensor.row_blocks()])
        np.testing.assert_array_equal(rows, values.astype(np.float32))


def test_short_reads_are_continued_and_failed_ones_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = TinyConfig()
    make_checkpoint(tmp_path, tiny)
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: real(fd, [views[0][:100]], at))
    opened = Checkpoint(tmp_path)
    for name, values in make_tensors(tiny).items():
        tensor = opened.tensor(name)
        rows = np.concatenate([to_f32(r, tensor.format) for _, r in tensor.row_blocks()])
        np.testing.assert_array_equal(rows, values.astype(np.float32))

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(IoError, match=r"model\.safetensors cannot be read at byte \d+: Input"):
        next(iter(opened.tensor("model.norm.weight").row_blocks()))
    with pytest.raises(IoError, match="at byte 0"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
)
@pytest.mark.parametrize("how", ["gone", "empty", "half"])
def test_a_file_that_changes_after_it_was_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    """Between the look at a file and its reading another program removes or cuts it."""
    make_checkpoint(tmp_path, TinyConfig(vocab=300, tokenizer=True))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"}))
    path = tmp_path / name
    real = Path.exists, Path.is_file

    def change(self: Path) -> None:
        if self == path and self.name not in changed:
            changed.add(self.name)
            if how == "gone":
                path.unlink()
            else:
                os.truncate(path, 0 if how == "empty" else path.stat().st_size // 2)

    changed: set[str] = set()

    def exists(self: Path, **options: bool) -> bool:
        found = real[0](self, **options)
        change(self)
        return found

    def is_file(self: Path, **options: bool) -> bool:
        found = real[1](self, **options)
        change(self)
        return found

    monkeypatch.setattr(Path, "exists", exists)
    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(SlipstreamError, match=re.escape(name)) as caught:
        Checkpoint(tmp_path)
        read_text_files(tmp_path, 300)
    assert changed == {name}
    assert caught.value.exit_code == 2


def test_a_signal_during_a_read_changes_nothing(tmp_path: Path) -> None:
    """EINTR: the readers go on where they were."""
    tiny = TinyConfig()
    opened = Checkpoint(make_checkpoint(tmp_path, tiny))
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        while len(seen) < 50:
            for name, values in make_tensors(tiny).items():
                tensor = opened.tensor(name)
                rows = np.concatenate([to_f32(r, tensor.format) for _, r in tensor.row_blocks()])
                np.testing.assert_array_equal(rows, values.astype(np.float32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
