"""What the weights section must hold: one TensorPlan per tensor of a plan.

The lowering makes the list; the engine writer streams the bytes. Nothing here reads a checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from slipstream.builder.formats import BLOCK_ROWS, ELEMENT_BYTES, UNIT_BYTES


def pad_rows(rows: int) -> int:
    """Rows of a segment after padding to whole blocks of 16."""
    return -(-rows // BLOCK_ROWS) * BLOCK_ROWS


@dataclass(frozen=True)
class TensorSource:
    """Where the rows of one segment come from.

    `dims` is the shape in the checkpoint, `offset` the first packed row of the segment,
    `transforms` what is done to the rows on the way beyond the conversion of the format, in order:
    `rows:START:STOP` takes that range of the checkpoint tensor's rows, `add:X` adds the number X to
    every element in f32.
    """

    checkpoint_name: str
    dims: tuple[int, ...]
    segment: str = ""
    offset: int = 0
    transforms: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[int, int]:
        """(first, end) of the rows that are read. ValueError for an unknown transform."""
        first, end = 0, self.dims[0]
        for transform in self.transforms:
            kind, _, text = transform.partition(":")
            if kind == "add" and _is_number(text):
                continue
            numbers = text.split(":")
            if kind != "rows" or len(numbers) != 2 or not all(n.isdecimal() for n in numbers):
                raise ValueError(f"{self.checkpoint_name}: unknown transform '{transform}'")
            first, end = first + int(numbers[0]), first + int(numbers[1])
        if not 0 <= first < end <= self.dims[0]:
            raise ValueError(
                f"{self.checkpoint_name}: rows {first} to {end} are outside of {self.dims[0]}"
            )
        return first, end

    @property
    def addend(self) -> float:
        """What is added to every element; the transforms were checked by `rows`."""
        return sum(float(t[4:]) for t in self.transforms if t.startswith("add:"))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class TensorPlan:
    """One tensor of the weights section.

    `logical_shape` is [N, K] with N the sum of the segments' rows, or [N] for a vector.
    `packed_rows` counts the stored rows (or vector elements) with the zero rows that end every
    segment of a matrix in layout `n16k4`, and of its bias; it equals N where nothing is padded.
    `literal` holds the stored bytes of a tensor that no checkpoint has (little-endian, complete).
    """

    name: str
    format: str
    layout: str
    logical_shape: tuple[int, ...]
    packed_rows: int
    sources: tuple[TensorSource, ...] = ()
    updatable: bool = True
    updatable_reason: str = ""
    literal: bytes | None = field(default=None, repr=False)

    @property
    def packed_cols(self) -> int:
        """Stored elements per row: K padded to whole 4-byte units in `n16k4`; 1 for a vector."""
        if len(self.logical_shape) == 1:
            return 1
        cols = math.prod(self.logical_shape[1:])
        if self.layout == "n16k4":
            per_unit = UNIT_BYTES // ELEMENT_BYTES[self.format]
            return -(-cols // per_unit) * per_unit
        return cols

    @property
    def size_bytes(self) -> int:
        """Bytes in the weights section, without the alignment of the next tensor."""
        return self.packed_rows * self.packed_cols * ELEMENT_BYTES[self.format]
