"""Portable graph -> one TensorRT plan per segment and compute capability."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.errors import BuildError, UnsupportedError
from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.types import DType, Rows
from slipstream.builder.targets.base import Weights
from slipstream.builder.targets.tensorrt.network import Network, Tensor
from slipstream.builder.targets.tensorrt.provider import Provider
from slipstream.builder.targets.tensorrt.segments import Segment, cut

# The portable ops that have layers here; `attention` is what the segments are cut at.
SUPPORTED_OPS = frozenset(
    {"embedding", "linear", "rms_norm", "rope", "silu", "mul", "add", "select_rows"}
)


@dataclass(frozen=True)
class SegmentPlan:
    """A serialized TensorRT plan with its interface: value names of the portable graph.

    `weights_bytes` and `activation_bytes` are what TensorRT reported for the plan.
    """

    index: int
    plan: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attention_layer: int
    weights_bytes: int
    activation_bytes: int


def check_operators(graph: Graph) -> None:
    """UnsupportedError for an operator that has no layer here."""
    for node in graph.nodes:
        if node.op != "attention" and node.op not in SUPPORTED_OPS:
            raise UnsupportedError(
                f"node {node.name}: the tensorrt-rtx target has no layer for the operator "
                f"'{node.op}'; build for --target cpu"
            )
        extras = sorted({"softcap", "sinks"} & {*node.attrs, *node.weights})
        if extras:
            raise UnsupportedError(
                f"node {node.name}: the tensorrt-rtx target has no attention with "
                f"{' and '.join(extras)}; build for --target cpu"
            )


def compile_segments(
    graph: Graph,
    weights: Weights,
    provider: Provider,
    sm: int,
    *,
    max_tokens: int,
    max_outputs: int,
) -> Iterator[SegmentPlan]:
    """One BF16 plan per segment for one compute capability, in execution order.

    A plan holds its weights: they come one by one, so that one at a time is in memory.
    """
    limits = {Rows.TOKENS: max_tokens, Rows.OUTPUTS: max_outputs}
    for segment in cut(graph):
        yield _compile(graph, segment, weights, provider, sm, limits)


def embedded_bytes(graph: Graph, segment: Segment) -> int:
    """Bytes of the matrices and biases that the plan of a segment holds, in BF16."""
    names = {
        name
        for node in segment.nodes
        if node.op in ("embedding", "linear")
        for name in node.constants()
    }
    return sum(2 * math.prod(graph.constants[name].shape) for name in names)


def _compile(
    graph: Graph,
    segment: Segment,
    weights: Weights,
    provider: Provider,
    sm: int,
    limits: dict[Rows, int],
) -> SegmentPlan:
    network = Network(provider)
    values: dict[str, Tensor] = {}
    max_rows: dict[str, int] = {}
    cols: dict[str, int] = {}
    for name in segment.inputs:
        kind = graph.values[name]
        if not isinstance(kind.rows, Rows):
            raise BuildError(f"value {name} is {kind}: only token or output rows enter a segment")
        max_rows[name] = limits[kind.rows]
        if kind.dtype is DType.I32:
            cols[name] = 0
            values[name] = network.index_input(name)
        else:
            cols[name] = kind.cols
            values[name] = network.rows_input(name, kind.cols)
    lowering = _Lowering(graph, weights, network, values)
    for node in segment.nodes:
        lowering.add(node)
    for name in segment.outputs:
        network.output(name, values[name])
    plan = network.build(sm, max_rows, cols)
    return SegmentPlan(
        index=segment.index,
        plan=plan,
        inputs=segment.inputs,
        outputs=segment.outputs,
        attention_layer=-1 if segment.attention is None else segment.attention.layer,
        weights_bytes=network.log.number("Total Weights Memory"),
        activation_bytes=network.log.number("Total Activation Memory"),
    )


def bf16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to nearest even; exact for weights that are BF16 in the checkpoint. NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


class _Lowering:
    """Adds the layers of the nodes of one segment; weights and RoPE tables are shared inside it."""

    def __init__(
        self, graph: Graph, weights: Weights, network: Network, values: dict[str, Tensor]
    ) -> None:
        self._graph = graph
        self._weights = weights
        self._network = network
        self._values = values
        self._constants: dict[str, Tensor] = {}
        self._tables: dict[tuple[str, str, float], tuple[Tensor, Tensor]] = {}

    def add(self, node: Node) -> None:
        inputs = [self._values[name] for name in node.inputs]
        self._values[node.outputs[0]] = getattr(self, f"_{node.op}")(node, *inputs)

    def _matrix(self, name: str) -> Tensor:
        if name not in self._constants:
            self._constants[name] = self._network.weight(bf16_bits(self._weights(name)))
        return self._constants[name]

    def _embedding(self, node: Node, ids: Tensor) -> Tensor:
        return self._network.embedding(ids, self._matrix(node.weights["table"]))

    def _linear(self, node: Node, x: Tensor) -> Tensor:
        # The portable graph holds one segment per linear: fusing q, k, v is TensorRT's own work.
        (segment,) = node.segments
        bias = None
        if segment.bias is not None:
            row = bf16_bits(self._weights(segment.bias)).reshape(1, -1)
            bias = self._network.weight(row)
        return self._network.linear(x, self._matrix(segment.weight), bias)

    def _rms_norm(self, node: Node, x: Tensor) -> Tensor:
        return self._network.rms_norm(
            x, self._weights(node.weights["gain"]), node.float_attr("eps")
        )

    def _rope(self, node: Node, x: Tensor, positions: Tensor) -> Tensor:
        inv_freq, factor = node.weights["inv_freq"], node.float_attr("attention_factor")
        key = (node.inputs[1], inv_freq, factor)
        if key not in self._tables:
            frequencies = self._weights(inv_freq)
            self._tables[key] = self._network.rope_table(positions, frequencies, factor)
        cos, sin = self._tables[key]
        heads, head_dim = node.int_attr("heads"), node.int_attr("head_dim")
        return self._network.rope(x, cos, sin, heads, head_dim, node.int_attr("rotary_dim"))

    def _silu(self, node: Node, x: Tensor) -> Tensor:
        return self._network.silu(x)

    def _mul(self, node: Node, a: Tensor, b: Tensor) -> Tensor:
        return self._network.mul(a, b)

    def _add(self, node: Node, a: Tensor, b: Tensor) -> Tensor:
        return self._network.add(a, b)

    def _select_rows(self, node: Node, x: Tensor, rows: Tensor) -> Tensor:
        return self._network.select_rows(x, rows)
