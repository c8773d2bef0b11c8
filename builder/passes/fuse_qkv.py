"""Query, key and value projections of one input become a single linear with three segments."""

from __future__ import annotations

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.passes.base import PassResult, Uses, layer_list

SEGMENTS = ("q", "k", "v")


class FuseQkv:
    """One pass over the weights instead of three. The former values become slices, which keep the
    segments' order q, k, v. Projections where only some have a bias stay as they are."""

    name = "fuse_qkv"
    portable = False

    def run(self, graph: Graph) -> PassResult:
        groups = _groups(graph)
        first = {group[0].name: group for group in groups}
        members = {node.name for group in groups for node in group}
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.name in first:
                nodes += _fused(graph, first[node.name])
            elif node.name not in members:
                nodes.append(node)
        if not groups:
            return PassResult(graph)
        layers = [group[0].layer for group in groups]
        line = f"q, k and v of {layer_list(layers)} into one linear each"
        return PassResult(graph.with_nodes(nodes), (line,))


def _groups(graph: Graph) -> list[list[Node]]:
    """The q, k and v linears of each layer, in execution order."""
    uses = Uses(graph)
    groups = []
    for node in graph.nodes:
        if node.op != "linear" or [s.name for s in node.segments] != ["q"]:
            continue
        same = [
            other
            for other in uses.of(node.inputs[0])
            if other.op == "linear" and other.layer == node.layer and len(other.segments) == 1
        ]
        found = {other.segments[0].name: other for other in same}
        if not set(SEGMENTS) <= set(found):
            continue
        group = [found[name] for name in SEGMENTS]
        if len({member.segments[0].bias is None for member in group}) == 1:
            order = {n.name: i for i, n in enumerate(graph.nodes)}
            groups.append(sorted(group, key=lambda n: order[n.name]))
    return groups


def _fused(graph: Graph, group: list[Node]) -> list[Node]:
    by_segment = {node.segments[0].name: node for node in group}
    q = by_segment["q"]
    prefix = f"layers.{q.layer}." if q.layer >= 0 else ""
    name = f"{prefix}qkv"
    segments = tuple(by_segment[s].segments[0] for s in SEGMENTS)
    nodes = [Node("linear", name, q.inputs, (name,), segments=segments, layer=q.layer)]
    start = 0
    for segment in segments:
        node = by_segment[segment.name]
        attrs = {"start": start, "size": segment.rows}
        nodes.append(Node("slice", node.name, (name,), node.outputs, attrs=attrs, layer=node.layer))
        start += segment.rows
    return nodes
