"""The faces on a real model."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipstream import LLM, SamplingParams

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


@pytest.fixture(scope="module")
def engine(smollm2_engine: Callable[..., Path]) -> Path:
    return smollm2_engine("bf16")


@pytest.fixture(scope="module")
def llm(engine: Path) -> Iterator[LLM]:
    with LLM(engine, threads=2, kv_memory="256M") as model:
        yield model


def test_the_capital_of_france(llm: LLM) -> None:
    params = SamplingParams(max_tokens=32, temperature=0.0)
    (output,) = llm.chat([{"role": "user", "content": QUESTION}], params)
    assert output.outputs[0].text == ANSWER
    assert (output.outputs[0].finish_reason, output.outputs[0].stop_reason) == ("stop", None)


def test_a_mixed_batch_equals_each_request_alone(llm: LLM, wiki_text: str) -> None:
    prompts = [wiki_text[i * 4001 : i * 4001 + 20 + 37 * i] for i in range(40)]
    params = [
        SamplingParams(
            max_tokens=4 + i % 9,
            temperature=(0.0, 0.8, 1.2)[i % 3],
            top_k=(0, 40)[i % 2],
            top_p=(1.0, 0.9)[i % 2],
            seed=i,
            logprobs=0,
        )
        for i in range(40)
    ]
    together = llm.generate(prompts, params)
    for prompt, each, output in zip(prompts, params, together, strict=True):
        alone = llm.generate(prompt, each)[0].outputs[0]
        assert output.outputs[0].token_ids == alone.token_ids
        assert output.outputs[0].logprobs == alone.logprobs
        assert output.outputs[0].text == alone.text


def test_run_answers_within_a_second(engine: Path) -> None:
    command = [sys.executable, "-m", "slipstream", "run", str(engine), "--prompt", QUESTION]
    times = []
    for _ in range(3):  # the first reads the file from the disk
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        times.append(time.perf_counter() - start)
        assert done.stdout == ANSWER + "\n"
    assert min(times) < 1.0, times
