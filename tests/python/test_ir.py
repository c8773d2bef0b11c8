"""The representation: shape inference, verifier, printer, serialization."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tiny_models import TinyConfig, config_json, random_config

from slipstream.builder.engine.layout import canonical_json
from slipstream.builder.errors import InputError
from slipstream.builder.ir import (
    Constant,
    DType,
    Graph,
    Node,
    Rows,
    Segment,
    TensorType,
    VerifyError,
    graph_from_json,
    graph_to_json,
    print_graph,
    verify,
)
from slipstream.builder.ir.ops import OPS, ShapeError
from slipstream.builder.ir.types import matrix, vector
from slipstream.builder.models import build_graph, parse_config


def tiny_graph(tiny: TinyConfig | None = None) -> Graph:
    return build_graph(parse_config(config_json(tiny or TinyConfig(layers=1))))


def small() -> Graph:
    """x = embedding(ids); y = linear(x) with a bias; hidden = x, logits = y (selected)."""
    g = Graph("small")
    g.add_input("token_ids", vector(Rows.TOKENS, DType.I32))
    g.add_input("output_rows", vector(Rows.OUTPUTS, DType.I32))
    g.add_constant(Constant("table", (7, 4), checkpoint_name="t.weight"))
    g.add_constant(Constant("bias", (7,), values=(0.0, 1.0, 0.5, 0.25, -1.0, 2.0, 3.0)))
    g.add_node(Node("embedding", "x", ("token_ids",), ("x",), weights={"table": "table"}))
    g.add_node(Node("select_rows", "s", ("x", "output_rows"), ("s",)))
    g.add_node(Node("linear", "y", ("s",), ("y",), segments=(Segment("v", 7, "table", "bias"),)))
    g.results = {"hidden": "s", "logits": "y"}
    verify(g, portable=True)
    return g


def test_types_print_and_compare() -> None:
    assert str(matrix(Rows.TOKENS, 64)) == "f32[tokens, 64]"
    assert str(vector(Rows.OUTPUTS, DType.I32)) == "i32[outputs]"
    assert matrix(Rows.TOKENS, 64).with_cols(3) == matrix(Rows.TOKENS, 3)
    with pytest.raises(TypeError):
        _ = vector(Rows.TOKENS, DType.I32).cols


def test_shapes_are_inferred() -> None:
    g = small()
    assert g.values["x"] == matrix(Rows.TOKENS, 4)
    assert g.values["y"] == matrix(Rows.OUTPUTS, 7)
    graph = tiny_graph(TinyConfig(layers=1, heads=4, kv_heads=2, hidden=40, intermediate=56))
    assert graph.values["layers.0.k"] == matrix(Rows.TOKENS, 20)
    assert graph.values["layers.0.gated"] == matrix(Rows.TOKENS, 56)
    assert graph.values["logits"] == matrix(Rows.OUTPUTS, 131)


def _node(**changes: Any) -> Node:
    base: dict[str, Any] = {"op": "add", "name": "n", "inputs": ("x", "x"), "outputs": ("n",)}
    return Node(**{**base, **changes})


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (_node(op="warp"), "unknown operator; known: add"),
        (_node(inputs=("x",)), "has 1 inputs and 1 outputs, expected 2 and 1"),
        (_node(inputs=("x", "nowhere")), "reads nowhere before it is defined"),
        (_node(inputs=("x", "s")), "inputs differ"),
        (_node(inputs=("token_ids", "token_ids")), "expected an f32 matrix"),
        (_node(attrs={"eps": 1.0}), "has attributes"),
        (_node(weights={"gain": "table"}), "has weights"),
        (_node(segments=(Segment("a", 7, "table"),)), "has 1 segments"),
        (_node(op="scale", inputs=("x",), attrs={"factor": 2}), "is not float"),
        (_node(op="linear", inputs=("x",)), "has 0 segments"),
        (
            _node(op="linear", inputs=("x",), segments=(Segment("a", 6, "table"),)),
            r"reads table of shape \(7, 4\), expected \(6, 4\)",
        ),
        (
            _node(op="linear", inputs=("x",), segments=(Segment("a", 7, "gone"),)),
            "undeclared constant gone",
        ),
        (
            _node(op="linear", inputs=("x",), segments=(Segment("a", 7, "table"),) * 2),
            "segment names repeat",
        ),
        (
            _node(op="slice", inputs=("x",), attrs={"start": 2, "size": 3}),
            r"columns \[2, 5\) are outside",
        ),
        (_node(op="select_rows", inputs=("s", "output_rows")), "expected rows of tokens"),
        (
            _node(op="rms_norm", inputs=("x",), weights={"gain": "bias"}, attrs={"eps": 1e-5}),
            r"gain has shape \(7,\), expected \(4,\)",
        ),
    ],
)
def test_nodes_that_do_not_fit_are_refused(node: Node, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        small().add_node(node)


@pytest.mark.parametrize(
    ("attr", "value", "words"),
    [
        ("heads", 3, "3 heads, 2 KV heads"),
        ("window", -1, "is negative"),
        ("head_dim", 12, "q is f32"),
    ],
)
def test_attention_checks_its_heads(attr: str, value: int, words: str) -> None:
    graph = tiny_graph()
    nodes = [
        replace(n, attrs={**n.attrs, attr: value}) if n.op == "attention" else n
        for n in graph.nodes
    ]
    with pytest.raises(ShapeError, match=words):
        graph.with_nodes(nodes)


def _swap_nodes(g: Graph) -> None:
    g.nodes[0], g.nodes[1] = g.nodes[1], g.nodes[0]


def _set_value(g: Graph) -> None:
    g.values["y"] = matrix(Rows.OUTPUTS, 8)


def _stray(g: Graph) -> None:
    g.values["z"] = matrix(Rows.OUTPUTS, 8)


def _duplicate_name(g: Graph) -> None:
    g.nodes[1] = replace(g.nodes[1], name="x")


def _define_twice(g: Graph) -> None:
    g.nodes.append(replace(g.nodes[0], name="again"))


def _no_result(g: Graph) -> None:
    del g.results["hidden"]


def _bad_result(g: Graph) -> None:
    g.results["hidden"] = "nothing"


def _unused_constant(g: Graph) -> None:
    g.constants["more"] = Constant("more", (1,), checkpoint_name="more")


def _both_kinds(g: Graph) -> None:
    g.constants["bias"] = replace(g.constants["bias"], checkpoint_name="b")


def _wrong_count(g: Graph) -> None:
    g.constants["bias"] = replace(g.constants["bias"], values=(1.0,))


def _not_finite(g: Graph) -> None:
    g.constants["bias"] = replace(g.constants["bias"], values=(float("nan"),) * 7)


def _misfiled(g: Graph) -> None:
    g.constants["other"] = g.constants.pop("bias")


def _infinite_attr(g: Graph) -> None:
    g.add_node(Node("scale", "z", ("x",), ("z",), attrs={"factor": float("inf")}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_swap_nodes, "reads x before it is defined"),
        (_set_value, r"y is f32\[outputs, 8\], inferred f32\[outputs, 7\]"),
        (_stray, "values without a producer: \\['z'\\]"),
        (_duplicate_name, "two nodes are named x"),
        (_define_twice, "value x is defined twice"),
        (_no_result, "results are \\['logits'\\]"),
        (_bad_result, "names an unknown value nothing"),
        (_unused_constant, "constants that nothing reads: \\['more'\\]"),
        (_both_kinds, "either a checkpoint tensor or values"),
        (_wrong_count, "1 values for shape"),
        (_not_finite, "not finite"),
        (_misfiled, "constant bias is filed under other"),
        (_infinite_attr, "attribute factor = inf"),
    ],
)
def test_the_verifier_finds_damage(damage: Callable[[Graph], None], words: str) -> None:
    g = small()
    damage(g)
    with pytest.raises(VerifyError, match=words):
        verify(g)


def test_the_verifier_accepts_every_family_member() -> None:
    kinds = set()
    for seed in range(20):
        graph = tiny_graph(random_config(seed))
        verify(graph, portable=True)
        kinds.add(print_graph(graph))
    assert len(kinds) == 20


def test_printing_is_stable_and_complete() -> None:
    assert print_graph(small()) == (
        "graph small {\n"
        "  input %token_ids: i32[tokens]\n"
        "  input %output_rows: i32[outputs]\n"
        "  const bias: [7] = values (0.0, 1.0, 0.5, ... 7 values)\n"
        "  const table: [7, 4] = checkpoint t.weight\n"
        "  # outside of the layers\n"
        "  %x: f32[tokens, 4] = embedding(%token_ids, table=table)\n"
        "  %s: f32[outputs, 4] = select_rows(%x, %output_rows)\n"
        "  %y: f32[outputs, 7] = linear(%s, v[7]: table + bias)\n"
        "  result hidden = %s\n"
        "  result logits = %y\n"
        "}\n"
    )
    graph = tiny_graph()
    assert print_graph(graph) == print_graph(tiny_graph())
    assert "eps=1e-05" in print_graph(graph)
    assert len(print_graph(graph).splitlines()) > len(graph.nodes) + len(graph.constants)


def graph_bytes(graph: Graph) -> bytes:
    return canonical_json(graph_to_json(graph))


def test_serialization_round_trip() -> None:
    for seed in range(10):
        graph = tiny_graph(random_config(seed))
        data = graph_bytes(graph)
        again = graph_from_json(json.loads(data))
        assert graph_bytes(again) == data
        assert print_graph(again) == print_graph(graph)
        assert again == graph


def test_no_weight_bytes_in_the_graph() -> None:
    one = graph_bytes(tiny_graph(TinyConfig(layers=1)))
    wide = TinyConfig(layers=1, hidden=4000, intermediate=9000, head_dim=10)
    two = graph_bytes(tiny_graph(wide))
    assert abs(len(one) - len(two)) < 200


def _drop(path: list[Any]) -> Callable[[Any], None]:
    def damage(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return damage


def _put(path: list[Any], value: Any) -> Callable[[Any], None]:
    def damage(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _drop(["name"]),
        _drop(["nodes", 0]),
        _drop(["nodes", 1, "op"]),
        _put(["nodes", 1, "op"], "warp"),
        _put(["nodes", 1, "inputs"], 5),
        _put(["nodes", 0, "outputs"], ["other"]),
        _put(["nodes", 2, "segments", 0, "rows"], 6),
        _put(["nodes", 2, "segments", 0, "surprise"], 6),
        _put(["constants", 0, "values"], ["x"]),
        _put(["constants", 1, "shape"], [-7, 4]),
        _put(["inputs", 0, "dtype"], "f99"),
        _put(["inputs", 0, "shape"], ["many"]),
        _put(["results"], {}),
        _put(["results", "logits"], 3),
        _put(["constants"], {}),
    ],
)
def test_damaged_graphs_are_input_errors(damage: Callable[[Any], None]) -> None:
    data = copy.deepcopy(graph_to_json(small()))
    damage(data)
    with pytest.raises(InputError, match="graph section: not a valid graph"):
        graph_from_json(data)


@pytest.mark.parametrize("data", [{}, {"version": 2}, [], None])
def test_other_versions_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="cannot be read, this program reads 1"):
        graph_from_json(data)


def test_schemas_are_consistent() -> None:
    for name, schema in OPS.items():
        assert name == schema.name
        assert not (schema.row_wise and schema.effect)
    assert {n for n, s in OPS.items() if not s.portable} == {
        "rope_table",
        "add_rms_norm",
        "linear_glu",
        "rope_kv_write",
        "attention_kv",
    }


def test_a_constant_cannot_change_its_meaning() -> None:
    g = small()
    g.add_constant(g.constants["bias"])
    with pytest.raises(ValueError, match="declared twice"):
        g.add_constant(Constant("bias", (8,), checkpoint_name="b"))
    assert isinstance(g.values["x"], TensorType)
