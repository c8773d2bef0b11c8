"""The CPU plan: executed in numpy inside its own arena, its schema, memory, capability, weights."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runner import PlanRunner
from tiny_models import TinyConfig, config_json, make_tensors, random_config

from slipstream.builder.errors import UnsupportedError
from slipstream.builder.formats import ELEMENT_BYTES
from slipstream.builder.ir import Graph, Node, graph_from_json
from slipstream.builder.ir.interpret import Interpreter
from slipstream.builder.models import ModelSpec, build_graph, expected_tensors, parse_config
from slipstream.builder.plan.memory import Buffer, lower_bound, plan_memory
from slipstream.builder.plan.program import CpuProgram
from slipstream.builder.plan.tensors import pad_rows
from slipstream.builder.targets.cpu import CpuTarget
from slipstream.builder.targets.portable import run_portable_passes


@dataclass(frozen=True)
class Options:
    weights: str = "f32"
    kv_cache: str = "f32"
    max_batch_size: int = 16
    max_num_tokens: int = 64


def compile_cpu(graph: Graph, spec: ModelSpec, options: Options) -> CpuProgram:
    portable, _ = run_portable_passes(graph)
    return CpuTarget().compile(portable, spec, options)


def compile_tiny(tiny: TinyConfig, options: Options | None = None) -> CpuProgram:
    spec = parse_config(config_json(tiny))
    return compile_cpu(build_graph(spec), spec, options or Options())


@pytest.mark.parametrize("seed", range(12))
def test_the_plan_computes_what_the_graph_means(seed: int) -> None:
    tiny = random_config(seed)
    weights = make_tensors(tiny)
    spec = parse_config(config_json(tiny))
    graph = build_graph(spec)
    runner = PlanRunner(compile_cpu(graph, spec, Options()), weights.__getitem__)
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, tiny.vocab, n).tolist() for n in (21, 13, 30)]
    expected = Interpreter(graph, weights.__getitem__).run(sequences)

    done = [0, 0, 0]
    while any(done[i] < len(s) for i, s in enumerate(sequences)):
        chunks: list[tuple[int, list[int]]] = []
        outputs: list[int] = []
        wanted: list[Any] = []
        row = 0
        for slot, sequence in enumerate(sequences):
            count = min(int(rng.integers(0, 9)), len(sequence) - done[slot])
            if count == 0:
                continue
            chunks.append((slot, sequence[done[slot] : done[slot] + count]))
            # Any subset of rows may be asked for, also none.
            for i in range(count):
                if rng.random() < 0.4 and len(outputs) < 16:
                    outputs.append(row + i)
                    wanted.append(expected[slot][done[slot] + i])
            done[slot] += count
            row += count
        if not chunks:
            continue
        logits, hidden = runner.step(chunks, outputs)
        assert logits.shape == (len(outputs), pad_rows(tiny.vocab))
        assert hidden.shape == (len(outputs), tiny.hidden)
        assert not logits[:, tiny.vocab :].any()
        if outputs:
            scale = np.ptp(np.concatenate(expected))
            assert np.abs(logits[:, : tiny.vocab] - np.stack(wanted)).max() < 2e-5 * scale


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_follows_its_schema(seed: int) -> None:
    tiny = random_config(seed)
    program = compile_tiny(tiny, Options(weights="bf16", kv_cache="f16"))
    plan = program.plan_json
    assert set(plan) == {
        "version",
        "numerics",
        "arena_bytes",
        "max_tokens",
        "max_outputs",
        "values",
        "steps",
        "results",
    }
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    names = {t.name for t in program.tensors}
    assert len(names) == len(program.tensors)
    defined: set[int] = set()
    for step in plan["steps"]:
        assert set(step) == {"op", "inputs", "outputs", "weights", "attrs"}
        assert set(step["inputs"]) <= defined
        assert not set(step["outputs"]) & defined
        defined |= set(step["outputs"])
        assert set(step["weights"].values()) <= names
    assert defined == set(range(len(plan["values"])))
    used = {name for step in plan["steps"] for name in step["weights"].values()}
    assert used == names
    for value in plan["values"]:
        assert value["stride"] == -(-value["cols"] // 16) * 16
        rows = {"tokens": 64, "outputs": 16}[value["rows"]]
        assert value["offset"] + rows * value["stride"] * 4 <= plan["arena_bytes"]


def test_every_checkpoint_tensor_is_a_source_exactly_once() -> None:
    for seed in range(10):
        tiny = random_config(seed)
        program = compile_tiny(tiny, Options(weights="f16"))
        spec = parse_config(config_json(tiny))
        sources = [(s.checkpoint_name, s.dims) for t in program.tensors for s in t.sources]
        assert sorted(sources) == sorted(expected_tensors(spec).items())
        literal = [t for t in program.tensors if t.literal is not None]
        assert [t.name for t in literal] == ["rope.inv_freq"]
        assert not literal[0].updatable and literal[0].updatable_reason
        assert literal[0].literal == np.asarray(spec.rope.inv_freq, "<f4").tobytes()


def test_layout_of_an_odd_fused_matrix() -> None:
    tiny = TinyConfig(hidden=35, heads=5, kv_heads=1, head_dim=6, attention_bias=True)
    program = compile_tiny(tiny, Options(weights="bf16"))
    by_name = {t.name: t for t in program.tensors}
    qkv = by_name["layers.0.qkv.weight"]
    assert (qkv.format, qkv.layout) == ("bf16", "n16k4")
    assert qkv.logical_shape == (30 + 6 + 6, 35)
    assert qkv.packed_rows == 32 + 16 + 16
    assert [(s.segment, s.offset, s.dims) for s in qkv.sources] == [
        ("q", 0, (30, 35)),
        ("k", 32, (6, 35)),
        ("v", 48, (6, 35)),
    ]
    assert qkv.packed_cols == 36
    assert qkv.size_bytes == 64 * 36 * 2
    bias = by_name["layers.0.qkv.bias"]
    assert (bias.format, bias.layout, bias.packed_rows) == ("f32", "row_major", 64)
    assert [s.offset for s in bias.sources] == [0, 32, 48]
    write = next(s for s in program.plan_json["steps"] if s["op"] == "rope_kv_write")
    assert [write["attrs"][c] for c in ("q_col", "k_col", "v_col")] == [0, 32, 48]
    glu = next(s for s in program.plan_json["steps"] if s["op"] == "linear_glu")
    assert (glu["attrs"]["gate_row"], glu["attrs"]["up_row"]) == (0, 64)


def test_padded_columns_are_declared() -> None:
    program = compile_tiny(TinyConfig(hidden=40, intermediate=43))
    values = program.plan_json["values"]
    cols = {
        (s["op"], values[s["outputs"][0]]["name"]): values[s["outputs"][0]]["cols"]
        for s in program.plan_json["steps"]
    }
    assert cols["linear_glu", "layers.0.gated"] == 48
    assert cols["linear", "layers.0.down"] == 48
    assert cols["linear", "layers.0.qkv"] == 48 + 32 + 32
    assert cols["rope_kv_write", "layers.0.rope_kv"] == 40
    assert cols["add_rms_norm", "layers.0.attn_add"] == 40
    assert cols["linear", "logits"] == 144


def test_a_result_lives_to_the_end_of_the_step() -> None:
    tiny = TinyConfig(layers=2)
    weights = make_tensors(tiny)
    spec = parse_config(config_json(tiny))
    graph = build_graph(spec)
    early = Node("select_rows", "early", ("embed", "output_rows"), ("early",))
    nodes = [*graph.nodes[:1], early, *graph.nodes[1:]]
    graph = graph.with_nodes(nodes, {**graph.results, "hidden": "early"})
    program = compile_cpu(graph, spec, Options(max_batch_size=64))
    values, steps = program.plan_json["values"], program.plan_json["steps"]
    kept = program.plan_json["results"]["hidden"]
    end = values[kept]["offset"] + 64 * values[kept]["stride"] * 4
    made = next(i for i, s in enumerate(steps) if kept in s["outputs"])
    for step in steps[made + 1 :]:
        for value in (values[v] for v in step["outputs"]):
            rows = {"tokens": 64, "outputs": 64}[value["rows"]]
            size = rows * value["stride"] * 4
            assert value["offset"] >= end or value["offset"] + size <= values[kept]["offset"]
    runner = PlanRunner(program, weights.__getitem__)
    tokens = list(range(16))
    _, hidden = runner.step([(0, tokens)], tokens)
    np.testing.assert_array_equal(hidden, weights["model.embed_tokens.weight"][:16])


def test_a_tied_head_shares_the_embedding() -> None:
    tied = compile_tiny(TinyConfig(tied=True))
    tables = [t for t in tied.tensors if t.logical_shape == (131, 40)]
    assert [(t.name, t.layout) for t in tables] == [("embed.weight", "n16k4")]
    steps = tied.plan_json["steps"]
    assert steps[-1]["weights"]["w"] == "embed.weight"
    assert any("tied" in line for line in tied.log)
    untied = compile_tiny(TinyConfig(tied=False))
    layouts = {t.name: t.layout for t in untied.tensors if t.logical_shape == (131, 40)}
    assert layouts == {"embed.weight": "row_major", "head.weight": "n16k4"}


def test_kv_groups_by_window() -> None:
    tiny = TinyConfig(
        architecture="Qwen2ForCausalLM", layers=4, window=8, max_window_layers=1, kv_heads=2
    )
    program = compile_tiny(tiny, Options(kv_cache="f16"))
    full, window = program.kv_groups
    assert (full["kind"], full["layers"], full["window"]) == ("full", [0], 0)
    assert (window["kind"], window["layers"], window["window"]) == ("window", [1, 2, 3], 8)
    assert window["bytes_per_block"] == 3 * 2 * 2 * 10 * 32 * 2
    attention = [s["attrs"] for s in program.plan_json["steps"] if s["op"] == "attention"]
    assert [(a["group"], a["layer"]) for a in attention] == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert program.memory["kv_bytes_per_token"] == 4 * 2 * 2 * 10 * 2


def test_an_int8_cache_has_a_scale_for_each_token_and_head() -> None:
    tiny = TinyConfig(
        architecture="Qwen2ForCausalLM", layers=4, window=8, max_window_layers=1, kv_heads=2
    )
    program = compile_tiny(tiny, Options(kv_cache="int8"))
    assert [g["dtype"] for g in program.kv_groups] == ["int8", "int8"]
    assert {g["scale_granularity"] for g in program.kv_groups} == {"token_head"}
    # K and V of 10 elements, and an f32 scale for each.
    assert [g["bytes_per_block"] for g in program.kv_groups] == [
        layers * 2 * 2 * (10 + 4) * 32 for layers in (1, 3)
    ]
    assert program.memory["kv_bytes_per_token"] == 4 * 2 * 2 * (10 + 4)
    floats = compile_tiny(tiny, Options(kv_cache="bf16"))
    assert floats.plan_json == program.plan_json
    assert {g["scale_granularity"] for g in floats.kv_groups} == {"none"}


def test_work_after_the_last_attention_runs_on_output_rows() -> None:
    program = compile_tiny(TinyConfig(layers=2))
    values = program.plan_json["values"]
    last = max(i for i, s in enumerate(program.plan_json["steps"]) if s["op"] == "attention")
    for step in program.plan_json["steps"][last + 1 :]:
        assert all(values[v]["rows"] == "outputs" for v in step["outputs"])


def test_compilation_is_deterministic_and_stores_the_portable_graph() -> None:
    tiny = random_config(4)
    one, two = compile_tiny(tiny), compile_tiny(tiny)
    assert json.dumps(one.plan_json) == json.dumps(two.plan_json)
    assert one == two
    graph = graph_from_json(json.loads(json.dumps(one.graph_json)))
    spec = parse_config(config_json(tiny))
    assert compile_cpu(graph, spec, Options()).plan_json == one.plan_json


def test_memory_of_programs_is_reported_against_the_bound() -> None:
    for seed in range(10):
        memory = compile_tiny(random_config(seed)).memory
        assert memory["arena_lower_bound_bytes"] <= memory["arena_bytes"]
        assert memory["arena_bytes"] <= 1.25 * memory["arena_lower_bound_bytes"]


def test_weights_bytes_count_the_formats() -> None:
    for fmt in ("f32", "f16", "bf16"):
        program = compile_tiny(TinyConfig(), Options(weights=fmt))
        matrix = next(t for t in program.tensors if t.name == "layers.0.down.weight")
        assert matrix.size_bytes == 48 * 56 * ELEMENT_BYTES[fmt]
        assert program.memory["weights_bytes"] == sum(t.size_bytes for t in program.tensors)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(weights="int8"), ["--weights int8", "f32, f16, bf16", "embed"]),
        (Options(kv_cache="fp8"), ["--kv-cache fp8", "f32, f16, bf16, int8", "layer 0"]),
    ],
)
def test_unsupported_formats_name_layer_flag_and_fix(options: Options, words: list[str]) -> None:
    with pytest.raises(UnsupportedError) as error:
        compile_tiny(TinyConfig(), options)
    for word in words:
        assert word in str(error.value)
    assert error.value.exit_code == 2


def test_an_operator_without_a_kernel_is_named() -> None:
    spec = parse_config(config_json(TinyConfig()))
    graph = build_graph(spec)
    nodes = []
    for node in graph.nodes:
        if node.name == "layers.1.up":
            segment = replace(node.segments[0], name="other")
            node = replace(node, segments=(segment,))
        nodes.append(node)
    broken = graph.with_nodes(nodes)
    with pytest.raises(UnsupportedError, match=r"layer 1: operator 'silu'.*no CPU kernel"):
        compile_cpu(broken, spec, Options())


def test_check_runs_before_any_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_config(config_json(TinyConfig()))

    def fail(self: Any, graph: Graph) -> Any:
        raise AssertionError("a pass ran")

    monkeypatch.setattr("slipstream.builder.passes.fuse_qkv.FuseQkv.run", fail)
    with pytest.raises(UnsupportedError):
        CpuTarget().compile(build_graph(spec), spec, Options(weights="nvfp4"))


_BUFFERS = st.lists(
    st.builds(
        lambda size, first, length: Buffer(size, first, first + length),
        st.integers(1, 5000),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(_BUFFERS)
def test_no_two_live_values_overlap(buffers: list[Buffer]) -> None:
    plan = plan_memory(buffers)
    assert plan.lower_bound_bytes == lower_bound(buffers)
    assert plan.lower_bound_bytes <= plan.arena_bytes
    for i, a in enumerate(buffers):
        assert plan.offsets[i] % 64 == 0
        assert plan.offsets[i] >= 0 and plan.offsets[i] + a.size <= plan.arena_bytes
        for j, b in enumerate(buffers[:i]):
            together = any(
                a.first <= step <= a.last and b.first <= step <= b.last for step in range(45)
            )
            apart = (
                plan.offsets[i] + a.size <= plan.offsets[j]
                or plan.offsets[j] + b.size <= plan.offsets[i]
            )
            assert apart or not together


@settings(max_examples=100, deadline=None)
@given(_BUFFERS)
def test_the_lower_bound_is_the_peak(buffers: list[Buffer]) -> None:
    live = [
        sum(-(-b.size // 64) * 64 for b in buffers if b.first <= step <= b.last)
        for step in range(45)
    ]
    assert lower_bound(buffers) == max(live)
