"""Every pass keeps the numbers of random tiny models, does what it says, and leaves the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import TinyConfig, config_json, make_tensors, random_config

from slipstream.builder.errors import InputError, InternalError
from slipstream.builder.ir import Constant, DType, Graph, Node, Rows, Segment, verify
from slipstream.builder.ir.interpret import Chunk, Interpreter, KvCache
from slipstream.builder.ir.types import vector
from slipstream.builder.models import build_graph, parse_config
from slipstream.builder.passes import IrDumper, Pass, PassManager, PassResult
from slipstream.builder.passes.fold import Fold
from slipstream.builder.passes.fuse_gate_up import FuseGateUp
from slipstream.builder.passes.fuse_qkv import FuseQkv
from slipstream.builder.passes.fuse_residual_norm import FuseResidualNorm
from slipstream.builder.passes.fuse_rope_kv import FuseRopeKv
from slipstream.builder.passes.sink_select_rows import SinkSelectRows

Array = NDArray[Any]

# What has to run before a pass for it to find its pattern.
PASSES: list[tuple[Pass, tuple[Pass, ...]]] = [
    (Fold(), ()),
    (SinkSelectRows(), ()),
    (FuseQkv(), ()),
    (FuseGateUp(), ()),
    (FuseResidualNorm(), ()),
    (FuseResidualNorm(), (SinkSelectRows(),)),
    (FuseRopeKv(), (FuseQkv(),)),
]


def tiny_graph(tiny: TinyConfig) -> tuple[Graph, dict[str, Array]]:
    return build_graph(parse_config(config_json(tiny))), make_tensors(tiny)


def steps_of(graph: Graph, weights: dict[str, Array], seed: int) -> tuple[Array, Array]:
    """Logits and hidden rows of a few mixed steps of three sequences, in f64."""
    rng = np.random.default_rng(seed)
    interpreter = Interpreter(graph, weights.__getitem__, np.float64)
    vocab = graph.values[graph.results["logits"]].cols
    cache, logits, hidden = KvCache(), [], []
    for _ in range(4):
        chunks = [
            Chunk(slot, rng.integers(0, vocab, int(rng.integers(1, 7))).tolist())
            for slot in range(3)
            if rng.random() < 0.8
        ]
        if not chunks:
            continue
        total = sum(len(c.tokens) for c in chunks)
        rows = sorted(rng.choice(total, int(rng.integers(0, total + 1)), replace=False).tolist())
        result = interpreter.step(cache, chunks, rows)
        logits.append(result.logits)
        hidden.append(result.hidden)
    return np.concatenate(logits), np.concatenate(hidden)


def ops(graph: Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph.nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def assert_equal_numbers(before: Graph, after: Graph, weights: dict[str, Array]) -> None:
    for seed in range(2):
        want, got = steps_of(before, weights, seed), steps_of(after, weights, seed)
        for a, b in zip(want, got, strict=True):
            assert a.shape == b.shape and a.size
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-11 * max(1.0, np.abs(a).max()))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("item", "before"), PASSES, ids=lambda p: getattr(p, "name", None))
def test_equal_numbers_before_and_after(seed: int, item: Pass, before: tuple[Pass, ...]) -> None:
    graph, weights = tiny_graph(random_config(seed))
    start, _ = PassManager(before).run(graph)
    result = item.run(start)
    verify(result.graph, portable=item.portable)
    assert_equal_numbers(start, result.graph, weights)


@pytest.mark.parametrize("seed", range(8))
def test_equal_numbers_through_all_passes(seed: int) -> None:
    graph, weights = tiny_graph(random_config(seed))
    chain = (Fold(), SinkSelectRows(), FuseQkv(), FuseGateUp(), FuseResidualNorm(), FuseRopeKv())
    fused, log = PassManager(chain).run(graph)
    assert_equal_numbers(graph, fused, weights)
    assert [line.split(":")[0] for line in log] == [
        "sink_select_rows",
        "fuse_qkv",
        "fuse_gate_up",
        "fuse_residual_norm",
        "fuse_rope_kv",
        "fuse_rope_kv",
    ]


def test_what_each_pass_leaves() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=3))
    assert ops(graph)["linear"] == 3 * 7 + 1
    qkv = FuseQkv().run(graph).graph
    assert (ops(qkv)["linear"], ops(qkv)["slice"]) == (3 * 5 + 1, 9)
    fused = next(n for n in qkv.nodes if n.name == "layers.0.qkv")
    assert [(s.name, s.rows) for s in fused.segments] == [("q", 40), ("k", 20), ("v", 20)]
    glu = FuseGateUp().run(graph).graph
    assert ops(glu)["linear_glu"] == 3 and "silu" not in ops(glu) and "mul" not in ops(glu)
    node = next(n for n in glu.nodes if n.op == "linear_glu")
    assert [s.name for s in node.segments] == ["gate", "up"]
    norm = FuseResidualNorm().run(graph).graph
    # The first norm reads the embedding and the last one the selected rows.
    assert ops(norm)["add_rms_norm"] == 2 * 3 - 1 and ops(norm)["rms_norm"] == 2
    assert ops(norm)["add"] == 1
    rope = FuseRopeKv().run(qkv).graph
    assert ops(rope)["rope_table"] == 1 and ops(rope)["rope_kv_write"] == 3
    assert not {"rope", "slice", "attention"} & set(ops(rope))


def test_passes_do_not_change_their_argument() -> None:
    for item, before in PASSES:
        graph, _ = PassManager(before).run(tiny_graph(TinyConfig())[0])
        nodes, values = list(graph.nodes), dict(graph.values)
        item.run(graph)
        assert graph.nodes == nodes and graph.values == values


def test_passes_without_their_pattern_do_nothing() -> None:
    graph, _ = tiny_graph(TinyConfig())
    idle: tuple[Pass, ...] = (Fold(), FuseRopeKv())
    for item in idle:
        result = item.run(graph)
        assert result.graph.nodes == graph.nodes and result.log == ()
    chain: tuple[Pass, ...] = (FuseQkv(), FuseGateUp(), FuseResidualNorm(), FuseRopeKv())
    fused, _ = PassManager(chain).run(graph)
    for item in chain:
        assert item.run(fused).log == ()


def test_a_value_that_something_else_reads_is_not_fused_away() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=1))
    # The gate's projection is read twice, so it has to stay a value.
    nodes = []
    for node in graph.nodes:
        if node.name == "layers.0.down":
            extra = Node(
                "add",
                "layers.0.extra",
                ("layers.0.gated", "layers.0.gate"),
                ("layers.0.extra",),
                layer=0,
            )
            nodes += [extra, replace(node, inputs=("layers.0.extra",))]
        else:
            nodes.append(node)
    changed = graph.with_nodes(nodes)
    result = FuseGateUp().run(changed)
    assert result.log == () and "linear_glu" not in ops(result.graph)
    # Sinking the selection must respect both readers too.
    assert_equal_numbers(changed, SinkSelectRows().run(changed).graph, weights)


def test_mixed_biases_are_left_alone() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1, attention_bias=True))
    nodes = [
        replace(n, segments=(replace(n.segments[0], bias=None),)) if n.name == "layers.0.k" else n
        for n in graph.nodes
    ]
    assert FuseQkv().run(graph.with_nodes(nodes)).log == ()


def with_scales(graph: Graph, after: dict[str, tuple[float, ...]]) -> Graph:
    """Puts `scale` nodes behind the values named, each read in the place of the original."""
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        nodes.append(replace(node, inputs=tuple(renamed.get(i, i) for i in node.inputs)))
        value = node.outputs[0]
        for i, factor in enumerate(after.get(value, ())):
            name = f"{node.name}.scale{i}"
            source = renamed.get(value, value)
            nodes.append(
                Node("scale", name, (source,), (name,), attrs={"factor": factor}, layer=node.layer)
            )
            renamed[value] = name
    results = {role: renamed.get(v, v) for role, v in graph.results.items()}
    return graph.with_nodes(nodes, results)


def test_fold_moves_scales_into_attention() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=2))
    factors = {"layers.0.q": (2.0, 0.25), "layers.0.k_rope": (1.5,), "layers.1.q_rope": (1.0,)}
    scaled = with_scales(graph, factors)
    assert ops(scaled)["scale"] == 4
    result = Fold().run(scaled)
    assert "scale" not in ops(result.graph)
    scales = [n.attrs["scale"] for n in result.graph.nodes if n.op == "attention"]
    base = 10**-0.5
    assert scales == pytest.approx([base * 2.0 * 0.25 * 1.5, base])
    assert_equal_numbers(scaled, result.graph, weights)
    text = "\n".join(result.log)
    assert "merged scales: 1" in text and "moved scales into attention: 2" in text
    assert "removed identities: 1" in text


def test_fold_keeps_scales_that_do_not_commute() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=1))
    # As values they scale the output; before the head and the norm they do not vanish either.
    scaled = with_scales(graph, {"layers.0.v": (2.0,), "embed": (3.0,), "logits": (0.5,)})
    result = Fold().run(scaled)
    assert ops(result.graph)["scale"] == 3
    assert_equal_numbers(scaled, result.graph, weights)


@pytest.mark.parametrize("roles", [(0, 1), (0, 2), (1, 2), (2,)])
def test_fold_keeps_a_scale_that_plays_several_roles(roles: tuple[int, ...]) -> None:
    """One scaled value as q and k counts twice, and as v it scales the output."""
    graph, weights = tiny_graph(TinyConfig(layers=1, kv_heads=4))
    scaled = with_scales(graph, {"layers.0.v": (2.0,)})
    nodes = []
    for node in scaled.nodes:
        if node.op == "attention":
            inputs = ["layers.0.q_rope", "layers.0.k_rope", "layers.0.v"]
            for role in roles:
                inputs[role] = "layers.0.v.scale0"
            node = replace(node, inputs=tuple(inputs))
        nodes.append(node)
    changed = scaled.with_nodes(nodes)
    result = Fold().run(changed)
    assert ops(result.graph)["scale"] == 1
    assert_equal_numbers(changed, result.graph, weights)


def test_gate_and_up_of_different_inputs_are_not_fused() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1))
    nodes = [
        replace(n, inputs=("layers.0.attn_norm",)) if n.name == "layers.0.up" else n
        for n in graph.nodes
    ]
    assert FuseGateUp().run(graph.with_nodes(nodes)).log == ()


def test_fold_moves_rope_factors_of_whole_heads() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=1))
    nodes = [
        replace(n, attrs={**n.attrs, "attention_factor": 1.25}) if n.op == "rope" else n
        for n in graph.nodes
    ]
    scaled = graph.with_nodes(nodes)
    result = Fold().run(scaled)
    assert {n.attrs["attention_factor"] for n in result.graph.nodes if n.op == "rope"} == {1.0}
    assert_equal_numbers(scaled, result.graph, weights)


def test_fold_keeps_rope_factors_of_partial_heads() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=1))
    partial = Constant("partial", (3,), values=(1.0, 0.5, 0.25))
    graph.add_constant(partial)
    attrs = {"attention_factor": 1.25, "rotary_dim": 6}
    nodes = [
        replace(n, weights={"inv_freq": "partial"}, attrs={**n.attrs, **attrs})
        if n.op == "rope"
        else n
        for n in graph.nodes
    ]
    scaled = graph.with_nodes(nodes)
    result = Fold().run(scaled)
    assert result.log == ()
    # The fused form must agree for partial rotation with a factor as well.
    fused, _ = PassManager((FuseQkv(), FuseRopeKv())).run(scaled)
    table = next(n for n in fused.nodes if n.op == "rope_table")
    assert table.attrs == attrs
    assert_equal_numbers(scaled, fused, weights)


def test_fold_drops_dead_code_and_whole_slices() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=1))
    graph.add_constant(Constant("unused", (9, 40), checkpoint_name="unused"))
    dead = Node("linear", "dead", ("embed",), ("dead",), segments=(Segment("x", 9, "unused"),))
    whole = Node("slice", "whole", ("hidden",), ("whole",), attrs={"start": 0, "size": 40})
    nodes = [*graph.nodes[:-1], dead, whole, replace(graph.nodes[-1], inputs=("whole",))]
    changed = graph.with_nodes(nodes)
    result = Fold().run(changed)
    assert "dead" not in {n.name for n in result.graph.nodes}
    assert "unused" not in result.graph.constants
    assert result.graph.nodes == graph.nodes
    assert sorted(result.log) == ["removed dead nodes: 1", "removed identities: 1"]
    assert_equal_numbers(changed, result.graph, {**weights, "unused": np.ones((9, 40))})


def test_tables_are_shared_only_between_equal_ropes() -> None:
    graph, weights = tiny_graph(TinyConfig(layers=2))
    other = Constant("other", (5,), values=(1.0, 0.5, 0.25, 0.1, 0.05))
    graph.add_constant(other)
    nodes = [
        replace(n, weights={"inv_freq": "other"}) if n.op == "rope" and n.layer == 1 else n
        for n in graph.nodes
    ]
    changed = graph.with_nodes(nodes)
    fused, _ = PassManager((FuseQkv(), FuseRopeKv())).run(changed)
    assert ops(fused)["rope_table"] == 2
    assert_equal_numbers(changed, fused, weights)


def _other_positions(node: Node) -> Node:
    if node.name != "layers.0.k_rope":
        return node
    return replace(node, inputs=(node.inputs[0], "token_ids"))


def _other_table(node: Node) -> Node:
    if node.name != "layers.0.k_rope":
        return node
    return replace(node, attrs={**node.attrs, "attention_factor": 2.0})


def _other_columns(node: Node) -> Node:
    return replace(node, attrs={**node.attrs, "start": 0}) if node.name == "layers.0.v" else node


@pytest.mark.parametrize("change", [_other_positions, _other_table, _other_columns])
def test_rope_and_kv_that_do_not_fit_together_are_left_alone(
    change: Callable[[Node], Node],
) -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1, kv_heads=4))
    start = FuseQkv().run(graph).graph
    changed = start.with_nodes([change(n) for n in start.nodes])
    assert changed.nodes != start.nodes
    assert FuseRopeKv().run(changed).log == ()


def test_an_unread_attention_still_writes_its_cache() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1))
    nodes = [
        replace(n, inputs=("embed", "embed")) if n.name == "layers.0.attn_add" else n
        for n in graph.nodes
    ]
    names = {n.name for n in Fold().run(graph.with_nodes(nodes)).graph.nodes}
    assert "layers.0.attention" in names and "layers.0.o" not in names


def test_the_manager_dumps_numbered_files(tmp_path: Path) -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1))
    dumper = IrDumper(tmp_path / "ir")
    dumper.dump("portable", graph)
    PassManager((Fold(), FuseQkv()), dumper).run(graph)
    names = sorted(p.name for p in (tmp_path / "ir").iterdir())
    assert names == ["00-portable.ir", "01-fold.ir", "02-fuse_qkv.ir"]
    assert (
        "q[40]: model.layers.0.self_attn.q_proj.weight"
        in (tmp_path / "ir" / "02-fuse_qkv.ir").read_text()
    )


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    graph, _ = tiny_graph(TinyConfig(layers=1))
    with pytest.raises(InputError, match="--dump-ir: cannot write"):
        IrDumper(tmp_path / "file").dump("portable", graph)


class _Broken:
    name = "broken"
    portable = True

    def run(self, graph: Graph) -> PassResult:
        new = graph.with_nodes(graph.nodes)
        new.values["stray"] = vector(Rows.TOKENS, DType.I32)
        return PassResult(new)


def test_the_manager_names_a_pass_that_breaks_the_graph() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1))
    with pytest.raises(InternalError, match=r"pass 'broken' broke the graph.*stray"):
        PassManager((_Broken(),)).run(graph)


def test_the_manager_refuses_target_operators_in_portable_runs() -> None:
    graph, _ = tiny_graph(TinyConfig(layers=1))
    with pytest.raises(InternalError, match="belongs to one target"):
        PassManager((FuseGateUp(),)).run(graph, portable=True)
