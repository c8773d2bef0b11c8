"""The portable graph on the interpreter against Hugging Face transformers, in f32: live where torch
is installed, and against stored logits everywhere."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import TinyConfig, config_json, make_tensors, random_config

from slipstream.builder.ir.interpret import Interpreter
from slipstream.builder.models import build_graph, parse_config

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from make_reference_logits import (
    LENGTH,
    POSITIONS,
    REFERENCE,
    SEEDS,
    reference_logits,
    tokens_of,
)

TOLERANCE = 1e-4
LIVE = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_torch = pytest.mark.skipif(
    not LIVE, reason="torch and transformers are not installed: stored logits are used instead"
)


def our_logits(tiny: TinyConfig) -> NDArray[Any]:
    graph = build_graph(parse_config(config_json(tiny)))
    return Interpreter(graph, make_tensors(tiny).__getitem__).run([tokens_of(tiny)])[0]


@needs_torch
@pytest.mark.parametrize("seed", range(24))
def test_live_parity(seed: int) -> None:
    tiny = random_config(seed)
    reference = reference_logits(tiny, tokens_of(tiny))
    gap = np.abs(our_logits(tiny) - reference).max()
    assert gap < TOLERANCE * np.ptp(reference)


@needs_torch
@pytest.mark.parametrize(
    "tiny",
    [
        TinyConfig(dtype="bfloat16"),
        TinyConfig(dtype="float16", shards=3, spelling=5),
        TinyConfig(architecture="MistralForCausalLM", window=1, kv_heads=1),
        TinyConfig(architecture="Qwen2ForCausalLM", layers=3, window=6, max_window_layers=1),
        TinyConfig(llama3_rope=True, head_dim=32, attention_bias=True, mlp_bias=True, tied=True),
    ],
    ids=["bf16", "f16-sharded", "window-1", "mixed-windows", "llama3-biases-tied"],
)
def test_live_parity_of_special_cases(tiny: TinyConfig) -> None:
    reference = reference_logits(tiny, tokens_of(tiny))
    assert np.abs(our_logits(tiny) - reference).max() < TOLERANCE * np.ptp(reference)


@needs_torch
def test_parity_notices_one_scaled_tensor() -> None:
    tiny = random_config(3)
    reference = reference_logits(tiny, tokens_of(tiny))
    weights = make_tensors(tiny)
    name = "model.layers.0.mlp.down_proj.weight"
    weights[name] = weights[name] * np.float32(1.01)
    graph = build_graph(parse_config(config_json(tiny)))
    logits = Interpreter(graph, weights.__getitem__).run([tokens_of(tiny)])[0]
    assert np.abs(logits - reference).max() > TOLERANCE * np.ptp(reference)


def stored() -> dict[int, dict[str, Any]]:
    data = json.loads(REFERENCE.read_text())
    assert data["length"] == LENGTH
    return {model["seed"]: model for model in data["models"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_parity_with_stored_logits(seed: int) -> None:
    model = stored()[seed]
    logits = our_logits(random_config(seed))
    assert list(map(int, model["rows"])) == sorted(POSITIONS, key=str)
    for position, row in model["rows"].items():
        gap = np.abs(logits[int(position)] - np.asarray(row)).max()
        assert gap < TOLERANCE * model["range"]


def test_stored_logits_cover_the_families() -> None:
    found = {model["architecture"] for model in stored().values()}
    assert found == {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}
