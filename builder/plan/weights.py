"""The weights section of a CPU plan: which tensor each operator reads, in which layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slipstream.builder.errors import InternalError
from slipstream.builder.ir.graph import Graph, Segment
from slipstream.builder.plan.tensors import TensorPlan, TensorSource, pad_rows


class WeightPlanner:
    """Hands out tensor names and collects the TensorPlans in order of first use.

    Asking twice for the same content gives the same tensor: a head that is tied to the embedding
    shares its bytes.
    """

    def __init__(self, graph: Graph, weight_format: str) -> None:
        self._graph = graph
        self._format = weight_format
        self._by_content: dict[tuple[object, ...], str] = {}
        self._names: set[str] = set()
        self.tensors: list[TensorPlan] = []

    def packed_offsets(self, segments: Sequence[Segment]) -> list[int]:
        """First packed row of each segment."""
        offsets, row = [], 0
        for segment in segments:
            offsets.append(row)
            row += pad_rows(segment.rows)
        return offsets

    def matrix(self, name: str, segments: Sequence[Segment]) -> str:
        """A matrix in `n16k4`, its segments one after the other, each padded to whole blocks."""
        rows = [(s.name, s.weight) for s in segments]
        sources = self._sources(segments, [s.weight for s in segments])
        cols = self._graph.constants[segments[0].weight].shape[1]
        key = ("matrix", tuple(weight for _, weight in rows))
        return self._add(
            key,
            TensorPlan(
                name=f"{name}.weight",
                format=self._format,
                layout="n16k4",
                logical_shape=(sum(s.rows for s in segments), cols),
                packed_rows=sum(pad_rows(s.rows) for s in segments),
                sources=sources,
            ),
        )

    def bias(self, name: str, segments: Sequence[Segment]) -> str | None:
        """The biases of a matrix, padded like its rows; None if no segment has one."""
        names = [s.bias for s in segments if s.bias is not None]
        if not names:
            return None
        if len(names) != len(segments):
            raise InternalError(f"{name}: some segments have a bias and some do not")
        plan = TensorPlan(
            name=f"{name}.bias",
            format="f32",
            layout="row_major",
            logical_shape=(sum(s.rows for s in segments),),
            packed_rows=sum(pad_rows(s.rows) for s in segments),
            sources=self._sources(segments, names),
        )
        return self._add(("bias", tuple(names)), plan)

    def _sources(self, segments: Sequence[Segment], names: list[str]) -> tuple[TensorSource, ...]:
        whole = len(segments) == 1
        return tuple(
            self._source(name, "" if whole else segment.name, offset)
            for segment, name, offset in zip(
                segments, names, self.packed_offsets(segments), strict=True
            )
        )

    def _source(self, constant: str, segment: str = "", offset: int = 0) -> TensorSource:
        item = self._graph.constants[constant]
        transforms = [f"rows:{item.rows[0]}:{item.rows[1]}"] if item.rows else []
        if item.addend:
            transforms.append(f"add:{item.addend!r}")
        name = self._checkpoint_name(constant)
        return TensorSource(name, item.checkpoint_shape, segment, offset, tuple(transforms))

    def table(self, name: str, constant: str, *, tied: bool) -> str:
        """An embedding table: `row_major`, or the head's own matrix where the two are tied."""
        vocab, hidden = self._graph.constants[constant].shape
        if tied:
            return self.matrix(name, (Segment("", vocab, constant),))
        plan = TensorPlan(
            name=f"{name}.weight",
            format=self._format,
            layout="row_major",
            logical_shape=(vocab, hidden),
            packed_rows=vocab,
            sources=(self._source(constant),),
        )
        return self._add(("table", constant), plan)

    def vector(self, name: str, constant: str) -> str:
        """A vector, f32: a norm's gain from the checkpoint, or values that the builder made."""
        item = self._graph.constants[constant]
        literal = None
        sources: tuple[TensorSource, ...] = ()
        reason = ""
        if item.values is not None:
            literal = np.asarray(item.values, "<f4").tobytes()
            reason = "computed from config.json when the engine was built"
        else:
            sources = (self._source(constant),)
        plan = TensorPlan(
            name=name,
            format="f32",
            layout="row_major",
            logical_shape=item.shape,
            packed_rows=item.shape[0],
            sources=sources,
            updatable=literal is None,
            updatable_reason=reason,
            literal=literal,
        )
        return self._add(("vector", constant), plan)

    def _checkpoint_name(self, constant: str) -> str:
        name = self._graph.constants[constant].checkpoint_name
        if name is None:
            raise InternalError(f"constant {constant} is needed from a checkpoint but holds values")
        return name

    def _add(self, key: tuple[object, ...], plan: TensorPlan) -> str:
        if key not in self._by_content:
            if plan.name in self._names:
                raise InternalError(f"two tensors would be named {plan.name}")
            self._names.add(plan.name)
            self._by_content[key] = plan.name
            self.tensors.append(plan)
        return self._by_content[key]
