"""Streams checkpoint tensors into the weights section, in the format and layout of their plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slipstream.builder import native
from slipstream.builder.checkpoint import Checkpoint
from slipstream.builder.checkpoint.convert import convert, to_f32
from slipstream.builder.engine.writer import WeightsSection
from slipstream.builder.errors import InputError, InternalError
from slipstream.builder.formats import BLOCK_ROWS, ELEMENT_BYTES
from slipstream.builder.plan.tensors import TensorPlan

# Called with the bytes written so far and in all.
Progress = Callable[[int, int], None]


def write_weights(
    out: WeightsSection,
    plans: list[TensorPlan],
    checkpoint: Checkpoint,
    progress: Progress | None = None,
) -> list[int]:
    """Writes every tensor; returns their offsets in the section. Memory stays within a few row
    blocks of 64 MiB. InputError for values that do not fit the format."""
    total = sum(plan.size_bytes for plan in plans)
    done = 0
    offsets = []
    for plan in plans:
        offset = out.begin_tensor()
        offsets.append(offset)
        _write_tensor(out, plan, checkpoint)
        if out.size - offset != plan.size_bytes:
            raise InternalError(
                f"tensor {plan.name}: wrote {out.size - offset} bytes, planned {plan.size_bytes}"
            )
        done += plan.size_bytes
        if progress is not None:
            progress(done, total)
    return offsets


def check_equal(checkpoint: Checkpoint, left_out: str, kept: str) -> None:
    """A tensor that is stored twice, as tied heads sometimes are, must hold the same values."""
    a, b = checkpoint.tensor(left_out), checkpoint.tensor(kept)
    pairs = zip(a.row_blocks(), b.row_blocks(), strict=True)
    same = all(np.array_equal(to_f32(x, a.format), to_f32(y, b.format)) for (_, x), (_, y) in pairs)
    if not same:
        raise InputError(
            f"config.json ties '{left_out}' to '{kept}', but the checkpoint holds other values for "
            "it; set 'tie_word_embeddings': false if the head is its own"
        )


def read_f32(checkpoint: Checkpoint, name: str) -> NDArray[np.float32]:
    """A whole tensor in f32, in the checkpoint's shape."""
    tensor = checkpoint.tensor(name)
    out = np.empty(tensor.shape, np.float32)
    for first, rows in tensor.row_blocks():
        out[first : first + len(rows)] = to_f32(rows, tensor.format)
    return out


def _write_tensor(out: WeightsSection, plan: TensorPlan, checkpoint: Checkpoint) -> None:
    if plan.literal is not None:
        out.write(memoryview(plan.literal))
        return
    start = out.size
    row_bytes = plan.packed_cols * ELEMENT_BYTES[plan.format]
    for source in plan.sources:
        try:
            wanted = source.rows
        except ValueError as error:
            raise InternalError(f"tensor {plan.name}: {error}") from error
        _pad_to(out, start + source.offset * row_bytes)
        tensor = checkpoint.tensor(source.checkpoint_name)
        for first, block in tensor.row_blocks(BLOCK_ROWS, wanted):
            if source.addend:
                values = convert(block, tensor.format, "f32", tensor.name, first)
                sums = values + np.float32(source.addend)
                rows = convert(sums, "f32", plan.format, tensor.name, first)
            else:
                rows = convert(block, tensor.format, plan.format, tensor.name, first)
            if plan.layout == "n16k4":
                rows = native.pack_n16k4(rows, plan.format)
            out.write(memoryview(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data))
    _pad_to(out, start + plan.packed_rows * row_bytes)


def _pad_to(out: WeightsSection, size: int) -> None:
    if out.size < size:
        out.write(memoryview(bytes(size - out.size)))
