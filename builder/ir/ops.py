"""Operator schemas: arity, weights, attributes, and shape inference.

Portable operators are what every target compiles from. The others belong to the CPU target; they
are here because the interpreter runs them too, so that each rewrite can be checked for equal
numbers.

Matrices are [rows, cols]; rows is `tokens` or `outputs`. Positions, sequences and the KV cache
belong to the step, not to the graph; `positions` is an input only because RoPE reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.builder.errors import InternalError
from slipstream.builder.ir.types import DType, Rows, TensorType, matrix

if TYPE_CHECKING:
    from slipstream.builder.ir.graph import Graph, Node

ACTIVATIONS = ("silu", "gelu_tanh")

MAX_SOFTCAP = 1e6


class ShapeError(InternalError):
    """A node whose inputs, weights or attributes do not fit its operator."""


Infer = Callable[["Node", list[TensorType], "Graph"], list[TensorType]]


@dataclass(frozen=True)
class OpSchema:
    """`weights` are the required roles, `attrs` the required attributes with their types. The
    extras may be left out.

    `row_wise`: each output row depends only on the same row of the inputs, so that a selection of
    rows may move across the operator. `effect`: it writes the KV cache and is never dead.
    """

    name: str
    inputs: int
    outputs: int
    infer: Infer
    weights: tuple[str, ...] = ()
    attrs: tuple[tuple[str, type], ...] = ()
    segments: tuple[int, int] = (0, 0)
    portable: bool = True
    row_wise: bool = False
    effect: bool = False
    extra_weights: tuple[str, ...] = ()
    extra_attrs: tuple[tuple[str, type], ...] = ()

    def expected(self, node: Node) -> tuple[set[str], dict[str, type]]:
        """Roles and attributes that a node must have: the extras are those it has."""
        weights = set(self.weights) | (set(self.extra_weights) & set(node.weights))
        extra = {name: t for name, t in self.extra_attrs if name in node.attrs}
        return weights, {**dict(self.attrs), **extra}


def _fail(node: Node, message: str) -> ShapeError:
    return ShapeError(f"node {node.name} ({node.op}): {message}")


def _f32_matrix(node: Node, type_: TensorType, what: str) -> None:
    if type_.dtype is not DType.F32 or len(type_.shape) != 2:
        raise _fail(node, f"{what} is {type_}, expected an f32 matrix")


def _weight_shape(node: Node, graph: Graph, role: str) -> tuple[int, ...]:
    return graph.constants[node.weights[role]].shape


def _same(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    for type_ in types:
        _f32_matrix(node, type_, "input")
        if type_ != types[0]:
            raise _fail(node, f"inputs differ: {types[0]} and {type_}")
    return [types[0]]


def _check_cap(node: Node, attr: str) -> None:
    if not 0.0 < node.float_attr(attr) < MAX_SOFTCAP:
        raise _fail(node, f"{attr} = {node.attrs[attr]} is not between 0 and {MAX_SOFTCAP:g}")


def _softcap(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    """cap * tanh(x / cap)"""
    _check_cap(node, "cap")
    return _same(node, types, graph)


def _embedding(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    table = _weight_shape(node, graph, "table")
    if len(table) != 2:
        raise _fail(node, f"table has shape {table}, expected [vocabulary, hidden]")
    if types[0].dtype is not DType.I32 or len(types[0].shape) != 1:
        raise _fail(node, f"token ids are {types[0]}, expected an i32 vector")
    return [matrix(types[0].rows, table[1])]


def _segments_cols(node: Node, x: TensorType, graph: Graph) -> int:
    _f32_matrix(node, x, "input")
    names = [s.name for s in node.segments]
    if len(set(names)) != len(names):
        raise _fail(node, f"segment names repeat: {names}")
    for segment in node.segments:
        shape = graph.constants[segment.weight].shape
        if shape != (segment.rows, x.cols):
            raise _fail(
                node,
                f"segment '{segment.name}' reads {segment.weight} of shape {shape}, "
                f"expected ({segment.rows}, {x.cols})",
            )
        if segment.bias is not None:
            bias = graph.constants[segment.bias].shape
            if bias != (segment.rows,):
                raise _fail(node, f"bias {segment.bias} has shape {bias}, not ({segment.rows},)")
    return sum(s.rows for s in node.segments)


def _linear(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    return [types[0].with_cols(_segments_cols(node, types[0], graph))]


def _linear_glu(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _segments_cols(node, types[0], graph)
    gate, up = node.segments
    if (gate.name, up.name) != ("gate", "up") or gate.rows != up.rows:
        raise _fail(node, "needs the segments 'gate' and 'up' with the same number of rows")
    if node.attrs["activation"] not in ACTIVATIONS:
        raise _fail(node, f"unknown activation {node.attrs['activation']!r}")
    return [types[0].with_cols(gate.rows)]


def _check_gain(node: Node, x: TensorType, graph: Graph) -> None:
    gain = _weight_shape(node, graph, "gain")
    if gain != (x.cols,):
        raise _fail(node, f"gain has shape {gain}, expected ({x.cols},)")
    if not 0.0 < node.float_attr("eps") < 1.0:
        raise _fail(node, f"eps = {node.attrs['eps']} is not between 0 and 1")


def _rms_norm(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _f32_matrix(node, types[0], "input")
    _check_gain(node, types[0], graph)
    return [types[0]]


def _check_head_gain(node: Node, graph: Graph, role: str, head_dim: int) -> None:
    gain = _weight_shape(node, graph, role)
    if gain != (head_dim,):
        raise _fail(node, f"{role} has shape {gain}, expected ({head_dim},)")
    if not 0.0 < node.float_attr("eps") < 1.0:
        raise _fail(node, f"eps = {node.attrs['eps']} is not between 0 and 1")


def _head_rms_norm(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _f32_matrix(node, types[0], "input")
    head_dim = node.int_attr("head_dim")
    _check_head_gain(node, graph, "gain", head_dim)
    if types[0].cols % head_dim:
        raise _fail(node, f"input {types[0]} does not hold heads of {head_dim}")
    return [types[0]]


def _add_rms_norm(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    out = _same(node, types, graph)[0]
    _check_gain(node, out, graph)
    return [out, out]


def _rotary(node: Node, graph: Graph) -> int:
    rotary = node.int_attr("rotary_dim")
    inv_freq = _weight_shape(node, graph, "inv_freq")
    if rotary <= 0 or rotary % 2 or inv_freq != (rotary // 2,):
        raise _fail(node, f"inv_freq has shape {inv_freq}, rotary_dim is {rotary}")
    return rotary


def _check_positions(node: Node, positions: TensorType) -> None:
    if positions.dtype is not DType.I32 or len(positions.shape) != 1:
        raise _fail(node, f"positions are {positions}, expected an i32 vector")


def _rope(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _f32_matrix(node, types[0], "input")
    _check_positions(node, types[1])
    heads, head_dim = node.int_attr("heads"), node.int_attr("head_dim")
    if types[0].cols != heads * head_dim or _rotary(node, graph) > head_dim:
        raise _fail(node, f"input {types[0]} does not hold {heads} heads of {head_dim}")
    return [types[0]]


def _rope_table(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _check_positions(node, types[0])
    half = matrix(types[0].rows, _rotary(node, graph) // 2)
    return [half, half]


def _head_attrs(node: Node) -> tuple[int, int, int]:
    heads, kv_heads = node.int_attr("heads"), node.int_attr("kv_heads")
    head_dim = node.int_attr("head_dim")
    if heads <= 0 or kv_heads <= 0 or head_dim <= 0 or heads % kv_heads:
        raise _fail(node, f"{heads} heads, {kv_heads} KV heads, head_dim {head_dim} do not fit")
    if node.int_attr("window") < 0:
        raise _fail(node, f"window = {node.attrs['window']} is negative")
    if node.layer < 0:
        raise _fail(node, "has no layer")
    return heads, kv_heads, head_dim


def _check_scores(node: Node, graph: Graph, heads: int) -> None:
    """The extras of attention: a cap of the scores, and a sink for each head."""
    if "softcap" in node.attrs:
        _check_cap(node, "softcap")
    if "sinks" in node.weights and _weight_shape(node, graph, "sinks") != (heads,):
        raise _fail(node, f"sinks have shape {_weight_shape(node, graph, 'sinks')}, not ({heads},)")


def _attention(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    heads, kv_heads, head_dim = _head_attrs(node)
    _check_scores(node, graph, heads)
    for type_, count, what in zip(types, (heads, kv_heads, kv_heads), "qkv", strict=True):
        if type_ != matrix(Rows.TOKENS, count * head_dim):
            raise _fail(node, f"{what} is {type_}, expected f32[tokens, {count * head_dim}]")
    return [types[0]]


def _rope_kv_write(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    heads, kv_heads, head_dim = _head_attrs(node)
    want = matrix(Rows.TOKENS, (heads + 2 * kv_heads) * head_dim)
    if types[0] != want:
        raise _fail(node, f"qkv is {types[0]}, expected {want}")
    rotary = node.int_attr("rotary_dim")
    for type_ in types[1:]:
        if type_ != matrix(Rows.TOKENS, rotary // 2) or rotary > head_dim:
            raise _fail(node, f"table is {type_}, expected f32[tokens, {rotary // 2}]")
    if node.weights or "eps" in node.attrs:
        if set(node.weights) != {"q_gain", "k_gain"} or "eps" not in node.attrs:
            raise _fail(node, "q_gain, k_gain and eps come together")
        for role in node.weights:
            _check_head_gain(node, graph, role, head_dim)
    return [matrix(Rows.TOKENS, heads * head_dim)]


def _attention_kv(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    heads, _, head_dim = _head_attrs(node)
    _check_scores(node, graph, heads)
    if types[0] != matrix(Rows.TOKENS, heads * head_dim):
        raise _fail(node, f"q is {types[0]}, expected f32[tokens, {heads * head_dim}]")
    return [types[0]]


def _slice(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _f32_matrix(node, types[0], "input")
    start, size = node.int_attr("start"), node.int_attr("size")
    if start < 0 or size <= 0 or start + size > types[0].cols:
        raise _fail(node, f"columns [{start}, {start + size}) are outside of {types[0]}")
    return [types[0].with_cols(size)]


def _select_rows(node: Node, types: list[TensorType], graph: Graph) -> list[TensorType]:
    _f32_matrix(node, types[0], "input")
    if types[1].dtype is not DType.I32 or types[1].shape != (Rows.OUTPUTS,):
        raise _fail(node, f"rows are {types[1]}, expected i32[outputs]")
    if types[0].rows is not Rows.TOKENS:
        raise _fail(node, f"input is {types[0]}, expected rows of tokens")
    return [matrix(Rows.OUTPUTS, types[0].cols)]


_HEADS = (("heads", int), ("kv_heads", int), ("head_dim", int), ("window", int))
_ANY = (1, 64)

OPS: dict[str, OpSchema] = {
    schema.name: schema
    for schema in (
        OpSchema("embedding", 1, 1, _embedding, weights=("table",), row_wise=True),
        OpSchema("linear", 1, 1, _linear, segments=_ANY, row_wise=True),
        OpSchema(
            "rms_norm", 1, 1, _rms_norm, weights=("gain",), attrs=(("eps", float),), row_wise=True
        ),
        OpSchema(
            "head_rms_norm",
            1,
            1,
            _head_rms_norm,
            weights=("gain",),
            attrs=(("head_dim", int), ("eps", float)),
            row_wise=True,
        ),
        OpSchema(
            "rope",
            2,
            1,
            _rope,
            weights=("inv_freq",),
            attrs=(
                ("heads", int),
                ("head_dim", int),
                ("rotary_dim", int),
                ("attention_factor", float),
            ),
        ),
        OpSchema(
            "attention",
            3,
            1,
            _attention,
            attrs=(*_HEADS, ("scale", float)),
            effect=True,
            extra_weights=("sinks",),
            extra_attrs=(("softcap", float),),
        ),
        OpSchema("silu", 1, 1, _same, row_wise=True),
        OpSchema("gelu_tanh", 1, 1, _same, row_wise=True),
        OpSchema("softcap", 1, 1, _softcap, attrs=(("cap", float),), row_wise=True),
        OpSchema("scale", 1, 1, _same, attrs=(("factor", float),), row_wise=True),
        OpSchema("mul", 2, 1, _same, row_wise=True),
        OpSchema("add", 2, 1, _same, row_wise=True),
        OpSchema("slice", 1, 1, _slice, attrs=(("start", int), ("size", int)), row_wise=True),
        OpSchema("select_rows", 2, 1, _select_rows),
        OpSchema(
            "rope_table",
            1,
            2,
            _rope_table,
            weights=("inv_freq",),
            attrs=(("rotary_dim", int), ("attention_factor", float)),
            portable=False,
        ),
        OpSchema(
            "add_rms_norm",
            2,
            2,
            _add_rms_norm,
            weights=("gain",),
            attrs=(("eps", float),),
            portable=False,
            row_wise=True,
        ),
        OpSchema(
            "linear_glu",
            1,
            1,
            _linear_glu,
            segments=(2, 2),
            attrs=(("activation", str),),
            portable=False,
            row_wise=True,
        ),
        OpSchema(
            "rope_kv_write",
            3,
            1,
            _rope_kv_write,
            attrs=(*_HEADS, ("rotary_dim", int)),
            portable=False,
            effect=True,
            extra_weights=("q_gain", "k_gain"),
            extra_attrs=(("eps", float),),
        ),
        OpSchema(
            "attention_kv",
            1,
            1,
            _attention_kv,
            attrs=(*_HEADS, ("scale", float)),
            portable=False,
            extra_weights=("sinks",),
            extra_attrs=(("softcap", float),),
        ),
    )
}


def schema_of(node: Node) -> OpSchema:
    schema = OPS.get(node.op)
    if schema is None:
        raise _fail(node, f"unknown operator; known: {', '.join(sorted(OPS))}")
    return schema


def infer(node: Node, graph: Graph) -> list[TensorType]:
    """Checks a node against its schema and gives the types of its outputs."""
    schema = schema_of(node)
    if len(node.inputs) != schema.inputs or len(node.outputs) != schema.outputs:
        raise _fail(
            node,
            f"has {len(node.inputs)} inputs and {len(node.outputs)} outputs, "
            f"expected {schema.inputs} and {schema.outputs}",
        )
    roles, expected = schema.expected(node)
    if set(node.weights) != roles:
        raise _fail(node, f"has weights {sorted(node.weights)}, expected {sorted(roles)}")
    low, high = schema.segments
    if not low <= len(node.segments) <= high:
        raise _fail(node, f"has {len(node.segments)} segments, expected {low} to {high}")
    if set(node.attrs) != set(expected):
        raise _fail(node, f"has attributes {sorted(node.attrs)}, expected {sorted(expected)}")
    for name, type_ in expected.items():
        if type(node.attrs[name]) is not type_:
            raise _fail(node, f"attribute {name} = {node.attrs[name]!r} is not {type_.__name__}")
    for constant in node.constants():
        if constant not in graph.constants:
            raise _fail(node, f"reads an undeclared constant {constant}")
    types = []
    for name in node.inputs:
        if name not in graph.values:
            raise _fail(node, f"reads {name} before it is defined")
        types.append(graph.values[name])
    return schema.infer(node, types, graph)
