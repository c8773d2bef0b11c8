"""The manifest of an engine file: full checking, as strict as the C++ reader. No numpy.

Unknown keys are left alone (a higher minor version may add some).
"""

from __future__ import annotations

import math
import re
from typing import Any

from slipstream._shown import excerpt, shown
from slipstream._shown import name_excerpt as cut
from slipstream.builder import strict_json
from slipstream.builder.engine import layout
from slipstream.builder.formats import (
    BLOCK_ROWS,
    ELEMENT_BYTES,
    KV_FORMATS,
    UNIT_BYTES,
    kv_bytes,
    kv_scale_granularity,
)
from slipstream.errors import CorruptFileError

MAX_DIMENSION = 1 << 30
MAX_INT = (1 << 63) - 1
MAX_INT32 = (1 << 31) - 1
_HEX = re.compile(r"[0-9a-f]{32}\Z")


class ManifestError(CorruptFileError):
    """A field of the manifest is not what the format asks for."""


def parse_manifest(data: bytes, manifest_offset: int) -> dict[str, Any]:
    """The checked manifest as a JSON value. ManifestError names the field."""
    value = _load(data)
    root = _Object(value, "")
    _identity(root)
    sections = _sections(root, manifest_offset)
    _configuration(root, sections)
    _kv(root)
    _verification(root, sections)
    _tensors(root, sections)
    assert isinstance(value, dict)
    return value


def _load(data: bytes) -> Any:
    try:
        return strict_json.loads(data)
    except strict_json.JsonError as error:
        raise ManifestError(f"the manifest {error}") from error


class _Object:
    """Typed access to one JSON object; errors name the path of the field."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise ManifestError(f"the manifest: {path or 'it'} must be an object")
        self._value: dict[str, Any] = value
        self._path = path

    def fail(self, key: str, problem: str) -> ManifestError:
        return ManifestError(f"the manifest: {self._name(key)} {problem}")

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def any(self, key: str) -> Any:
        if key not in self._value:
            raise self.fail(key, "is missing")
        return self._value[key]

    def has(self, key: str) -> bool:
        return key in self._value

    def integer(self, key: str, low: int = 0, high: int = MAX_INT) -> int:
        value = self.any(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"is {shown(value)}; it must be from {low} to {high}")
        return value

    def text(self, key: str) -> str:
        value = self.any(key)
        if not isinstance(value, str):
            raise self.fail(key, "must be text")
        return value

    def boolean(self, key: str) -> bool:
        value = self.any(key)
        if not isinstance(value, bool):
            raise self.fail(key, "must be true or false")
        return value

    def array(self, key: str) -> list[Any]:
        value = self.any(key)
        if not isinstance(value, list):
            raise self.fail(key, "must be an array")
        return value

    def texts(self, key: str) -> list[str]:
        value = self.array(key)
        if not all(isinstance(v, str) for v in value):
            raise self.fail(key, "must hold texts")
        return value

    def integers(self, key: str, low: int, high: int) -> list[int]:
        value = self.array(key)
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= high:
                raise self.fail(key, f"holds {shown(item)}; values are from {low} to {high}")
        return value

    def object(self, key: str) -> _Object:
        return _Object(self.any(key), self._name(key))

    def objects(self, key: str) -> list[_Object]:
        return [_Object(item, f"{self._name(key)}[{i}]") for i, item in enumerate(self.array(key))]


def _identity(root: _Object) -> None:
    version = root.object("format")
    version.integer("major", 0, 65535)
    version.integer("minor", 0, 65535)
    if not _HEX.match(root.text("build_id")):
        raise root.fail("build_id", "must be 32 lower-case hex digits")
    producer = root.object("producer")
    producer.text("name")
    producer.text("version")
    root.texts("required_features")
    root.texts("optional_features")
    model = root.object("model")
    for key in ("name", "architecture", "family"):
        model.text(key)
    model.any("config")
    root.integer("weights_version")


def _sections(root: _Object, manifest_offset: int) -> dict[str, _Object]:
    expected = layout.SECTION_ALIGN
    found: dict[str, _Object] = {}
    for item in root.objects("sections"):
        name, offset, size = item.text("name"), item.integer("offset"), item.integer("size")
        digest = item.text("hash")
        if not name or name in found:
            raise item.fail("name", f'"{cut(name)}" is empty or appears twice')
        if offset != expected:
            raise item.fail("offset", f"is {offset}, expected {expected}")
        if offset > manifest_offset or size > manifest_offset - offset:
            raise item.fail("size", f"is {size}: it would reach over the manifest")
        expected = layout.align(offset + size, layout.SECTION_ALIGN)
        if name == layout.WEIGHTS:
            if digest:
                raise item.fail("hash", "must be empty: weight_hashes holds those of weights")
        elif not _HEX.match(digest):
            raise item.fail("hash", "must be 32 lower-case hex digits")
        found[name] = item
    if expected != manifest_offset:
        raise root.fail("sections", f"end at {expected}, the manifest starts at {manifest_offset}")
    return found


def _configuration(root: _Object, sections: dict[str, _Object]) -> None:
    config = root.object("config")
    config.any("requested")
    config.any("resolved")
    for change in config.objects("changes"):
        change.text("field")
        change.any("from")
        change.any("to")
        change.text("reason")
    limits = root.object("limits")
    for key in ("max_seq_len", "max_batch_size", "max_num_tokens", "vocab_size"):
        limits.integer(key, 1, MAX_DIMENSION)
    root.text("numerics")
    quantization = root.object("quantization")
    quantization.text("weights")
    quantization.text("kv_cache")
    memory = root.object("memory")
    for key in ("weights_bytes", "arena_bytes", "arena_lower_bound_bytes", "kv_bytes_per_token"):
        memory.integer(key)
    for target in root.objects("targets"):
        target.text("name")
        # A target has one plan, or one for each of its segments.
        for plan in target.objects("segments") if target.has("segments") else [target]:
            _existing(plan, sections)
    parallel = root.object("parallel")
    parallel.integer("tp", 1, MAX_INT32)
    parallel.integer("rank", 0, MAX_INT32)
    tokenizer = root.object("tokenizer")
    tokenizer.integer("bos_token_id", -1, MAX_INT32)
    tokenizer.integers("eos_token_ids", 0, MAX_INT32)
    _existing(tokenizer, sections)


def _existing(item: _Object, sections: dict[str, _Object]) -> None:
    name = item.text("section")
    if name not in sections:
        raise item.fail("section", f'names "{cut(name)}", which does not exist')


def _kv(root: _Object) -> None:
    for group in root.object("kv").objects("groups"):
        kind, dtype = group.text("kind"), group.text("dtype")
        layers = group.integers("layers", 0, MAX_INT32)
        per_block = group.integer("bytes_per_block", 1)
        tokens = group.integer("block_tokens", 1, MAX_DIMENSION)
        scales = group.text("scale_granularity")
        window = group.integer("window", 0, MAX_INT32)
        heads = group.integer("kv_heads", 0, MAX_DIMENSION)
        head_dim = group.integer("head_dim", 0, MAX_DIMENSION)
        known = kind in ("full", "window") and dtype in KV_FORMATS
        if not known or scales != kv_scale_granularity(dtype):
            continue
        if not layers or heads < 1 or head_dim < 1 or (kind == "window" and window < 1):
            raise group.fail(
                "kind", f'is "{excerpt(kind)}", but its layers, heads or window are missing'
            )
        need = kv_bytes(dtype, head_dim) * len(layers) * heads * tokens
        if need != per_block:
            raise group.fail("bytes_per_block", f"is {per_block}, its layers ask for {need}")


def _verification(root: _Object, sections: dict[str, _Object]) -> None:
    item = root.object("verification")
    algorithm, name = item.text("algorithm"), item.text("section")
    chunk = item.integer("chunk_bytes", 1, layout.MAX_CHUNK_BYTES)
    if algorithm != layout.HASH_ALGORITHM:
        return
    if layout.WEIGHTS not in sections:
        raise root.fail("sections", 'hold no "weights"')
    if name not in sections or name == layout.WEIGHTS:
        raise item.fail("section", f'names "{cut(name)}", which cannot hold hashes')
    size = sections[layout.WEIGHTS].integer("size")
    if sections[name].integer("size") != layout.HASH_BYTES * -(-size // chunk):
        raise item.fail("section", f'"{cut(name)}" has not 16 bytes for each chunk of weights')


def _tensors(root: _Object, sections: dict[str, _Object]) -> None:
    weights = sections.get(layout.WEIGHTS)
    available = weights.integer("size") if weights is not None else 0
    end, names = 0, set()
    for item in root.objects("tensors"):
        name = item.text("name")
        if name in names:
            raise item.fail("name", f'"{cut(name)}" appears twice')
        names.add(name)
        shape = item.integers("logical_shape", 1, MAX_DIMENSION)
        if not 1 <= len(shape) <= 8:
            raise item.fail("logical_shape", f'of "{cut(name)}" must have 1 to 8 dimensions')
        offset, size = item.integer("offset"), item.integer("size")
        if offset % layout.TENSOR_ALIGN:
            raise item.fail("offset", f'of "{cut(name)}" is {offset}, not a multiple of 256')
        if offset < end:
            raise item.fail("offset", f'of "{cut(name)}" is {offset}, inside the tensor before')
        if offset > available or size > available - offset:
            raise item.fail(
                "size", f'of "{cut(name)}" is {size}: it ends beyond the weights section'
            )
        end = offset + size
        item.array("scales")
        item.any("shard")
        item.boolean("updatable")
        if item.any("updatable_reason") is not None:
            item.text("updatable_reason")
        _sources(item)
        _tensor_size(item, name, shape, size)


def _sources(item: _Object) -> None:
    for source in item.objects("sources"):
        source.text("checkpoint_name")
        source.text("segment")
        source.texts("transforms")
        source.integers("dims", 0, MAX_INT)
        source.integer("offset")


def _tensor_size(item: _Object, name: str, shape: list[int], size: int) -> None:
    form, order = item.text("format"), item.text("layout")
    if form in ELEMENT_BYTES and order == "row_major":
        need = math.prod(shape) * ELEMENT_BYTES[form]
        block = BLOCK_ROWS * ELEMENT_BYTES[form]
        # A bias is padded like the rows of its matrix.
        padded = len(shape) == 1 and size > need and size % block == 0
        if size != need and not padded:
            raise item.fail("size", f'of "{cut(name)}" is {size}, its shape asks for {need}')
    elif form in ELEMENT_BYTES and order == "n16k4":
        if len(shape) != 2:
            raise item.fail("logical_shape", f'of "{cut(name)}" must be [N, K] in layout n16k4')
        row = layout.align(shape[1] * ELEMENT_BYTES[form], UNIT_BYTES)
        need = layout.align(shape[0], BLOCK_ROWS) * row
        if size % (row * BLOCK_ROWS) or size < need:
            raise item.fail("size", f'of "{cut(name)}" is {size}, its shape asks for {need}')
        for source in item.objects("sources"):
            first = source.integer("offset")
            if first % BLOCK_ROWS or first >= size // row:
                raise source.fail(
                    "offset", f'of "{cut(name)}" is {first}, not the start of a block'
                )
