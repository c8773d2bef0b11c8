"""Static memory: offsets of all values in one arena, from their lifetimes.

Values whose lifetimes meet never share a byte. Placement is greedy (best fit among the gaps that
the placed neighbours leave) over several orders, of which the smallest arena wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGN = 64


@dataclass(frozen=True)
class Buffer:
    """A value of `size` bytes, alive from step `first` (which writes it) to `last` (the last that
    reads it), both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """`offsets[i]` belongs to buffer i. `lower_bound_bytes` is the largest sum of the sizes that
    are alive in one step: no plan can be smaller."""

    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int


def align_up(value: int, align: int = ALIGN) -> int:
    return -(-value // align) * align


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Peak over the steps of the sum of live sizes, each rounded up to the alignment."""
    changes: dict[int, int] = {}
    for b in buffers:
        size = align_up(b.size)
        changes[b.first] = changes.get(b.first, 0) + size
        changes[b.last + 1] = changes.get(b.last + 1, 0) - size
    live = peak = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def _place(buffers: Sequence[Buffer], order: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(buffers)
    placed: list[int] = []
    arena = 0
    for index in order:
        b = buffers[index]
        size = align_up(b.size)
        taken = sorted(
            (offsets[i], offsets[i] + align_up(buffers[i].size))
            for i in placed
            if buffers[i].first <= b.last and b.first <= buffers[i].last
        )
        best, best_gap, end = -1, 0, 0
        for start, stop in taken:
            gap = start - end
            if gap >= size and (best < 0 or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, stop)
        offsets[index] = best if best >= 0 else end
        placed.append(index)
        arena = max(arena, offsets[index] + size)
    return offsets, arena


def plan_memory(buffers: Sequence[Buffer]) -> MemoryPlan:
    """Offsets for all buffers, 64-byte aligned. Deterministic."""
    indices = range(len(buffers))
    span = [b.last - b.first + 1 for b in buffers]
    orders = (
        sorted(indices, key=lambda i: (-buffers[i].size, buffers[i].first, i)),
        sorted(indices, key=lambda i: (-span[i], -buffers[i].size, i)),
        sorted(indices, key=lambda i: (-buffers[i].size * span[i], i)),
        sorted(indices, key=lambda i: (buffers[i].first, -buffers[i].size, i)),
    )
    bound = lower_bound(buffers)
    best: tuple[list[int], int] | None = None
    for order in orders:
        found = _place(buffers, order)
        if best is None or found[1] < best[1]:
            best = found
        if best[1] == bound:
            break
    offsets, arena = best if best is not None else ([], 0)
    return MemoryPlan(tuple(offsets), arena, bound)
