"""What a pass is, and small queries that rewrites share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.ops import schema_of


@dataclass(frozen=True)
class PassResult:
    """The rewritten graph, and a line for each kind of thing that was done (none: no change)."""

    graph: Graph
    log: tuple[str, ...] = ()


class Pass(Protocol):
    """A rewrite. It never changes its argument, and keeps every result's numbers.

    `portable` passes keep the graph free of operators that belong to one target.
    """

    @property
    def name(self) -> str: ...

    @property
    def portable(self) -> bool: ...

    def run(self, graph: Graph) -> PassResult: ...


class Uses:
    """Producers and readers of the values of one graph. A result counts as a reader."""

    def __init__(self, graph: Graph) -> None:
        self.producer = graph.producers()
        self._users = graph.users()
        self._results = set(graph.results.values())

    def of(self, value: str) -> list[Node]:
        return self._users[value]

    def is_result(self, value: str) -> bool:
        return value in self._results

    def only(self, value: str) -> Node | None:
        """The one reader of a value, None if there are more, none, or a result keeps it."""
        users = self._users[value]
        if len(users) != 1 or value in self._results:
            return None
        return users[0]

    def made_by(self, value: str, op: str) -> Node | None:
        """The producer of a value if it is an `op`."""
        node = self.producer.get(value)
        return node if node is not None and node.op == op else None


def substitute(node: Node, renamed: Mapping[str, str]) -> Node:
    """The node with its inputs renamed; chains of renames are followed."""
    inputs = tuple(follow(name, renamed) for name in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def follow(name: str, renamed: Mapping[str, str]) -> str:
    while name in renamed:
        name = renamed[name]
    return name


def remove_dead(graph: Graph) -> tuple[Graph, int]:
    """Drops the nodes that no result needs; returns how many."""
    needed = set(graph.results.values())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        # An effect is kept even when unread: it writes the cache that later steps read.
        if schema_of(node).effect or any(out in needed for out in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    removed = len(graph.nodes) - len(kept)
    return (graph.with_nodes(reversed(kept)) if removed else graph), removed


def layer_list(layers: list[int]) -> str:
    """`layers 0-3, 5` for a log line."""
    runs: list[list[int]] = []
    for layer in sorted(set(layers)):
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    text = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"layer{'' if len(runs) == 1 and runs[0][0] == runs[0][1] else 's'} {text}"
