"""The value types of the Python face: sampling parameters, prompt forms, sizes, errors."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from slipstream import _native, errors
from slipstream.errors import InvalidArgumentError
from slipstream.prompts import normalize, split
from slipstream.sampling import SamplingParams
from slipstream.units import parse_bytes


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("max_tokens", 0, "max_tokens is 0; it must be 1 or more"),
        ("max_tokens", -3, "max_tokens is -3"),
        ("max_tokens", 2**31, "at most 2147483647"),
        ("max_tokens", 1.5, "max_tokens is 1.5; it must be an integer"),
        ("max_tokens", True, "must be an integer"),
        ("temperature", math.nan, "temperature is nan; it must be a finite number"),
        ("temperature", math.inf, "temperature is inf"),
        ("temperature", -0.1, "must be 0 (greedy) or more"),
        ("temperature", "hot", "temperature is 'hot'; it must be a number"),
        ("temperature", 10**400, "it must be a finite number"),
        ("top_k", -2, "top_k is -2"),
        ("top_p", 0.0, "top_p is 0.0; it must be in (0, 1]"),
        ("top_p", 1.01, "top_p is 1.01"),
        ("top_p", math.nan, "finite"),
        ("min_p", -0.5, "min_p is -0.5"),
        ("min_p", 2, "min_p is 2"),
        ("seed", -1, "seed is -1"),
        ("seed", 2**64, "seed is 18446744073709551616"),
        ("stop", "", "empty string"),
        ("stop", ["a", 7], "stop holds 7"),
        ("stop", "a\ud800", "lone surrogate U+D800"),
        ("stop", 7, "stop is 7; it must be a str or a list of str"),
        ("stop_token_ids", 7, "stop_token_ids is 7; it must be a list of int"),
        ("stop_token_ids", [-1], "stop_token_ids is -1"),
        ("stop_token_ids", ["x"], "must be an integer"),
        ("ignore_eos", 1, "must be True or False"),
        ("typical_p", 0, "typical_p is 0; it must be in (0, 1]"),
        ("typical_p", 1.5, "typical_p is 1.5"),
        ("repetition_penalty", 0, "must be above 0"),
        ("repetition_penalty", math.inf, "finite"),
        ("presence_penalty", math.nan, "presence_penalty is nan"),
        ("frequency_penalty", "x", "must be a number"),
        ("no_repeat_ngram_size", -1, "no_repeat_ngram_size is -1; it must be 0 or more"),
        ("min_tokens", 17, "min_tokens is 17; it must be at most max_tokens, 16"),
        ("min_tokens", -1, "min_tokens is -1"),
        ("logit_bias", [1], "logit_bias is [1]; it must be a dict"),
        ("logit_bias", {"a": 1.0}, "logit_bias id is 'a'"),
        ("logit_bias", {3: math.inf}, "logit_bias of id 3 is inf"),
        ("allowed_token_ids", [], "allowed_token_ids is empty"),
        ("allowed_token_ids", [-1], "allowed_token_ids is -1"),
        ("bad_words", "word", "bad_words is a str; put it into a list"),
        ("bad_words", [""], "bad_words holds an empty entry"),
        ("bad_words", [[]], "bad_words holds an empty entry"),
        ("bad_words", [7], "bad_words is 7; it must be a list of str or of lists of int"),
        ("bad_words", [["x"]], "bad_words id is 'x'"),
        ("bad_words", ["\ud800"], "lone surrogate"),
        ("logits_processors", [3], "logits_processors holds 3; each must be callable"),
        ("return_logits", 1, "must be True or False"),
        ("logprobs", 257, "at most 256"),
        ("prompt_logprobs", 257, "prompt_logprobs is 257; it must be at most 256"),
        ("logprobs", True, "must be an integer"),
        ("logprobs", -1, "must be 0 or more"),
    ],
)
def test_a_wrong_sampling_value_says_field_value_and_fix(
    field: str, value: object, says: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert field.split("_")[0] in str(caught.value)


def test_a_field_that_was_changed_later_is_checked_again() -> None:
    params = SamplingParams()
    params.temperature = math.nan
    with pytest.raises(InvalidArgumentError, match="temperature"):
        params.to_native()


def test_unknown_parameters_are_errors() -> None:
    with pytest.raises(TypeError, match="penalty_of_repetition"):
        SamplingParams(penalty_of_repetition=1.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no field penalty_of_repetition"):
        _native.SamplingParams(penalty_of_repetition=1.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="top_k is 'many', which does not have its type"):
        _native.SamplingParams(top_k="many")  # type: ignore[arg-type]


def test_native_form_holds_the_same_values() -> None:
    native = SamplingParams(
        max_tokens=7,
        temperature=0.5,
        top_k=-1,
        top_p=0.75,
        min_p=0.25,
        seed=2**64 - 1,
        stop="end",
        stop_token_ids=[3, 4],
        include_stop_str_in_output=True,
        ignore_eos=True,
        skip_special_tokens=False,
        logprobs=0,
        min_tokens=2,
        typical_p=0.5,
        repetition_penalty=1.5,
        presence_penalty=-0.5,
        frequency_penalty=0.25,
        no_repeat_ngram_size=3,
        logit_bias={7: 2.5},
        allowed_token_ids=(1, 7),
        bad_words=["word", [5, 6]],
        return_logits=True,
        prompt_logprobs=5,
    ).to_native()
    assert (native.max_tokens, native.temperature, native.top_k) == (7, 0.5, 0)
    assert (native.top_p, native.min_p, native.seed) == (0.75, 0.25, 2**64 - 1)
    assert (native.stop, native.stop_token_ids) == (["end"], [3, 4])
    assert native.include_stop_str_in_output and native.ignore_eos
    assert native.logprobs == 0 and native.return_logits
    assert native.prompt_logprobs == 5
    assert (native.min_tokens, native.typical_p, native.repetition_penalty) == (2, 0.5, 1.5)
    assert (native.presence_penalty, native.frequency_penalty) == (-0.5, 0.25)
    assert (native.no_repeat_ngram_size, native.logit_bias) == (3, {7: 2.5})
    assert (native.allowed_token_ids, native.bad_words) == ([1, 7], ["word"])
    assert native.bad_words_ids == [[5, 6]]
    assert not native.skip_special_tokens
    default = SamplingParams().to_native()
    assert default.seed is None and default.logprobs is None


@pytest.mark.parametrize(
    ("config", "temperature", "top_k"),
    [
        ({}, 0.0, 0),
        ({"temperature": 0.6, "top_k": 20}, 0.0, 0),  # transformers ignores them without do_sample
        ({"do_sample": True}, 1.0, 0),
        ({"do_sample": True, "temperature": 0.6, "top_k": 20}, 0.6, 20),
        ({"do_sample": True, "temperature": None}, 1.0, 0),
    ],
)
def test_defaults_of_generation_config(
    config: dict[str, object], temperature: float, top_k: int
) -> None:
    params = SamplingParams.from_generation_config(config, max_tokens=3)
    assert (params.temperature, params.top_k, params.max_tokens) == (temperature, top_k, 3)


def test_generation_config_gives_penalties_also_when_greedy() -> None:
    config = {
        "repetition_penalty": 1.1,
        "no_repeat_ngram_size": 3,
        "bad_words_ids": [[4]],
        "typical_p": 0.9,
    }
    params = SamplingParams.from_generation_config(config)
    assert (params.repetition_penalty, params.no_repeat_ngram_size) == (1.1, 3)
    assert (params.bad_words, params.typical_p) == ([[4]], 1.0)
    assert SamplingParams.from_generation_config({**config, "do_sample": True}).typical_p == 0.9


@pytest.mark.parametrize(
    ("prompts", "count", "single"),
    [
        ("text", 1, True),
        ([1, 2, 3], 1, True),
        (["a", "b"], 2, False),
        ([[1], [2, 3]], 2, False),
        ({"prompt_token_ids": [1]}, 1, True),
        (["a", [1], {"prompt": "b"}], 3, False),
        ((text for text in ("a", "b")), 2, False),
        ([], 0, False),
    ],
)
def test_forms_of_prompts(prompts: object, count: int, single: bool) -> None:
    items, is_single = split(prompts)  # type: ignore[arg-type]
    assert (len(items), is_single) == (count, single)
    for item in items:
        form = normalize(item)
        assert (form.text is None) != (form.token_ids is None)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "empty"),
        ([], "empty"),
        ({"prompt": ""}, "empty"),
        ({"prompt_token_ids": []}, "empty"),
        ([1, "x"], "must be an integer"),
        ([1.0], "must be an integer"),
        ([5, -1], r"prompt_token_ids\[1\] is -1"),
        ([2**31], r"prompt_token_ids\[0\]"),
        ({"promt": "x"}, "'promt'"),
        ({"prompt": "x", "prompt_token_ids": [1]}, "must be"),
        (b"bytes", "bytes"),
        (None, "NoneType"),
        (3, "int"),
        ("a\udcffb", "U[+]DCFF"),
    ],
)
def test_bad_prompts_say_what_is_wrong(prompt: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        normalize(prompt)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        ("1", 1),
        ("2k", 2048),
        ("512M", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("1tb", 1 << 40),
    ],
)
def test_sizes(text: int | str, size: int) -> None:
    assert parse_bytes(text, "kv_memory") == size


@pytest.mark.parametrize(
    "text", [0, -1, "", "0", "x", "1Q", "-2M", "1 000", "9" * 400, True, 1.5, 2**63]
)
def test_bad_sizes(text: int | str) -> None:
    with pytest.raises(InvalidArgumentError, match="kv_memory is"):
        parse_bytes(text, "kv_memory")


def test_each_status_code_has_its_exception() -> None:
    # The order is that of StatusCode in slipstream/status.h.
    names = [
        "INVALID_ARGUMENT",
        "LIMIT_EXCEEDED",
        "NOT_FOUND",
        "CORRUPT_FILE",
        "INCOMPATIBLE",
        "IO",
        "RESOURCE_EXHAUSTED",
        "CANCELLED",
        "UNAVAILABLE",
        "INTERNAL",
    ]
    assert [errors.error_class(code).code for code in range(1, 11)] == names
    assert errors.error_class(99) is errors.InternalError
    wrong_input = {
        name for name in names if errors.error_class(names.index(name) + 1).exit_code == 2
    }
    assert wrong_input == set(names[:5])


def test_importing_the_faces_needs_neither_numpy_nor_the_builder() -> None:
    code = (
        "import sys; from slipstream import LLM, AsyncLLM, SamplingParams, SlipstreamError\n"
        "import slipstream.cli.run, slipstream.cli.chat\n"
        "heavy = {'numpy', 'jinja2', 'torch', 'rich'}\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in heavy]\n"
        "bad += [m for m in sys.modules if m.startswith('slipstream.builder')]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_refused_native_value_is_cut_between_characters() -> None:
    with pytest.raises(TypeError) as raised:
        _native.SamplingParams(top_k="\u00e4\U0001f600" * 100)  # type: ignore[arg-type]
    shown = repr("\u00e4\U0001f600" * 100)[:40]
    assert str(raised.value) == (
        f"SamplingParams: top_k is {shown}..., which does not have its type."
    )

    class Unshown:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(TypeError, match="top_k is a Unshown, which does not have its type"):
        _native.SamplingParams(top_k=Unshown())  # type: ignore[arg-type]
