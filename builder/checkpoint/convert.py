"""Conversion between f32, f16 and bf16, rounding to nearest, ties to even.

bf16 is held as its 16 bits (uint16), since numpy has no such type. Values that the target cannot
hold, and values that are no numbers at all, are errors: a weight never becomes infinite silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.errors import InputError

Array = NDArray[Any]

# Our format -> numpy type of its bits.
STORAGE: Mapping[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
}
_LARGEST = {"f32": 3.4028235e38, "f16": 65504.0, "bf16": 3.3895314e38}
_EXPONENT = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def to_f32(values: Array, source: str) -> NDArray[np.float32]:
    """Exact: f32 holds every f16 and bf16 value."""
    if source == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32, copy=False)


def from_f32(values: NDArray[np.float32], target: str) -> Array:
    """Rounds to nearest even; out-of-range values become infinite, NaN stays NaN."""
    if target == "f32":
        return values
    if target == "f16":
        with np.errstate(over="ignore", under="ignore"):
            return values.astype(np.float16)
    bits = np.ascontiguousarray(values).view(np.uint32)
    # Half a unit in the last kept place, and one less where the kept part is even.
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> 16
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if nan.any():
        rounded[nan] = (bits[nan] >> np.uint32(16)) | np.uint32(0x40)
    return rounded.astype(np.uint16)


def convert(values: Array, source: str, target: str, name: str, first_row: int = 0) -> Array:
    """Rows of the tensor `name` in another format.

    InputError names the tensor and the element if a value is NaN or infinite in the checkpoint,
    or too large for the target. `first_row` is the tensor's row that `values` starts at.
    """
    out = values if source == target else from_f32(to_f32(values, source), target)
    bits: Array = out.view(np.uint32 if target == "f32" else np.uint16)
    exponent = np.array(_EXPONENT[target], bits.dtype)
    bad = (bits & exponent) == exponent
    if bad.any():
        _refuse(values, source, target, name, first_row, bad)
    return out


def _refuse(
    values: Array, source: str, target: str, name: str, first_row: int, bad: NDArray[np.bool_]
) -> None:
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    value = float(to_f32(values, source)[index])
    where = f"tensor '{name}' holds {value:g} at {[first_row + index[0], *index[1:]]}"
    if not np.isfinite(value):
        raise InputError(
            f"{where}: weights must be finite numbers; download or convert the checkpoint again"
        )
    raise InputError(
        f"{where}, beyond the largest {target} value {_LARGEST[target]:g}; build with "
        f"--weights {'bf16' if target == 'f16' else 'f32'}"
    )
