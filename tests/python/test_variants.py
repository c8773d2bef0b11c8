"""Families beyond the first: Hugging Face parity on the interpreter and on the runtime, equal bits
on every CPU path and for every chunking, passes, plan and refusals."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plan_runner import PlanRunner
from test_passes import assert_equal_numbers
from test_plan import Options, compile_cpu
from tiny_models import TinyConfig, config_json, make_checkpoint, make_tensors, write_tokenizer

from slipstream.builder import native
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.reader import EngineReader
from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.ir.interpret import Interpreter
from slipstream.builder.ir.serialize import graph_from_json, graph_to_json
from slipstream.builder.models import build_graph, check_tensors, expected_tensors, parse_config
from slipstream.builder.passes import PassManager
from slipstream.builder.passes.fold import Fold
from slipstream.builder.passes.fuse_gate_up import FuseGateUp
from slipstream.builder.passes.fuse_qkv import FuseQkv
from slipstream.builder.passes.fuse_residual_norm import FuseResidualNorm
from slipstream.builder.passes.fuse_rope_kv import FuseRopeKv
from slipstream.builder.passes.sink_select_rows import SinkSelectRows
from slipstream.builder.plan.tensors import TensorSource
from slipstream.builder.targets.cpu import CpuTarget
from slipstream.builder.targets.tensorrt.compile import check_operators
from slipstream.errors import SlipstreamError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from make_reference_logits import (
    DRAWN,
    DRAWN_SEEDS,
    POSITIONS,
    REFERENCE,
    reference_logits,
    spec_of,
    tokens_of,
)

TOLERANCE = 1e-4
LIVE = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_torch = pytest.mark.skipif(
    not LIVE, reason="torch and transformers are not installed: stored logits are used instead"
)
needs_native = pytest.mark.skipif(not native.available(), reason="needs the C++ library")
FAMILIES = sorted(DRAWN)
STORED = [(name, seed) for name in FAMILIES for seed in DRAWN_SEEDS[name]]


def interpreted(tiny: TinyConfig) -> NDArray[Any]:
    graph = build_graph(spec_of(tiny))
    return Interpreter(graph, make_tensors(tiny).__getitem__).run([tokens_of(tiny)])[0]


def engine_of(tiny: TinyConfig, folder: Path) -> Path:
    checkpoint = make_checkpoint(folder / "checkpoint", tiny)
    write_tokenizer(checkpoint, 259)
    build(checkpoint, folder / "m.engine", BuildConfig(weights="f32", kv_cache="f32"))
    return folder / "m.engine"


@needs_torch
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_live_parity(family: str, seed: int, tmp_path: Path) -> None:
    tiny = DRAWN[family](seed)
    reference = reference_logits(tiny, tokens_of(tiny), spec_of(tiny).rope)
    limit = TOLERANCE * np.ptp(reference)
    assert np.abs(interpreted(tiny) - reference).max() < limit
    if native.available():
        logits = native.TeacherForcing(engine_of(tiny, tmp_path)).logits(tokens_of(tiny), 7)
        assert np.abs(logits - reference).max() < limit


@pytest.mark.parametrize(("family", "seed"), STORED)
def test_parity_with_stored_logits(family: str, seed: int, tmp_path: Path) -> None:
    tiny = DRAWN[family](seed)
    model = json.loads(REFERENCE.read_text())["drawn"][f"{family}-{seed}"]
    assert model["architecture"] == tiny.architecture
    assert list(map(int, model["rows"])) == sorted(POSITIONS, key=str)
    found = [interpreted(tiny)]
    if native.available():
        found.append(native.TeacherForcing(engine_of(tiny, tmp_path)).logits(tokens_of(tiny), 7))
    for logits in found:
        for position, row in model["rows"].items():
            assert np.abs(logits[int(position)] - row).max() < TOLERANCE * model["range"]


@needs_native
@pytest.mark.parametrize("family", FAMILIES)
def test_every_path_and_chunking_gives_the_same_bits(family: str, tmp_path: Path) -> None:
    tiny = DRAWN[family](3)
    engine, tokens = engine_of(tiny, tmp_path), tokens_of(tiny)
    want = native.TeacherForcing(engine, cpu_path="scalar").logits(tokens, 40)
    ran = 0
    for path in ("scalar", "emulated16", "avx2", "avx512"):
        try:
            forcing = native.TeacherForcing(engine, cpu_path=path, threads=2)
        except SlipstreamError:
            assert path in ("avx2", "avx512")  # Not every machine has them.
            continue
        for chunk in (1, 7, 40):
            np.testing.assert_array_equal(forcing.logits(tokens, chunk), want)
            ran += 1
    assert ran >= 6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", FAMILIES)
def test_passes_and_plan_keep_the_numbers(family: str, seed: int) -> None:
    tiny = DRAWN[family](seed)
    spec, weights = spec_of(tiny), make_tensors(tiny)
    graph = build_graph(spec)
    fused, _ = PassManager((FuseQkv(), FuseRopeKv())).run(graph)
    assert {n.op for n in fused.nodes} & {"rope", "head_rms_norm", "attention"} == set()
    assert_equal_numbers(graph, fused, weights)
    for item in (Fold(), SinkSelectRows(), FuseQkv(), FuseGateUp(), FuseResidualNorm()):
        assert_equal_numbers(graph, item.run(graph).graph, weights)
    every, _ = PassManager((Fold(), *CpuTarget().passes())).run(graph)
    assert {n.op for n in every.nodes} & {"silu", "gelu_tanh", "mul"} == set()
    assert_equal_numbers(graph, every, weights)
    tokens = tokens_of(tiny)
    want = Interpreter(graph, weights.__getitem__).run([tokens])[0]
    runner = PlanRunner(compile_cpu(graph, spec, Options()), weights.__getitem__)
    for first in range(0, 40, 8):
        logits, _ = runner.step([(0, tokens[first : first + 8])], range(8))
        gap = np.abs(logits[:, : tiny.vocab] - want[first : first + 8]).max()
        assert gap < 1e-4 * np.ptp(want)


@needs_native
@pytest.mark.parametrize("family", FAMILIES)
def test_int8_cache_on_every_path_and_against_the_interpreter(family: str, tmp_path: Path) -> None:
    tiny = DRAWN[family](3)
    tokens = tokens_of(tiny)
    checkpoint = make_checkpoint(tmp_path / "checkpoint", tiny)
    write_tokenizer(checkpoint, 259)
    engine = tmp_path / "m.engine"
    build(checkpoint, engine, BuildConfig(weights="f32", kv_cache="int8"))
    want = native.TeacherForcing(engine, cpu_path="scalar").logits(tokens, 40)
    ran = 0
    for path in ("emulated16", "avx2", "avx512"):
        try:
            forcing = native.TeacherForcing(engine, cpu_path=path, threads=2)
        except SlipstreamError:
            assert path in ("avx2", "avx512")
            continue
        for chunk in (1, 7, 40):
            np.testing.assert_array_equal(forcing.logits(tokens, chunk), want)
            ran += 1
    assert ran >= 3
    graph = build_graph(spec_of(tiny))
    weights = make_tensors(tiny).__getitem__
    rounded = Interpreter(graph, weights, kv_format="int8").run([tokens])[0]
    # A key next to the middle of two steps may round the other way in numpy's order of sums: one
    # such element is a hundredth of a step that all positions after it see.
    assert np.abs(want - rounded).mean() < 1e-3 * np.ptp(rounded)
    exact = interpreted(tiny)
    assert 1e-5 * np.ptp(exact) < np.abs(want - exact).max() < 0.1 * np.ptp(exact)


@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_survive_serialization(family: str) -> None:
    graph = build_graph(spec_of(DRAWN[family](1)))
    back = graph_from_json(json.loads(json.dumps(graph_to_json(graph))))
    assert back.constants == graph.constants and back.nodes == graph.nodes


def test_fused_tensors_are_read_by_rows() -> None:
    tiny = DRAWN["phi3"](1)
    spec = spec_of(tiny)
    names = set(expected_tensors(spec))
    assert "model.layers.0.self_attn.qkv_proj.weight" in names
    assert "model.layers.0.mlp.gate_up_proj.weight" in names
    program = compile_cpu(build_graph(spec), spec, Options())
    qkv = next(t for t in program.tensors if t.name == "layers.0.qkv.weight")
    q, kv = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    starts = [0, q, q + kv, q + 2 * kv]
    assert [s.transforms for s in qkv.sources] == [(f"rows:{a}:{b}",) for a, b in pairwise(starts)]
    assert {s.dims for s in qkv.sources} == {(q + 2 * kv, spec.hidden_size)}
    check_tensors(spec, expected_tensors(spec))


@pytest.mark.parametrize(
    "transform", ["rows:3", "rows:2:9", "rows:-1:2", "rows:3:3", "flip", "add:", "add:nan"]
)
def test_unknown_transforms_are_refused(transform: str) -> None:
    source = TensorSource("w", (8, 4), transforms=(transform,))
    with pytest.raises(ValueError, match="w: "):
        _ = source.rows


def test_targets_without_head_norms_say_so() -> None:
    with pytest.raises(UnsupportedError, match="no layer for the operator 'head_rms_norm'"):
        check_operators(build_graph(spec_of(DRAWN["qwen3"](0))))


def gemma_of(number: int, **extra: Any) -> TinyConfig:
    """The first drawn Gemma of that kind, with other keys in its config."""
    name = {1: "GemmaForCausalLM", 2: "Gemma2ForCausalLM", 3: "Gemma3ForCausalLM"}[number]
    tiny = next(t for t in map(DRAWN["gemma"], range(9)) if t.architecture == name)
    return replace(tiny, extra={**(tiny.extra or {}), **extra})


def test_gemma2_means_what_its_config_says() -> None:
    tiny = gemma_of(2, query_pre_attn_scalar=64, final_logit_softcapping=None)
    spec = parse_config(config_json(tiny))
    assert spec.windows == tuple(0 if i % 2 else tiny.window for i in range(tiny.layers))
    assert (spec.attention_scale, spec.logit_softcap) == (0.125, 0.0)
    assert spec.embedding_scale == float(np.float32(np.sqrt(tiny.hidden)))
    config = config_json(tiny)
    for key in ("final_logit_softcapping", "attn_logit_softcapping", "tie_word_embeddings"):
        config.pop(key)
    spec = parse_config(config)
    assert (spec.attention_softcap, spec.logit_softcap, spec.tied_embeddings) == (50, 30, True)
    types = ["full_attention", "sliding_attention", "full_attention"][: tiny.layers]
    assert parse_config({**config, "layer_types": types}).windows[:2] == (0, tiny.window)


def test_gains_are_stored_whole() -> None:
    """A Gemma checkpoint holds gain - 1; the engine holds the gain, and says how it was made."""
    tiny = gemma_of(2)
    program = compile_cpu(build_graph(spec_of(tiny)), spec_of(tiny), Options())
    gain = next(t for t in program.tensors if t.name == "layers.0.attn_norm.gain")
    (source,) = gain.sources
    assert source.transforms == ("add:1.0",) and source.addend == 1.0 and gain.updatable


@needs_native
def test_gains_in_the_file(tmp_path: Path) -> None:
    tiny = gemma_of(2)
    engine = engine_of(tiny, tmp_path)
    name = "model.layers.0.input_layernorm.weight"
    with EngineReader(engine) as reader:
        entry = next(
            t for t in reader.manifest["tensors"] if t["name"] == "layers.0.attn_norm.gain"
        )
        stored = np.frombuffer(reader.tensor_bytes("layers.0.attn_norm.gain"), "<f4")
    assert entry["sources"][0]["transforms"] == ["add:1.0"]
    np.testing.assert_array_equal(stored, make_tensors(tiny)[name] + np.float32(1))


def test_gemma3_gives_each_kind_of_layer_its_rope() -> None:
    old, new = (
        gemma_of(3),
        next(
            t
            for t in map(DRAWN["gemma"], range(9))
            if t.architecture == "Gemma3ForCausalLM" and t.spelling == 5
        ),
    )
    spec = parse_config(
        config_json(
            replace(
                old,
                spelling=4,
                rope=None,
                extra={"head_dim": 16, "sliding_window_pattern": 2, "rope_local_base_freq": 5000.0},
            )
        )
    )
    assert spec.local_rope is not None and spec.local_rope.theta == 5000.0
    assert spec.rope.theta == 10000.0
    spec = parse_config(config_json(new))
    assert spec.local_rope is not None and spec.local_rope.theta == 3000.0
    assert (spec.rope.kind, spec.rope.theta, spec.local_rope.kind) == ("linear", 50000.0, "default")
    config = config_json(new)
    del config["rope_parameters"]
    spec = parse_config(config)
    assert spec.local_rope is not None
    assert (spec.rope.theta, spec.local_rope.theta) == (1e6, 1e4)
    graph = build_graph(spec)
    by_window = {
        bool(spec.windows[n.layer]): n.weights["inv_freq"] for n in graph.nodes if n.op == "rope"
    }
    assert by_window == {True: "rope.local_inv_freq", False: "rope.inv_freq"}


def test_gemma_reads_the_files_of_its_first_release() -> None:
    config = config_json(gemma_of(1))
    old = {**config, "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}
    assert parse_config(old) == parse_config(config)
    assert parse_config(config).activation == "gelu_tanh"


@pytest.mark.parametrize(
    ("number", "changes", "words"),
    [
        (2, {"use_bidirectional_attention": True}, "'use_bidirectional_attention' = True"),
        (2, {"sliding_window": None}, "sets no sliding window"),
        (2, {"hidden_activation": "gelu"}, "'hidden_activation' = 'gelu' changes"),
        (2, {"hidden_act": "silu"}, "'hidden_act' = 'silu' differs from 'hidden_activation'"),
        (2, {"final_logit_softcapping": 0}, "outside of 0.001 to 100000"),
        (2, {"query_pre_attn_scalar": 0}, "outside of 0.001 to"),
        (3, {"attn_logit_softcapping": 50.0}, "'attn_logit_softcapping' = 50.0 changes"),
        (3, {"rope_parameters": {"other": {}}}, "'rope_parameters.'other'' is not known"),
        (3, {"rope_parameters": {"full_attention": 3}}, "rope_parameters.full_attention"),
        (3, {"rope_parameters": {"sliding_attention": {"rope_theta": 0.5}}}, "outside of 1 to"),
        (3, {"sliding_window_pattern": 0}, "outside of 1 to 1024"),
        (1, {"layer_types": ["sliding_attention"] * 3}, "layer_types"),
    ],
)
def test_gemma_refusals(number: int, changes: dict[str, Any], words: str) -> None:
    tiny = gemma_of(number)
    config = {**config_json(tiny), "rope_scaling": None, **changes}
    with pytest.raises((InputError, UnsupportedError)) as error:
        parse_config(config)
    assert words in str(error.value)


def test_targets_without_soft_caps_say_so() -> None:
    with pytest.raises(UnsupportedError, match="no layer for the operator 'scale'"):
        check_operators(build_graph(spec_of(gemma_of(2))))


def test_granite_multiplies() -> None:
    tiny = replace(
        DRAWN["granite"](0),
        extra={
            "embedding_multiplier": 12,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.1,
            "logits_scaling": 8,
        },
    )
    graph = build_graph(parse_config(config_json(tiny)))
    factors = {n.name: n.attrs["factor"] for n in graph.nodes if n.op == "scale"}
    assert factors["embed_scale"] == 12 and factors["logits_scale"] == 0.125
    assert factors["layers.0.attn_scale"] == factors["layers.0.mlp_scale"] == 0.22
    assert {n.attrs["scale"] for n in graph.nodes if n.op == "attention"} == {0.1}
    with pytest.raises(InputError, match="'logits_scaling' = 0"):
        parse_config({**config_json(tiny), "logits_scaling": 0})


def test_phi3_reads_the_files_of_its_first_release() -> None:
    tiny = DRAWN["phi3"](0)
    stock = {
        "AutoConfig": "configuration_phi3.Phi3Config",
        "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM",
    }
    plain = config_json(tiny)
    assert parse_config({**plain, "auto_map": stock}) == parse_config(plain)
    with pytest.raises(UnsupportedError, match="auto_map"):
        parse_config({**plain, "auto_map": {**stock, "AutoModelForCausalLM": "mine.Other"}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partial_rotary_factor": 0.4}, "rotates 3 of 8 elements"),
        ({"partial_rotary_factor": 1.5}, "outside of 0.001 to 1"),
        ({"attention_bias": True}, "'attention_bias' = True changes the computation"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "supported: default, longrope"),
    ],
)
def test_phi3_refusals(changes: dict[str, Any], words: str) -> None:
    tiny = TinyConfig(architecture="Phi3ForCausalLM", hidden=32, heads=4, kv_heads=4)
    with pytest.raises((InputError, UnsupportedError)) as error:
        parse_config({**config_json(tiny), **changes})
    assert words in str(error.value)
