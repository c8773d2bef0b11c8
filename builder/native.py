"""The builder's only door to the C++ library. Without it builds work through numpy, slower, with
the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.engine import pack as reference
from slipstream.builder.errors import InputError
from slipstream.errors import SlipstreamError

try:
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
