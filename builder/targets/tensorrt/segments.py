"""Cut a portable graph at its attention nodes: the parts between are TensorRT networks, attention
runs on the paged pool."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.builder.ir.graph import Graph, Node


@dataclass(frozen=True)
class Segment:
    """Nodes that run between two attention calls (or before the first, after the last).

    `inputs` and `outputs` are value names of the graph, in a stable order. `attention` is the node
    that follows, which reads some of `outputs`; None for the last segment.
    """

    index: int
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attention: Node | None


def cut(graph: Graph) -> list[Segment]:
    """The segments in execution order: one more than there are attention nodes."""
    parts: list[list[Node]] = [[]]
    attentions: list[Node | None] = []
    for node in graph.nodes:
        if node.op == "attention":
            attentions.append(node)
            parts.append([])
        else:
            parts[-1].append(node)
    attentions.append(None)

    # The last position at which each value is read; results are read at the end.
    last_use: dict[str, int] = {}
    for index, part in enumerate(parts):
        for node in part:
            last_use.update(dict.fromkeys(node.inputs, index))
        attention = attentions[index]
        if attention is not None:
            # Between this segment and the next, so that its inputs must leave this one.
            last_use.update(dict.fromkeys(attention.inputs, index + 1))
    last_use.update(dict.fromkeys(graph.results.values(), len(parts)))

    segments = []
    for index, part in enumerate(parts):
        made = [name for node in part for name in node.outputs]
        read = dict.fromkeys(name for node in part for name in node.inputs)
        segments.append(
            Segment(
                index=index,
                nodes=tuple(part),
                inputs=tuple(name for name in read if name not in made),
                outputs=tuple(name for name in made if last_use.get(name, -1) > index),
                attention=attentions[index],
            )
        )
    return segments
