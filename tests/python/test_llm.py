"""LLM on a tiny random engine: batches, streams, stops, chat, threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from llm_fixtures import ENDLESS, LONG, assert_idle, build_tiny_engine, drawn_requests, facts

from slipstream import LLM, SamplingParams
from slipstream.errors import InvalidArgumentError


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
    assert output.finished and output.num_cached_tokens < len(output.prompt_token_ids)
    (again,) = idle.generate("the inner", SamplingParams(max_tokens=5, seed=3, logprobs=0))
    assert again.num_cached_tokens == len(output.prompt_token_ids) - 1
    assert facts(again) == facts(output)
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
