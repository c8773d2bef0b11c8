"""Same request, same bits: over batches, chunk budgets, threads, KV pools and CPU paths."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import TinyConfig, make_checkpoint, write_tokenizer

from slipstream import LLM, SamplingParams
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.native import TeacherForcing
from slipstream.errors import IncompatibleError

PATHS = ("scalar", "emulated16", "avx2", "avx512")
# Both kinds of cache groups in one model, and odd sizes everywhere.
MIXED = TinyConfig(
    architecture="Qwen2ForCausalLM",
    layers=3,
    window=40,
    max_window_layers=1,
    hidden=44,
    heads=6,
    kv_heads=2,
    head_dim=10,
    intermediate=50,
    vocab=263,
    max_positions=1024,
)


@pytest.fixture(scope="module", params=["f32", "bf16", "f16", "bf16-int8"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    checkpoint = make_checkpoint(folder / "checkpoint", MIXED)
    write_tokenizer(checkpoint, MIXED.vocab)
    weights, _, cache = request.param.partition("-")
    config = BuildConfig(weights=weights, kv_cache=cache or weights)
    build(checkpoint, folder / "m.engine", config)
    return folder / "m.engine"


def runs_here(path: str, engine: Path) -> bool:
    try:
        TeacherForcing(engine, cpu_path=path)
    except IncompatibleError:
        return False
    return True


def draw_requests(rng: random.Random, count: int) -> list[tuple[list[int], SamplingParams]]:
    requests = []
    for _ in range(count):
        length = rng.choice([1, 2, 31, 32, 33, rng.randrange(1, 80), rng.randrange(200, 560)])
        prompt = [rng.randrange(MIXED.vocab) for _ in range(length)]
        greedy = rng.random() < 0.3
        params = SamplingParams(
            max_tokens=rng.randrange(1, 40),
            temperature=0.0 if greedy else rng.choice([0.5, 1.0, 1.7]),
            top_k=rng.choice([0, 0, 1, 20]),
            top_p=rng.choice([1.0, 0.9, 0.5]),
            min_p=rng.choice([0.0, 0.0, 0.1]),
            seed=rng.randrange(2**64),
            ignore_eos=rng.random() < 0.5,
            logprobs=0,
        )
        requests.append((prompt, params))
    return requests


def facts(llm: LLM, requests: list[tuple[list[int], SamplingParams]]) -> list[Any]:
    outputs = llm.generate([p for p, _ in requests], [s for _, s in requests])
    return [
        (
            o.outputs[0].token_ids,
            o.outputs[0].logprobs,
            o.outputs[0].text,
            o.outputs[0].finish_reason,
        )
        for o in outputs
    ]


def test_a_request_is_the_same_alone_and_in_any_mix(engine: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    requests = draw_requests(rng, 30)
    reference = LLM(engine, threads=1)
    alone = [facts(reference, [r])[0] for r in requests]
    for threads in (1, 2, 3, 4):
        batch = rng.choice([1, 2, 7, 64])
        settings: dict[str, Any] = {
            "threads": threads,
            "max_batch_size": batch,
            "max_num_tokens": max(batch, rng.choice([1, 5, 33, 100, 512])),
            "kv_memory": rng.choice([None, "1M"]),
            "host_kv_memory": rng.choice([None, "1M", "16M"]),
            "capacity": rng.choice(["guaranteed-no-evict", "max-utilization"]),
            "cpu_path": rng.choice(["auto", "avx2", "emulated16"]),
        }
        if not runs_here(settings["cpu_path"], engine):
            settings["cpu_path"] = "emulated16"
        order = rng.sample(range(len(requests)), len(requests))
        together = facts(LLM(engine, **settings), [requests[i] for i in order])
        for index, got in zip(order, together, strict=True):
            assert got == alone[index], f"seed {seed}, request {index}, {settings}"


def test_one_hash_over_paths_threads_and_chunks(engine: Path) -> None:
    rng = random.Random(1)
    tokens = [rng.randrange(MIXED.vocab) for _ in range(300)]
    hashes = {}
    for path in PATHS:
        if not runs_here(path, engine):
            continue
        for threads, chunk in ((1, 64), (2, 1), (3, 17), (4, 33)):
            logits = TeacherForcing(engine, threads=threads, cpu_path=path).logits(tokens, chunk)
            hashes[path, threads, chunk] = hashlib.sha256(logits.tobytes()).hexdigest()
    assert len(hashes) >= 8, "scalar and emulated16 run everywhere"
    assert len(set(hashes.values())) == 1, hashes


def test_one_hash_on_smollm2(smollm2_engine: Callable[..., Path]) -> None:
    engine = smollm2_engine("bf16")
    tokens = [1, 4093, 198, 1780, 314, 260, 3575, 282]
    hashes = {
        path: hashlib.sha256(
            TeacherForcing(engine, cpu_path=path).logits(tokens).tobytes()
        ).hexdigest()
        for path in PATHS
        if runs_here(path, engine)
    }
    assert len(hashes) >= 2
    assert len(set(hashes.values())) == 1, hashes
