"""A tiny random engine with a tokenizer, for tests of the faces that need no sensible text, and
what these tests have in common."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_models import TinyConfig, make_checkpoint

from slipstream import LLM, AsyncLLM, RequestOutput, SamplingParams
from slipstream.engine_path import resolve_engine

LONG = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True)
# Far longer than a test looks away.
ENDLESS = SamplingParams(max_tokens=8000, temperature=0.0, ignore_eos=True)

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


def make_tiny_checkpoint(folder: Path, **changes: object) -> Path:
    """A checkpoint of about 100 KB: 265 ids, 8192 positions, a chat template."""
    config = TinyConfig(vocab=265, tokenizer=True, max_positions=8192, **changes)  # type: ignore[arg-type]
    make_checkpoint(folder, config)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def build_tiny_engine(folder: Path) -> str:
    """Builds the tiny engine below `folder`, through the cache that LLM(folder) uses."""
    checkpoint = make_tiny_checkpoint(folder / "tiny")
    before = os.environ.get("SLIPSTREAM_CACHE")
    os.environ["SLIPSTREAM_CACHE"] = str(folder / "cache")
    try:
        return resolve_engine(checkpoint, log=lambda line: None)
    finally:
        if before is None:
            del os.environ["SLIPSTREAM_CACHE"]
        else:
            os.environ["SLIPSTREAM_CACHE"] = before


def assert_idle(llm: LLM | AsyncLLM) -> None:
    def busy() -> bool:
        stats = llm.stats()
        held = stats.kv_blocks_total - stats.kv_blocks_free - stats.kv_blocks_cached
        return bool(stats.running or stats.waiting or held)

    wait_until(lambda: not busy())


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def facts(output: RequestOutput) -> tuple[Any, ...]:
    completion = output.outputs[0]
    return (
        output.prompt_token_ids,
        completion.text,
        completion.token_ids,
        completion.logprobs,
        completion.cumulative_logprob,
        completion.finish_reason,
        completion.stop_reason,
    )


def drawn_requests(count: int, seed: int) -> list[tuple[list[int], SamplingParams]]:
    draw = random.Random(seed)
    requests = []
    for _ in range(count):
        prompt = [draw.randrange(3, 265) for _ in range(draw.randint(1, 90))]
        params = SamplingParams(
            max_tokens=draw.randint(1, 24),
            temperature=draw.choice([0.0, 0.7, 1.3]),
            top_k=draw.choice([0, 1, 20]),
            top_p=draw.choice([1.0, 0.8]),
            min_p=draw.choice([0.0, 0.1]),
            seed=draw.randrange(2**64),
            logprobs=0,
        )
        requests.append((prompt, params))
    return requests
