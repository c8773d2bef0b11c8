"""The selection of output rows moves up, so that the work after the last attention runs only on
the rows that are asked for: none of them during plain prefill."""

from __future__ import annotations

from dataclasses import replace

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.ops import schema_of
from slipstream.builder.passes.base import PassResult, Uses, remove_dead


class SinkSelectRows:
    """select(f(x, ..)) -> f(select(x), ..) for row-wise f whose value nothing else reads.

    Each output row of such an f depends only on the same row of its inputs, so numbers stay
    exactly equal. It stops at attention, whose rows are worth computing only once."""

    name = "sink_select_rows"
    portable = True

    def run(self, graph: Graph) -> PassResult:
        moved = 0
        while True:
            found = _find(graph)
            if found is None:
                break
            graph = _sink(graph, *found)
            moved += 1
        if not moved:
            return PassResult(graph)
        line = f"the selection of output rows moved above {moved} operators"
        return PassResult(graph, (line,))


def _find(graph: Graph) -> tuple[Node, Node] | None:
    uses = Uses(graph)
    for node in graph.nodes:
        if node.op != "select_rows":
            continue
        source = uses.producer.get(node.inputs[0])
        if source is None or not schema_of(source).row_wise or source.op == "embedding":
            continue
        readers = [uses.of(out) for out in source.outputs]
        values = [out for out in source.outputs if uses.is_result(out)]
        if not values and all(r is node for rs in readers for r in rs) and len(source.outputs) == 1:
            return node, source
    return None


def _sink(graph: Graph, select: Node, source: Node) -> Graph:
    """Selects of one value are shared; the moved operator gives the selection's value."""
    rows = select.inputs[1]
    known = {(n.inputs[0], n.inputs[1]): n for n in graph.nodes if n.op == "select_rows"}
    position = {n.name: i for i, n in enumerate(graph.nodes)}
    inputs: list[str] = []
    added: list[Node] = []
    for value in source.inputs:
        have = known.get((value, rows))
        if have is not None:
            # One that comes later moves up to here; its own readers come later still.
            if position.get(have.name, -1) > position[select.name]:
                added.append(have)
            inputs.append(have.outputs[0])
            continue
        name = f"{value}.selected"
        node = Node("select_rows", name, (value, rows), (name,), layer=source.layer)
        known[value, rows] = node
        added.append(node)
        inputs.append(name)
    moved = replace(source, inputs=tuple(inputs), outputs=select.outputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node is select:
            nodes += [*added, moved]
        elif node is not source and not any(node is n for n in added):
            nodes.append(node)
    return remove_dead(graph.with_nodes(nodes))[0]
