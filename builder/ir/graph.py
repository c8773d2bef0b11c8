"""The graph: nodes in execution order over named SSA values, and constants by reference.

A constant names a checkpoint tensor (its bytes are never in the graph) or, for the few small
vectors that no checkpoint holds, carries its values. Nodes and constants are immutable; passes
build a new node list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slipstream.builder.ir.types import TensorType

Attr = int | float | str | bool


@dataclass(frozen=True)
class Constant:
    """A weight: `checkpoint_name` xor `values` is set. `values` are exact f32 numbers.

    A constant may be a part of a checkpoint tensor, which then has `checkpoint_rows` rows: those
    from `first_row` on, as many as `shape` says. 0 rows stand for the whole tensor. `addend` is
    added to every element of the checkpoint tensor, in f32 (norms that store gain - 1).
    """

    name: str
    shape: tuple[int, ...]
    checkpoint_name: str | None = None
    values: tuple[float, ...] | None = None
    first_row: int = 0
    checkpoint_rows: int = 0
    addend: float = 0.0

    def __post_init__(self) -> None:
        rows = self.checkpoint_rows
        if rows and not 0 <= self.first_row <= self.first_row + self.shape[0] <= rows:
            raise ValueError(f"{self.name}: its rows are outside of the {rows} of its tensor")
        if not rows and self.first_row:
            raise ValueError(f"{self.name}: a first row needs the number of rows of its tensor")
        if self.addend and self.checkpoint_name is None:
            raise ValueError(f"{self.name}: an addend needs a checkpoint tensor")

    @property
    def checkpoint_shape(self) -> tuple[int, ...]:
        """Shape of the checkpoint tensor."""
        return (self.checkpoint_rows, *self.shape[1:]) if self.checkpoint_rows else self.shape

    @property
    def rows(self) -> tuple[int, int] | None:
        """(first, end) of a part of a checkpoint tensor, None of a whole one."""
        if not self.checkpoint_rows:
            return None
        return self.first_row, self.first_row + self.shape[0]


@dataclass(frozen=True)
class Segment:
    """A named run of output columns of a linear: `rows` rows of `weight` (and `bias`)."""

    name: str
    rows: int
    weight: str
    bias: str | None = None


@dataclass(frozen=True)
class Node:
    """One operator. `layer` is the decoder layer it belongs to, -1 outside of the layers."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    layer: int = -1

    def constants(self) -> list[str]:
        """Names of all constants that the node reads, in a fixed order."""
        names = [self.weights[role] for role in sorted(self.weights)]
        for segment in self.segments:
            names.append(segment.weight)
            if segment.bias is not None:
                names.append(segment.bias)
        return names

    def int_attr(self, name: str) -> int:
        value = self.attrs[name]
        if not isinstance(value, int):
            raise TypeError(f"{self.name}: attribute {name} = {value!r} is not an integer")
        return value

    def float_attr(self, name: str) -> float:
        value = self.attrs[name]
        if isinstance(value, str):
            raise TypeError(f"{self.name}: attribute {name} = {value!r} is not a number")
        return float(value)


@dataclass
class Graph:
    """Inputs, values (name -> type), constants, nodes in execution order, and named results."""

    name: str
    inputs: list[str] = field(default_factory=list)
    values: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)

    def add_input(self, name: str, type_: TensorType) -> str:
        self._declare(name, type_)
        self.inputs.append(name)
        return name

    def add_constant(self, constant: Constant) -> str:
        known = self.constants.get(constant.name)
        if known is not None and known != constant:
            raise ValueError(f"constant {constant.name} is declared twice with different contents")
        self.constants[constant.name] = constant
        return constant.name

    def add_node(self, node: Node) -> tuple[str, ...]:
        """Appends a node; the types of its outputs are inferred. Returns the output names."""
        from slipstream.builder.ir.ops import infer

        types = infer(node, self)
        for name, type_ in zip(node.outputs, types, strict=True):
            self._declare(name, type_)
        self.nodes.append(node)
        return node.outputs

    def _declare(self, name: str, type_: TensorType) -> None:
        if name in self.values:
            raise ValueError(f"value {name} is defined twice")
        self.values[name] = type_

    def producers(self) -> dict[str, Node]:
        """The node that defines each value (inputs have none)."""
        return {out: node for node in self.nodes for out in node.outputs}

    def users(self) -> dict[str, list[Node]]:
        """The nodes that read each value, in execution order; results are not counted."""
        found: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found

    def with_nodes(self, nodes: Iterable[Node], results: Mapping[str, str] | None = None) -> Graph:
        """The same inputs and constants with another node list; types are inferred again and
        constants that nothing reads are dropped."""
        new = Graph(self.name)
        for name in self.inputs:
            new.add_input(name, self.values[name])
        node_list = list(nodes)
        used = {name for node in node_list for name in node.constants()}
        new.constants = {n: c for n, c in self.constants.items() if n in used}
        for node in node_list:
            new.add_node(node)
        new.results = dict(self.results if results is None else results)
        return new
