"""AsyncLLM on a tiny random engine: the answers of LLM, cancelling, errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from llm_fixtures import ENDLESS, LONG, assert_idle, build_tiny_engine, drawn_requests, facts

from slipstream import LLM, AsyncLLM, RequestOutput, SamplingParams
from slipstream.errors import InvalidArgumentError, LimitExceededError


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def llm(engine_path: str) -> Iterator[LLM]:
    with LLM(engine_path, threads=2, kv_memory="16M") as model:
        yield model


@pytest.fixture(scope="module")
def async_llm(engine_path: str) -> Iterator[AsyncLLM]:
    model = AsyncLLM(engine_path, threads=2, kv_memory="16M")
    yield model
    model.shutdown()


async def last_of(model: AsyncLLM, *arguments: Any) -> RequestOutput:
    async for output in model.generate(*arguments):
        last = output
    return last


def test_async_requests_run_together_and_equal_the_blocking_ones(
    llm: LLM, async_llm: AsyncLLM
) -> None:
    requests = drawn_requests(16, seed=9)

    async def main() -> list[RequestOutput]:
        return await asyncio.gather(*(last_of(async_llm, *request) for request in requests))

    outputs = asyncio.run(main())
    expected = [llm.generate(*request)[0] for request in requests]
    assert [facts(output) for output in outputs] == [facts(output) for output in expected]
    assert len({output.request_id for output in outputs}) == 16
    assert_idle(async_llm)


def test_an_async_stream_is_cumulative(async_llm: AsyncLLM) -> None:
    async def main() -> None:
        text = ""
        async for output in async_llm.generate("the", LONG, "one"):
            assert output.request_id == "one"
            assert output.outputs[0].text.startswith(text)
            text = output.outputs[0].text
        assert output.finished and len(output.outputs[0].token_ids) == 200

    asyncio.run(main())


def test_closing_an_async_stream_cancels_its_request(async_llm: AsyncLLM) -> None:
    async def main() -> None:
        stream = async_llm.generate("the", ENDLESS)
        await anext(stream)
        assert async_llm.stats().running == 1
        await stream.aclose()
        await asyncio.to_thread(assert_idle, async_llm)

        task = asyncio.create_task(last_of(async_llm, "the", ENDLESS))
        while not async_llm.stats().running:
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(assert_idle, async_llm)

    before = async_llm.stats().generated_tokens
    asyncio.run(main())
    assert async_llm.stats().generated_tokens - before < 8000


def test_abort_ends_with_what_there_is(async_llm: AsyncLLM) -> None:
    async def main() -> RequestOutput:
        async for output in async_llm.generate("the", ENDLESS, "r"):
            async_llm.abort("r")
            async_llm.abort("unknown")
            last = output
        return last

    output = asyncio.run(main())
    assert output.finished and output.outputs[0].finish_reason == "cancelled"
    assert 0 < len(output.outputs[0].token_ids) < 8000
    assert_idle(async_llm)


def test_async_errors(async_llm: AsyncLLM) -> None:
    async def main() -> None:
        with pytest.raises(InvalidArgumentError, match="empty"):
            await last_of(async_llm, "")
        with pytest.raises(LimitExceededError):
            await last_of(async_llm, "x " * 6000)
        stream = async_llm.generate("the", ENDLESS, "same")
        await anext(stream)
        with pytest.raises(InvalidArgumentError, match="'same' is already running"):
            await last_of(async_llm, "the", ENDLESS, "same")
        await stream.aclose()
        assert (await last_of(async_llm, "the", SamplingParams(max_tokens=1), "same")).finished

    asyncio.run(main())
    assert_idle(async_llm)


def test_async_chat(llm: LLM, async_llm: AsyncLLM) -> None:
    messages = [{"role": "user", "content": "hi"}]
    params = SamplingParams(max_tokens=6, temperature=0.0)

    async def main() -> RequestOutput:
        async for output in async_llm.chat(messages, params):
            last = output
        return last

    assert facts(asyncio.run(main())) == facts(llm.chat(messages, params)[0])


def test_a_loop_that_ended_does_not_disturb_the_others(async_llm: AsyncLLM) -> None:
    loop = asyncio.new_event_loop()
    stream = async_llm.generate("the", ENDLESS)
    loop.run_until_complete(anext(stream))
    loop.close()  # the program forgot to close the stream
    assert asyncio.run(last_of(async_llm, "the", SamplingParams(max_tokens=3))).finished
    del stream
    assert_idle(async_llm)


def test_wrong_types_are_invalid_arguments(engine_path: str, async_llm: AsyncLLM) -> None:
    async def refused(says: str, *arguments: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=says):
            await last_of(async_llm, *arguments)

    async def main() -> None:
        await refused("sampling_params is a dict", "x", {})
        await refused("sampling_params is a list", "x", [SamplingParams()])
        await refused("sampling_params is a int", "x", 0)
        await refused("request_id is 7; it must be a str", "x", None, 7)
        await refused(r"request_id is \[\]", "x", None, [])
        await refused("A prompt is a NoneType", None)
        with pytest.raises(InvalidArgumentError, match="messages is a NoneType"):
            async for _ in async_llm.chat(None):  # type: ignore[arg-type]
                pass

    asyncio.run(main())
    for wrong in (None, 7, []):
        with pytest.raises(InvalidArgumentError, match="request_id is"):
            async_llm.abort(wrong)  # type: ignore[arg-type]
    for queue in (None, 0, "9", 2**31, True):
        with pytest.raises(InvalidArgumentError, match="max_queued_requests is"):
            AsyncLLM(engine_path, max_queued_requests=queue)  # type: ignore[arg-type]
    assert_idle(async_llm)
