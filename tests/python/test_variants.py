"""Families beyond the first: Hugging Face parity on the interpreter and on the runtime, equal bits
on every CPU path and for every chunking, passes, plan and refusals."""

from __future__ import annotations

import importlib.util
import json
import sys
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
from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.ir.interpret import Interpreter
from slipstream.builder.ir.serialize import graph_from_json, graph_to_json
from slipstream.builder.models import build_graph, check_tensors, expected_tensors, parse_config
from slipstream.builder.passes import PassManager
from slipstream.builder.passes.fuse_qkv import FuseQkv
from slipstream.builder.passes.fuse_rope_kv import FuseRopeKv
from slipstream.builder.plan.tensors import TensorSource
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
    tokens = tokens_of(tiny)
    want = Interpreter(graph, weights.__getitem__).run([tokens])[0]
    runner = PlanRunner(compile_cpu(graph, spec, Options()), weights.__getitem__)
    for first in range(0, 40, 8):
        logits, _ = runner.step([(0, tokens[first : first + 8])], range(8))
        gap = np.abs(logits[:, : tiny.vocab] - want[first : first + 8]).max()
        assert gap < 1e-4 * np.ptp(want)


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


@pytest.mark.parametrize("transform", ["rows:3", "rows:2:9", "rows:-1:2", "rows:3:3", "flip"])
def test_unknown_transforms_are_refused(transform: str) -> None:
    source = TensorSource("w", (8, 4), transforms=(transform,))
    with pytest.raises(ValueError, match="w: "):
        _ = source.rows


def test_targets_without_head_norms_say_so() -> None:
    with pytest.raises(UnsupportedError, match="no layer for the operator 'head_rms_norm'"):
        check_operators(build_graph(spec_of(DRAWN["qwen3"](0))))


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
