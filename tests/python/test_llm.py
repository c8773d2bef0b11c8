"""LLM and AsyncLLM on a tiny random engine: batches, streams, cancelling, bad input."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import build_tiny_engine, make_tiny_checkpoint

from slipstream import LLM, AsyncLLM, RequestOutput, SamplingParams, _native
from slipstream.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    SlipstreamError,
    UnavailableError,
)

LONG = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True)
# Far longer than a test looks away.
ENDLESS = SamplingParams(max_tokens=8000, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def llm(engine_path: str) -> Iterator[LLM]:
    with LLM(engine_path, threads=2, kv_memory="16M") as model:
        yield model


@pytest.fixture
def idle(llm: LLM) -> Iterator[LLM]:
    """The shared model, which must hold no request and no KV block when the test ends."""
    yield llm
    assert_idle(llm)


def assert_idle(llm: LLM | AsyncLLM) -> None:
    def busy() -> bool:
        stats = llm.stats()
        return bool(stats.running or stats.waiting or stats.kv_blocks_free != stats.kv_blocks_total)

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


def test_a_request_gives_the_same_in_any_batch(idle: LLM) -> None:
    requests = drawn_requests(40, seed=5)
    together = idle.generate([r[0] for r in requests], [r[1] for r in requests])
    alone = [idle.generate(prompt, params)[0] for prompt, params in requests]
    assert [facts(output) for output in together] == [facts(output) for output in alone]
    assert len({tuple(output.outputs[0].token_ids) for output in together}) > 30


def test_the_shape_of_an_output(idle: LLM) -> None:
    (output,) = idle.generate("the inner", SamplingParams(max_tokens=5, seed=3, logprobs=0))
    assert output.prompt == "the inner"
    assert output.prompt_token_ids == idle.tokenizer.encode("the inner")
    assert output.finished and output.num_cached_tokens == 0
    completion = output.outputs[0]
    assert completion.index == 0 and completion.seed == 3
    assert completion.finished() and completion.finish_reason in ("length", "stop")
    assert completion.logprobs is not None
    assert [list(entry) for entry in completion.logprobs] == [[t] for t in completion.token_ids]
    values = [
        entry[token] for entry, token in zip(completion.logprobs, completion.token_ids, strict=True)
    ]
    assert all(value.logprob <= 0 and value.rank >= 1 for value in values)
    assert math.isclose(completion.cumulative_logprob or 1, sum(v.logprob for v in values))
    assert completion.text == idle.tokenizer.decode(completion.token_ids)


def test_logprobs_are_absent_unless_asked_for(idle: LLM) -> None:
    completion = idle.generate("a", SamplingParams(max_tokens=2))[0].outputs[0]
    assert completion.logprobs is None and completion.cumulative_logprob is None


def test_all_forms_of_one_prompt_give_the_same(idle: LLM) -> None:
    ids = idle.tokenizer.encode("the rain in")
    params = SamplingParams(max_tokens=8, temperature=0.0)
    forms: list[Any] = ["the rain in", ids, {"prompt": "the rain in"}, {"prompt_token_ids": ids}]
    outputs = idle.generate(forms, params)
    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 1
    assert [output.prompt for output in outputs] == ["the rain in", None, "the rain in", None]
    assert idle.generate([], params) == []


def test_without_parameters_the_models_own_defaults_hold(idle: LLM) -> None:
    assert idle.default_sampling_params() == SamplingParams(temperature=0.0)
    assert facts(idle.generate("the")[0]) == facts(
        idle.generate("the", SamplingParams(temperature=0.0))[0]
    )


def test_a_stream_grows_to_what_generate_gives(idle: LLM) -> None:
    for prompt, params in drawn_requests(8, seed=6):
        text = ""
        tokens: list[int] = []
        for output in idle.stream(prompt, params):
            completion = output.outputs[0]
            assert completion.text.startswith(text)
            assert completion.token_ids[: len(tokens)] == tokens
            text, tokens = completion.text, completion.token_ids
        assert output.finished
        assert facts(output) == facts(idle.generate(prompt, params)[0])


def test_closing_a_stream_cancels_its_request(idle: LLM) -> None:
    stream = idle.stream("the", ENDLESS)
    next(stream)
    assert idle.stats().running == 1
    stream.close()  # type: ignore[attr-defined]
    assert_idle(idle)


def test_dropping_a_stream_that_was_never_read_cancels_its_request(idle: LLM) -> None:
    stream = idle.stream("the", ENDLESS)
    assert idle.stats().requests_submitted > idle.stats().requests_finished
    del stream
    assert_idle(idle)


def test_stop_reasons(idle: LLM) -> None:
    free = idle.generate("the", LONG)[0].outputs[0]
    token = free.token_ids[3]
    first = free.token_ids.index(token)
    params = SamplingParams(
        max_tokens=200, temperature=0.0, ignore_eos=True, stop_token_ids=[token]
    )
    stopped = idle.generate("the", params)[0].outputs[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", token)
    assert stopped.token_ids == free.token_ids[: first + 1]

    text = next(c for c in free.text[4:] if c != "\ufffd")
    params = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True, stop=text)
    stopped = idle.generate("the", params)[0].outputs[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", text)
    assert stopped.text == free.text[: free.text.index(text)]
    params.include_stop_str_in_output = True
    kept = idle.generate("the", params)[0].outputs[0]
    assert kept.text == stopped.text + text

    assert (free.finish_reason, free.stop_reason) == ("length", None)


@pytest.mark.parametrize(
    ("prompt", "params", "error", "says"),
    [
        ("", {}, InvalidArgumentError, "empty"),
        ([], {}, InvalidArgumentError, "empty"),
        ([265], {}, InvalidArgumentError, "vocabulary of 265"),
        ([3, -1], {}, InvalidArgumentError, "is -1"),
        ([3] * 9000, {}, LimitExceededError, "9000"),
        ("x", {"stop_token_ids": [99999]}, InvalidArgumentError, "vocabulary"),
        ("a\ud800", {}, InvalidArgumentError, "U[+]D800"),
        ({"text": "x"}, {}, InvalidArgumentError, "prompt_token_ids"),
    ],
)
def test_a_bad_prompt_raises_with_its_index_and_leaves_nothing(
    idle: LLM, prompt: Any, params: dict[str, Any], error: type[SlipstreamError], says: str
) -> None:
    values = SamplingParams(max_tokens=4, **params)
    with pytest.raises(error, match=says) as caught:
        idle.generate({"prompt_token_ids": prompt} if isinstance(prompt, list) else prompt, values)
    assert "prompts[" not in str(caught.value)
    many = [[5] * 50, "fine", prompt, "fine too"]
    with pytest.raises(error, match=rf"prompts\[2\]: .*{says}"):
        idle.generate(many, [ENDLESS, ENDLESS, values, ENDLESS])
    assert_idle(idle)
    assert idle.generate("fine", SamplingParams(max_tokens=1))[0].finished


def test_a_bad_parameter_list(idle: LLM) -> None:
    with pytest.raises(InvalidArgumentError, match="2 entries for 1 prompts"):
        idle.generate("x", [SamplingParams(), SamplingParams()])
    with pytest.raises(InvalidArgumentError, match=r"sampling_params\[0\] is a dict"):
        idle.generate(["x"], [{}])  # type: ignore[list-item]
    changed = SamplingParams()
    changed.temperature = math.nan
    with pytest.raises(InvalidArgumentError, match=r"prompts\[1\]: temperature is nan"):
        idle.generate(["x", "y"], [SamplingParams(), changed])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"threads": 2000}, "threads is 2000"),
        ({"threads": "2"}, "threads is '2'"),
        ({"kv_memory": "lots"}, "kv_memory is 'lots'"),
        ({"kv_memory": 0}, "kv_memory is 0"),
        ({"kv_memory": 1}, "KV"),
        ({"cpu_path": "mmx"}, "cpu_path is 'mmx'"),
        ({"max_batch_size": 10**6}, "max_batch_size is 1000000"),
        ({"max_num_tokens": 10**6}, "max_num_tokens is 1000000"),
    ],
)
def test_bad_options_of_loading(engine_path: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SlipstreamError, match=says):
        LLM(engine_path, **options)


def test_bad_paths(tmp_path: Path, engine_path: str) -> None:
    with pytest.raises(NotFoundError, match="no such file or folder"):
        LLM(tmp_path / "none.engine")
    with pytest.raises(InvalidArgumentError, match=r"without config\.json"):
        LLM(tmp_path)
    with pytest.raises(InvalidArgumentError, match="path is empty"):
        LLM("")
    cut = tmp_path / "cut.engine"
    cut.write_bytes(Path(engine_path).read_bytes()[:10_000])
    with pytest.raises(CorruptFileError, match=r"cut\.engine"):
        LLM(cut)


def test_a_checkpoint_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLIPSTREAM_CACHE", str(tmp_path / "cache"))
    checkpoint = make_tiny_checkpoint(tmp_path / "model", seed=4)
    first = LLM(checkpoint).generate("the", LONG)[0]
    assert "building an engine once (weights bf16, KV cache bf16" in capsys.readouterr().err
    second = LLM(str(checkpoint)).generate("the", LONG)[0]
    told = capsys.readouterr().err
    assert "building" not in told and "using" in told
    assert facts(first) == facts(second)

    make_tiny_checkpoint(tmp_path / "model", seed=5)
    assert facts(LLM(checkpoint).generate("the", LONG)[0]) != facts(first)
    assert "building an engine once" in capsys.readouterr().err


def test_chat_uses_the_template_and_adds_no_special_tokens(idle: LLM) -> None:
    messages = [{"role": "user", "content": "hi"}]
    params = SamplingParams(max_tokens=6, temperature=0.0)
    (output,) = idle.chat(messages, params)
    assert output.prompt == "<s>user: hi</s><s>assistant:"
    assert output.prompt_token_ids == idle.tokenizer.encode(output.prompt, add_special_tokens=False)
    both = idle.chat([messages, [{"role": "user", "content": "yo"}]], params)
    assert facts(both[0]) == facts(output)
    with pytest.raises(InvalidArgumentError, match=r"messages\[1\]: .*empty"):
        idle.chat([messages, []], params)
    (other,) = idle.chat(messages, params, chat_template="{{ messages[0].content }}")
    assert other.prompt == "hi"


def test_many_threads_share_one_model(idle: LLM) -> None:
    requests = drawn_requests(12, seed=8)
    expected = [facts(idle.generate(*request)[0]) for request in requests]
    found: dict[int, Any] = {}

    def work(index: int) -> None:
        found[index] = facts(idle.generate(*requests[index])[0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[index] for index in range(len(requests))] == expected


def test_a_closed_model_refuses(engine_path: str) -> None:
    model = LLM(engine_path, kv_memory="16M")
    model.close()
    model.close()
    with pytest.raises(UnavailableError):
        model.generate("x")


def test_a_callback_that_raises_ends_only_its_own_request(
    engine_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_value))
    model = _native.Model(_native.Runtime(threads=1), _native.Engine.load(engine_path))
    executor = _native.Executor(model, kv_memory_bytes=1 << 24)
    request = _native.Request(prompt_token_ids=[5, 6], sampling=LONG.to_native())
    calls: list[_native.Response] = []

    def bad(response: _native.Response) -> None:
        calls.append(response)
        raise ValueError("boom")

    good = executor.submit(request)
    executor.submit(request, bad)
    (response,) = executor.collect([good])
    assert response.finish_reason == "length" and len(response.token_ids) == 200
    wait_until(lambda: executor.stats().requests_finished == 2)
    assert calls[-1].finish_reason == "error"
    with pytest.raises(InvalidArgumentError, match="ValueError: boom"):
        calls[-1].raise_for_status()
    assert all(isinstance(error, ValueError) for error in reported) and len(reported) == len(calls)
    executor.shutdown()


# --- AsyncLLM ---------------------------------------------------------------------------------


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
