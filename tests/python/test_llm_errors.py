"""What LLM refuses while it runs: bad prompts, bad parameters, callbacks that raise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llm_fixtures import ENDLESS, LONG, assert_idle, build_tiny_engine, wait_until

from slipstream import LLM, SamplingParams, _native
from slipstream.errors import InvalidArgumentError, LimitExceededError, SlipstreamError


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


def test_a_callback_that_raises_ends_only_its_own_request(
    engine_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_value))
    model = _native.Model(_native.Runtime(threads=1), _native.Engine.load(engine_path))
    config = _native.ExecutorConfig()
    config.kv_memory_bytes = 1 << 24
    executor = _native.Executor(model, config)
    request = _native.Request(prompt_token_ids=[5, 6], sampling=LONG.to_native())
    calls: list[_native.Response] = []

    def bad(response: _native.Response) -> None:
        calls.append(response)
        raise ValueError("boom")

    good = executor.submit(request)
    executor.submit(request, bad)
    ((response,),) = executor.collect([good])
    assert response.finish_reason == "length" and len(response.token_ids) == 200
    wait_until(lambda: executor.stats().requests_finished == 2)
    assert calls[-1].finish_reason == "error"
    with pytest.raises(InvalidArgumentError, match="ValueError: boom"):
        calls[-1].raise_for_status()
    assert all(isinstance(error, ValueError) for error in reported) and len(reported) == len(calls)
    executor.shutdown()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"add_generation_prompt": None}, "add_generation_prompt is None; it must be True"),
        ({"add_generation_prompt": "yes"}, "add_generation_prompt is 'yes'"),
        ({"chat_template": 3}, "chat_template is a int"),
        ({"tools": 3}, "tools"),
        ({"tools": "f"}, "tools"),
        ({"chat_template_kwargs": [1]}, r"chat_template_kwargs is \[1\]; it must be a dict"),
        ({"chat_template_kwargs": {1: 2}}, r"chat_template_kwargs is \{1: 2\}"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs holds messages"),
        ({"chat_template_kwargs": {"tools": [], "self": 1}}, "holds self, tools"),
        ({"sampling_params": {}}, "sampling_params"),
        ({"sampling_params": 3}, "sampling_params is a int"),
        ({"messages": None}, "messages is a NoneType"),
        ({"messages": "hi"}, "messages is a str"),
        ({"messages": 3}, "messages is a int"),
        ({"messages": [3]}, "messages is a int"),
        ({"messages": [{"role": 1, "content": "x"}]}, r"messages\[0\] is {'role': 1"),
    ],
)
def test_a_wrong_type_in_a_chat_names_the_argument(
    idle: LLM, options: dict[str, Any], says: str
) -> None:
    arguments = {"messages": [{"role": "user", "content": "hi"}], **options}
    with pytest.raises(InvalidArgumentError, match=says):
        idle.chat(**arguments)
    with pytest.raises(InvalidArgumentError):
        idle.stream_chat(**arguments)


def test_no_value_floods_a_message(idle: LLM) -> None:
    """Whatever is wrong, and however large it is."""
    big = "x" * 100_000
    calls: list[Callable[[], Any]] = [
        lambda: idle.generate({big: big}),  # type: ignore[arg-type, dict-item]
        lambda: idle.generate([10**5000]),
        lambda: idle.generate([5, -(10**5000)]),
        lambda: idle.chat([{"role": [big], "content": big}]),
        lambda: idle.chat([{"role": "user", "content": [{"type": big}]}]),
        lambda: idle.chat([{"role": "user", "content": "x"}], chat_template=big + "{{"),
        lambda: idle.chat([{"role": "user", "content": "x"}], chat_template="{{ " + big + "() }}"),
        lambda: idle.chat(
            [{"role": "user", "content": big}],
            chat_template="{{ raise_exception(messages[0].content) }}",
        ),
        lambda: idle.chat(
            [{"role": "user", "content": "x"}],
            chat_template="{% block b %}{{ raise_exception('" + big + "') }}{% endblock %}",
        ),
        lambda: idle.chat([{"role": "user", "content": "x"}], chat_template_kwargs=[big]),  # type: ignore[arg-type]
        lambda: LLM("engine", cpu_path=big),
        lambda: LLM("engine", threads=10**5000),
        lambda: LLM("engine", kv_memory=big),
        lambda: LLM(["engine", big]),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(SlipstreamError) as caught:
            call()
        assert len(str(caught.value)) < 600, str(caught.value)[:2000]


def test_the_tokenizer_names_an_argument_of_a_wrong_type(idle: LLM) -> None:
    tokenizer = idle.tokenizer
    text = "a str of valid Unicode, or bytes that hold UTF-8"
    ids = "a list of integers of 32 bits"
    calls: list[tuple[Callable[[Any], object], Any, str]] = [
        (tokenizer.encode, None, f"text is None; it must be {text}."),
        (tokenizer.encode, "\ud800", f"text is '\\ud800'; it must be {text}."),
        (tokenizer.encode, [1] * 100, f"text is {str([1] * 100)[:40]}...; it must be {text}."),
        (tokenizer.decode, "ab", f"ids is 'ab'; it must be {ids}."),
        (
            tokenizer.decode,
            [2**31],
            "ids is [2147483648]; it must be a list of integers of 32 bits.",
        ),
        (tokenizer.id_to_token, "x", "id is 'x'; it must be an integer of 32 bits."),
        (tokenizer.is_special, None, "id is None; it must be an integer of 32 bits."),
        (tokenizer.token_to_id, 3, f"token is 3; it must be {text}."),
    ]
    for call, value, message in calls:
        with pytest.raises(InvalidArgumentError) as raised:
            call(value)
        assert str(raised.value) == message
    assert tokenizer.encode(b"the rain") == tokenizer.encode("the rain")
