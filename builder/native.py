"""The builder's only door to the C++ library. Without it builds work through numpy, slower, with
the same bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.engine import pack as reference
from slipstream.builder.errors import InputError
from slipstream.errors import SlipstreamError

try:
    from slipstream import _native as _runtime
    from slipstream._native import Tokenizer as _Tokenizer
    from slipstream._native import pack as _native
except ImportError:
    _native = None  # type: ignore[assignment, misc]


def available() -> bool:
    return _native is not None


def pack_n16k4(rows: NDArray[Any], fmt: str) -> NDArray[Any]:
    """[N, K] of format `fmt` (bf16 as u16) -> packed elements, flat, with padding rows."""
    if _native is None:
        return reference.pack_n16k4(rows).reshape(-1)
    count, cols = rows.shape
    packed_rows = _native.n16k4_packed_rows([count])
    size = _native.n16k4_bytes(fmt, packed_rows, cols)
    out = np.empty(size // rows.dtype.itemsize, rows.dtype)
    _native.pack_n16k4(fmt, count, cols, np.ascontiguousarray(rows), 0, out)
    return out


def check_tokenizer(data: bytes, where: str) -> None:
    """InputError if the runtime cannot use this tokenizer.json; no check without the library."""
    if _native is None:
        return
    try:
        _Tokenizer.from_json(data)
    except SlipstreamError as error:
        raise InputError(f"{where}: {error}") from error


class TeacherForcing:
    """Logits of given tokens from an engine file, by the same steps as generation.

    `threads` 0 means the physical cores. Needs the native module. Not thread-safe.
    """

    def __init__(self, engine: Path, *, threads: int = 0, cpu_path: str = "auto") -> None:
        loaded = _runtime.Engine.load(os.fsencode(engine))
        runtime = _runtime.Runtime(threads=threads, cpu_path=cpu_path)
        self._runner = _runtime.TeacherForcing(_runtime.Model(runtime, loaded))
        self._chunk = min(loaded.limits.max_batch_size, loaded.limits.max_num_tokens)

    def logits(self, tokens: Sequence[int], chunk_tokens: int | None = None) -> NDArray[np.float32]:
        """f32 [tokens, vocab_size]: row i is the prediction after tokens[i]. `chunk_tokens` rows
        are computed per step (None: as many as the engine allows)."""
        return np.asarray(self._runner.logits(list(tokens), chunk_tokens or self._chunk))
