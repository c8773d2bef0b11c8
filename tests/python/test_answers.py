"""Several answers of one prompt: each equals a request alone with the seed that it reports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from llm_fixtures import assert_idle, build_tiny_engine

from slipstream import LLM, AsyncLLM, SamplingParams
from slipstream.errors import InvalidArgumentError, LimitExceededError
from slipstream.outputs import CompletionOutput, RequestOutput

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
PARAMS = SamplingParams(max_tokens=12, seed=5, n=4, ignore_eos=True)


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def llm(engine_path: str) -> Iterator[LLM]:
    with LLM(engine_path, threads=1, kv_memory="4MiB") as llm:
        yield llm


def alone(llm: LLM, params: SamplingParams, seed: int | None) -> CompletionOutput:
    one = replace(params, seed=seed, n=1, best_of=None)
    return llm.generate({"prompt_token_ids": PROMPT}, one)[0].outputs[0]


def check(llm: LLM, output: RequestOutput, params: SamplingParams) -> None:
    assert output.finished
    assert [each.index for each in output.outputs] == list(range(params.n))
    assert len({each.seed for each in output.outputs}) == params.n
    for each in output.outputs:
        one = alone(llm, params, each.seed)
        assert (each.token_ids, each.text) == (one.token_ids, one.text)
        assert each.finish_reason == one.finish_reason


def test_each_answer_equals_the_request_alone(llm: LLM) -> None:
    (output,) = llm.generate({"prompt_token_ids": PROMPT}, PARAMS)
    check(llm, output, PARAMS)
    assert output.outputs[0].seed == 5
    assert len({tuple(each.token_ids) for each in output.outputs}) > 1
    assert output.outputs[0].cumulative_logprob is None
    assert_idle(llm)


def test_best_of_gives_the_likeliest_first(llm: LLM) -> None:
    every = replace(PARAMS, n=6, logprobs=0)
    (output,) = llm.generate({"prompt_token_ids": PROMPT}, every)
    sums = [
        sum(next(iter(place.values())).logprob for place in each.logprobs or ())
        for each in output.outputs
    ]
    assert [each.cumulative_logprob for each in output.outputs] == pytest.approx(sums)
    (best,) = llm.generate({"prompt_token_ids": PROMPT}, replace(PARAMS, n=2, best_of=6))
    assert [each.cumulative_logprob for each in best.outputs] == pytest.approx(
        sorted(sums, reverse=True)[:2]
    )
    check(llm, best, replace(PARAMS, n=2, best_of=6))


def test_stream_tells_every_answer(llm: LLM) -> None:
    states = list(llm.stream({"prompt_token_ids": PROMPT}, PARAMS))
    check(llm, states[-1], PARAMS)
    assert not any(state.finished for state in states[:-1])
    assert all(len(state.outputs) == 4 for state in states)
    # Dropped in the middle, all its answers end.
    stream = llm.stream({"prompt_token_ids": PROMPT}, replace(PARAMS, max_tokens=100))
    next(stream)
    del stream
    assert_idle(llm)


def test_async_stream_tells_every_answer(engine_path: str, llm: LLM) -> None:
    async def run() -> RequestOutput:
        served = AsyncLLM(engine_path, threads=1, kv_memory="4MiB")
        try:
            async for state in served.generate({"prompt_token_ids": PROMPT}, PARAMS):
                last = state
            return last
        finally:
            served.shutdown()

    output = asyncio.run(run())
    assert output.finished and len(output.outputs) == 4
    check(llm, output, PARAMS)


def test_what_cannot_be_is_refused(llm: LLM) -> None:
    with pytest.raises(InvalidArgumentError, match="n is 0; it must be 1 or more"):
        SamplingParams(n=0)
    with pytest.raises(InvalidArgumentError, match="best_of is 2; it must be at least n, 3"):
        SamplingParams(n=3, best_of=2)
    with pytest.raises(LimitExceededError, match="best_of is 5000; max_batch_size is"):
        llm.generate({"prompt_token_ids": PROMPT}, SamplingParams(best_of=5000))
