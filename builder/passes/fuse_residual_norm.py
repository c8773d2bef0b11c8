"""A residual addition and the norm that reads it become one `add_rms_norm`."""

from __future__ import annotations

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.passes.base import PassResult, Uses


class FuseResidualNorm:
    """n = rms_norm(s = add(a, b)) -> s, n = add_rms_norm(a, b): the sum is read while it is in
    cache. The sum stays a value, since the next residual reads it. Of several norms over one sum,
    the first is fused."""

    name = "fuse_residual_norm"
    portable = False

    def run(self, graph: Graph) -> PassResult:
        uses = Uses(graph)
        fused: dict[str, Node] = {}
        dropped: set[str] = set()
        for node in graph.nodes:
            norm = _first_norm(node, uses) if node.op == "add" else None
            if norm is None:
                continue
            fused[node.name] = Node(
                "add_rms_norm",
                norm.name,
                node.inputs,
                (node.outputs[0], norm.outputs[0]),
                weights=norm.weights,
                attrs=norm.attrs,
                layer=norm.layer,
            )
            dropped.add(norm.name)
        if not fused:
            return PassResult(graph)
        nodes = [fused.get(n.name, n) for n in graph.nodes if n.name not in dropped]
        line = f"{len(fused)} residual additions with the norm after them into add_rms_norm"
        return PassResult(graph.with_nodes(nodes), (line,))


def _first_norm(add: Node, uses: Uses) -> Node | None:
    return next((n for n in uses.of(add.outputs[0]) if n.op == "rms_norm"), None)
