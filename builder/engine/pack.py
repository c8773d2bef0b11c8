"""The layout `n16k4` and its inverse in numpy: the oracle of src/pack, and the fallback without it.

Element arrays are f32, f16, or u16 for bf16 bit patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.formats import BLOCK_ROWS, UNIT_BYTES


def pack_n16k4(rows: NDArray[Any]) -> NDArray[Any]:
    """[N, K] -> packed elements [ceil(N / 16), ceil(K / u), 16, u], u = 4 bytes of elements."""
    count, cols = rows.shape
    unit = UNIT_BYTES // rows.dtype.itemsize
    blocks, units = -(-count // BLOCK_ROWS), -(-cols // unit)
    if (blocks * BLOCK_ROWS, units * unit) != (count, cols):
        padded = np.zeros((blocks * BLOCK_ROWS, units * unit), rows.dtype)
        padded[:count, :cols] = rows
        rows = padded
    cut = rows.reshape(blocks, BLOCK_ROWS, units, unit)
    return np.ascontiguousarray(cut.transpose(0, 2, 1, 3))


def unpack_n16k4(packed: NDArray[Any], rows: int, cols: int) -> NDArray[Any]:
    """The inverse for a segment of `rows` x `cols`; `packed` is flat, whole blocks."""
    unit = UNIT_BYTES // packed.dtype.itemsize
    units = -(-cols // unit)
    cut = packed.reshape(-1, units, BLOCK_ROWS, unit).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(cut.reshape(-1, units * unit)[:rows, :cols])
