"""Types of graph values: an element type and a shape whose row count may be symbolic."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DType(enum.Enum):
    """Element types of values. Weights keep their own format, which the graph does not fix."""

    F32 = "f32"
    I32 = "i32"


class Rows(enum.Enum):
    """Row counts known only per step."""

    TOKENS = "tokens"
    OUTPUTS = "outputs"


Dim = int | Rows


def dim_text(dim: Dim) -> str:
    """`tokens`, `outputs` or the number."""
    return dim.value if isinstance(dim, Rows) else str(dim)


@dataclass(frozen=True)
class TensorType:
    """Element type and shape, rows first."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rows(self) -> Dim:
        return self.shape[0]

    @property
    def cols(self) -> int:
        """The last dimension of a matrix, always a number."""
        last = self.shape[-1]
        if len(self.shape) != 2 or not isinstance(last, int):
            raise TypeError(f"{self} is not a matrix with a known number of columns")
        return last

    def with_cols(self, cols: int) -> TensorType:
        """The same rows and element type with another number of columns."""
        return TensorType(self.dtype, (self.shape[0], cols))

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(dim_text(d) for d in self.shape)}]"


def matrix(rows: Dim, cols: int, dtype: DType = DType.F32) -> TensorType:
    return TensorType(dtype, (rows, cols))


def vector(rows: Dim, dtype: DType) -> TensorType:
    return TensorType(dtype, (rows,))
