"""Rounding of arrays to a storage format and back to f32: to nearest, ties to even."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def round_to(array: NDArray[Any], fmt: str) -> NDArray[Any]:
    """The values as `fmt` (f32, f16, bf16, int8) stores them. f32 returns the array as it is, so
    that an f64 run stays exact; the others return f32. int8 has a scale for each row of the last
    axis, the largest magnitude by 127."""
    if fmt == "f32":
        return array
    if fmt == "f16":
        return array.astype(np.float16).astype(np.float32)
    if fmt == "bf16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        # Adding 0x7fff plus the lowest kept bit carries exactly when the tail rounds up.
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        out: NDArray[Any] = rounded.view(np.float32).reshape(array.shape)
        out[np.isnan(array)] = np.nan
        return out
    if fmt == "int8":
        x = array.astype(np.float32)
        scale = np.abs(x).max(axis=-1, keepdims=True) / np.float32(127)
        steps = np.rint(x / np.where(scale > 0, scale, np.float32(1))).clip(-127, 127)
        whole: NDArray[Any] = np.where(scale > 0, steps, np.float32(0)) * scale
        return whole.astype(np.float32)
    raise ValueError(f"unknown format {fmt!r}; known: f32, f16, bf16, int8")
