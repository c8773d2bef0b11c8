"""A gated MLP's two projections, activation and product become one `linear_glu`."""

from __future__ import annotations

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.ops import ACTIVATIONS
from slipstream.builder.passes.base import PassResult, Uses, layer_list


class FuseGateUp:
    """mul(act(linear gate(x)), linear up(x)) -> linear_glu(x): neither projection is stored whole.

    Only where nothing else reads the values between, and both or neither have a bias."""

    name = "fuse_gate_up"
    portable = False

    def run(self, graph: Graph) -> PassResult:
        uses = Uses(graph)
        fused: dict[str, Node] = {}
        dropped: set[str] = set()
        for node in graph.nodes:
            match = _match(node, uses) if node.op == "mul" else None
            if match is None:
                continue
            act, gate, up = match
            fused[node.name] = Node(
                "linear_glu",
                node.name,
                gate.inputs,
                node.outputs,
                segments=(gate.segments[0], up.segments[0]),
                attrs={"activation": act.op},
                layer=node.layer,
            )
            dropped |= {act.name, gate.name, up.name}
        if not fused:
            return PassResult(graph)
        nodes = [fused.get(n.name, n) for n in graph.nodes if n.name not in dropped]
        layers = [n.layer for n in fused.values()]
        line = f"gate, up, activation and product of {layer_list(layers)} into linear_glu"
        return PassResult(graph.with_nodes(nodes), (line,))


def _match(node: Node, uses: Uses) -> tuple[Node, Node, Node] | None:
    for act_value, up_value in (node.inputs, node.inputs[::-1]):
        act = uses.producer.get(act_value)
        if act is None or act.op not in ACTIVATIONS:
            continue
        gate, up = uses.made_by(act.inputs[0], "linear"), uses.made_by(up_value, "linear")
        if gate is None or up is None or gate.inputs != up.inputs:
            continue
        if [s.name for s in (*gate.segments, *up.segments)] != ["gate", "up"]:
            continue
        if (gate.segments[0].bias is None) != (up.segments[0].bias is None):
            continue
        inner = ((act_value, node), (up_value, node), (act.inputs[0], act))
        if all(uses.only(value) is reader for value, reader in inner):
            return act, gate, up
    return None
