"""Folding: factors known at build time, operators that change nothing, and dead code."""

from __future__ import annotations

from dataclasses import replace

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.passes.base import PassResult, Uses, follow, remove_dead, substitute


class Fold:
    """Portable. Repeats until nothing changes:

    - `scale` by 1 and a `slice` of every column disappear;
    - `scale` of a `scale` becomes one factor;
    - `scale` of queries, or of keys, before attention (through RoPE, which is linear) moves into
      the attention's own scale;
    - a RoPE factor on whole heads of both queries and keys moves there as well (its square);
    - nodes that no result needs are dropped.
    """

    name = "fold"
    portable = True

    def run(self, graph: Graph) -> PassResult:
        counts: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for step in (_identities, _scale_of_scale, _into_attention, _rope_factor, _dead):
                graph, count, what = step(graph)
                if count:
                    counts[what] = counts.get(what, 0) + count
                    changed = True
        return PassResult(graph, tuple(f"{what}: {n}" for what, n in counts.items()))


def _rebuild(
    graph: Graph, replaced: dict[str, Node], dropped: set[str], renamed: dict[str, str]
) -> Graph:
    """Replaces nodes by name, drops others, and reads values under their new names."""
    nodes = [
        substitute(replaced.get(n.name, n), renamed) for n in graph.nodes if n.name not in dropped
    ]
    results = {role: follow(value, renamed) for role, value in graph.results.items()}
    return graph.with_nodes(nodes, results)


def _identities(graph: Graph) -> tuple[Graph, int, str]:
    dropped, renamed = set(), {}
    for node in graph.nodes:
        unit = node.op == "scale" and node.float_attr("factor") == 1.0
        whole = node.op == "slice" and graph.values[node.inputs[0]] == graph.values[node.outputs[0]]
        if unit or whole:
            dropped.add(node.name)
            renamed[node.outputs[0]] = node.inputs[0]
    if not dropped:
        return graph, 0, ""
    return _rebuild(graph, {}, dropped, renamed), len(dropped), "removed identities"


def _scale_of_scale(graph: Graph) -> tuple[Graph, int, str]:
    uses = Uses(graph)
    for node in graph.nodes:
        inner = uses.made_by(node.inputs[0], "scale") if node.op == "scale" else None
        if inner is not None:
            factor = inner.float_attr("factor") * node.float_attr("factor")
            merged = replace(node, inputs=inner.inputs, attrs={"factor": factor})
            return _rebuild(graph, {node.name: merged}, set(), {}), 1, "merged scales"
    return graph, 0, ""


def _into_attention(graph: Graph) -> tuple[Graph, int, str]:
    """A scale whose only reader leads, directly or through RoPE, only to attention's q or k."""
    uses = Uses(graph)
    for node in graph.nodes:
        if node.op != "scale":
            continue
        value = node.outputs[0]
        reader = uses.only(value)
        if reader is not None and reader.op == "rope":
            value = reader.outputs[0]
            reader = uses.only(value)
        # The value must be q or k once: as v it would scale the output instead.
        if reader is None or reader.op != "attention" or value == reader.inputs[2]:
            continue
        if reader.inputs[:2].count(value) != 1:
            continue
        scale = reader.float_attr("scale") * node.float_attr("factor")
        attention = replace(reader, attrs={**reader.attrs, "scale": scale})
        renamed = {node.outputs[0]: node.inputs[0]}
        graph = _rebuild(graph, {reader.name: attention}, {node.name}, renamed)
        return graph, 1, "moved scales into attention"
    return graph, 0, ""


def _rope_factor(graph: Graph) -> tuple[Graph, int, str]:
    uses = Uses(graph)
    for node in graph.nodes:
        if node.op != "attention":
            continue
        q, k = (uses.made_by(value, "rope") for value in node.inputs[:2])
        if q is None or k is None or q is k:
            continue
        if not all(uses.only(rope.outputs[0]) is node and _whole(rope) for rope in (q, k)):
            continue
        factors = [rope.float_attr("attention_factor") for rope in (q, k)]
        if factors == [1.0, 1.0]:
            continue
        scale = node.float_attr("scale") * factors[0] * factors[1]
        new = {
            rope.name: replace(rope, attrs={**rope.attrs, "attention_factor": 1.0})
            for rope in (q, k)
        }
        new[node.name] = replace(node, attrs={**node.attrs, "scale": scale})
        return _rebuild(graph, new, set(), {}), 1, "moved RoPE factors into attention"
    return graph, 0, ""


def _whole(rope: Node) -> bool:
    return rope.int_attr("rotary_dim") == rope.int_attr("head_dim")


def _dead(graph: Graph) -> tuple[Graph, int, str]:
    graph, removed = remove_dead(graph)
    return graph, removed, "removed dead nodes"
