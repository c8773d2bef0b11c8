"""The native module by itself: errors, the runtime's options, the build door."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import xxhash
from llm_fixtures import build_tiny_engine

from slipstream import LLM, SamplingParams, _native
from slipstream.errors import (
    CorruptFileError,
    InvalidArgumentError,
    NotFoundError,
    SlipstreamError,
)


def test_a_status_becomes_its_exception(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no-such"):
        _native.Engine.load(str(tmp_path / "no-such.engine"))
    junk = tmp_path / "junk.engine"
    junk.write_bytes(b"not an engine" * 1000)
    with pytest.raises(CorruptFileError) as caught:
        _native.Engine.load(str(junk))
    assert caught.value.code == "CORRUPT_FILE"
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, SlipstreamError)


def test_a_path_that_is_not_utf8_can_be_reported(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.engine")
    with pytest.raises(SlipstreamError):
        _native.Engine.load(os.fsencode(path))


def test_an_engine_may_have_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.engine")
    shutil.copy(build_tiny_engine(tmp_path), path)
    with LLM(path, threads=1) as llm:
        assert llm.engine.path == path
        assert llm.generate([[1]], SamplingParams(max_tokens=1))[0].finished


@pytest.mark.parametrize("threads", [-1, 1025])
def test_threads_out_of_range(threads: int) -> None:
    with pytest.raises(InvalidArgumentError, match="threads"):
        _native.Runtime(threads=threads)


def test_an_unknown_cpu_path_lists_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match="auto, scalar, emulated16, avx2, avx512"):
        _native.Runtime(cpu_path="sse2")
    assert _native.Runtime(threads=2, cpu_path="scalar").cpu_path == "scalar"


def test_a_broken_tokenizer_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError):
        _native.Tokenizer.from_json('{"model": {"type": "Unheard"}}')


def test_hashes_equal_those_of_xxhash() -> None:
    data = random.Random(1).randbytes(100_003)
    expected = xxhash.xxh3_128(data).digest()
    assert _native.pack.xxh3_128(data) == expected
    stream = _native.pack.Xxh3Stream()
    for start in range(0, len(data), 7919):
        stream.update(memoryview(data)[start : start + 7919])
    assert stream.digest() == expected
    assert stream.hexdigest() == expected.hex()


@pytest.mark.parametrize(
    ("dtype", "element"), [("f32", np.uint32), ("f16", np.uint16), ("bf16", np.uint16)]
)
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (16, 8), (37, 13)])
def test_packing_is_the_documented_order_and_unpacking_its_inverse(
    dtype: str, element: type[np.unsignedinteger], rows: int, k: int
) -> None:
    matrix = np.arange(1, rows * k + 1, dtype=element).reshape(rows, k)
    packed_rows = _native.pack.n16k4_packed_rows([rows])
    size = _native.pack.n16k4_bytes(dtype, packed_rows, k)
    packed = bytearray(b"\xaa" * size)
    _native.pack.pack_n16k4(dtype, rows, k, matrix, 0, packed)

    per_unit = 4 // matrix.itemsize
    units = -(-k // per_unit)
    padded = np.zeros((packed_rows, units * per_unit), dtype=element)
    padded[:rows, :k] = matrix
    expected = padded.reshape(packed_rows // 16, 16, units, per_unit).transpose(0, 2, 1, 3)
    assert bytes(packed) == expected.tobytes()

    back = np.zeros_like(matrix)
    _native.pack.unpack_n16k4(dtype, rows, k, packed, 0, back)
    assert np.array_equal(back, matrix)


def test_packing_refuses_wrong_buffers() -> None:
    matrix = np.zeros((16, 8), dtype=np.float32)
    with pytest.raises(InvalidArgumentError, match="contiguous"):
        _native.pack.pack_n16k4("f32", 8, 16, matrix.T[::2], 0, bytearray(512))
    with pytest.raises(InvalidArgumentError, match="writable"):
        _native.pack.pack_n16k4("f32", 16, 8, matrix, 0, bytes(512))
    with pytest.raises(InvalidArgumentError):
        _native.pack.pack_n16k4("f32", 16, 8, matrix, 0, bytearray(511))
    with pytest.raises(InvalidArgumentError, match="dtype is 'f8'"):
        _native.pack.pack_n16k4("f8", 16, 8, matrix, 0, bytearray(512))
