"""The sampling options of `slipstream run`: each gives what its setting gives in the library."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from llm_fixtures import build_tiny_engine

from slipstream import LLM, SamplingParams
from slipstream.cli import main

PROMPT = "the"
TOKENS = 24


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def llm(engine_path: str) -> LLM:
    return LLM(engine_path)


def run(engine_path: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    arguments = ("run", engine_path, "--prompt", PROMPT, "--raw", "--max-tokens", str(TOKENS))
    assert main((*arguments, *options)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--repetition-penalty", "1.7"], {"repetition_penalty": 1.7}),
        (["--presence-penalty", "0.9"], {"presence_penalty": 0.9}),
        (["--frequency-penalty", "0.8"], {"frequency_penalty": 0.8}),
        (["--no-repeat-ngram-size", "1"], {"no_repeat_ngram_size": 1}),
        (["--typical-p", "0.2"], {"typical_p": 0.2}),
        (["--ignore-eos"], {"ignore_eos": True}),
        (["--min-tokens", "20"], {"min_tokens": 20}),
    ],
)
def test_an_option_is_its_setting(
    engine_path: str,
    llm: LLM,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    settings: dict[str, Any],
) -> None:
    result = json.loads(run(engine_path, capsys, "--json", "--seed", "5", *options))
    asked = llm.generate(PROMPT, SamplingParams(max_tokens=TOKENS, seed=5, **settings))[0]
    plain = llm.generate(PROMPT, SamplingParams(max_tokens=TOKENS, seed=5))[0]
    assert result["outputs"][0]["token_ids"] == asked.outputs[0].token_ids
    if not {"ignore_eos", "min_tokens"} & set(settings):
        assert asked.outputs[0].token_ids != plain.outputs[0].token_ids, "the setting does nothing"


def test_the_end_options_go_past_the_end(
    engine_path: str, llm: LLM, capsys: pytest.CaptureFixture[str]
) -> None:
    params = SamplingParams(max_tokens=TOKENS)
    for seed in range(400):
        params.seed = seed
        plain = llm.generate(PROMPT, params)[0].outputs[0]
        if plain.finish_reason == "stop" and len(plain.token_ids) < TOKENS:
            break
    else:
        pytest.fail("no seed ends early")
    base = ("--json", "--seed", str(seed))
    assert json.loads(run(engine_path, capsys, *base))["outputs"][0]["finish_reason"] == "stop"
    ignored = json.loads(run(engine_path, capsys, *base, "--ignore-eos"))["outputs"][0]
    assert (ignored["finish_reason"], len(ignored["token_ids"])) == ("length", TOKENS)
    forced = json.loads(run(engine_path, capsys, *base, "--min-tokens", str(TOKENS)))["outputs"][0]
    assert len(forced["token_ids"]) == TOKENS


def test_bad_words_are_not_generated(
    engine_path: str, llm: LLM, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = SamplingParams(max_tokens=TOKENS, temperature=0.0)
    plain = llm.generate(PROMPT, greedy)[0].outputs[0]
    first = plain.text.strip()[:1]
    assert first
    greedy.bad_words = [first, "zq"]
    asked = llm.generate(PROMPT, greedy)[0].outputs[0]
    assert asked.token_ids != plain.token_ids
    options = ("--temperature", "0", "--bad-word", first, "--bad-word", "zq", "--json")
    result = json.loads(run(engine_path, capsys, *options))["outputs"][0]
    assert result["token_ids"] == asked.token_ids


def test_several_answers(engine_path: str, llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    asked = llm.generate(PROMPT, SamplingParams(max_tokens=TOKENS, seed=3, n=3))[0].outputs
    assert len({tuple(answer.token_ids) for answer in asked}) > 1
    result = json.loads(run(engine_path, capsys, "--seed", "3", "--n", "3", "--json"))
    told = [(answer["index"], answer["token_ids"], answer["seed"]) for answer in result["outputs"]]
    assert told == [(answer.index, answer.token_ids, answer.seed) for answer in asked]
    assert [answer["index"] for answer in result["outputs"]] == [0, 1, 2]
    text = run(engine_path, capsys, "--seed", "3", "--n", "3")
    assert text == "".join(
        f"[answer {place} of 3]\n{answer.text}\n" for place, answer in enumerate(asked, 1)
    )


def test_best_of(engine_path: str, llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    params = SamplingParams(max_tokens=TOKENS, seed=3, n=1, best_of=3)
    asked = llm.generate(PROMPT, params)[0].outputs[0]
    result = json.loads(run(engine_path, capsys, "--seed", "3", "--best-of", "3", "--json"))
    assert [answer["token_ids"] for answer in result["outputs"]] == [asked.token_ids]
    assert run(engine_path, capsys, "--seed", "3", "--best-of", "3") == asked.text + "\n"


def test_several_answers_are_drawn(engine_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(run(engine_path, capsys, "--n", "4", "--json"))
    assert len({tuple(answer["token_ids"]) for answer in result["outputs"]}) > 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--repetition-penalty", "0"], "repetition_penalty is 0"),
        (["--presence-penalty", "nan"], "presence_penalty is nan"),
        (["--frequency-penalty", "inf"], "frequency_penalty is inf"),
        (["--no-repeat-ngram-size", "-1"], "no_repeat_ngram_size is -1"),
        (["--min-tokens", "513"], "at most max_tokens, 512"),
        (["--typical-p", "0"], "typical_p is 0"),
        (["--bad-word", ""], "bad_words holds an empty entry"),
        (["--n", "0"], "n is 0"),
        (["--n", "3", "--best-of", "2"], "best_of is 2"),
    ],
)
def test_a_wrong_value_is_told_before_loading(
    capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    # The engine does not exist, which would be the error if the model were loaded first.
    assert main(("run", "no.engine", "--prompt", "x", *options)) == 2
    assert says in capsys.readouterr().err


def test_chat_takes_them_without_several_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("chat", "no.engine", "--typical-p", "2")) == 2
    assert "typical_p is 2" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit_code:
        main(("chat", "no.engine", "--n", "2"))
    assert exit_code.value.code == 2 and "unrecognized" in capsys.readouterr().err


def test_chat_applies_them(
    engine_path: str,
    llm: LLM,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = [{"role": "user", "content": PROMPT}]
    params = SamplingParams(max_tokens=TOKENS, seed=5, no_repeat_ngram_size=1)
    asked = llm.chat(message, params)[0].outputs[0].text
    params.no_repeat_ngram_size = 0
    assert llm.chat(message, params)[0].outputs[0].text != asked
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{PROMPT}\n".encode())))
    options = ("--max-tokens", str(TOKENS), "--seed", "5", "--no-repeat-ngram-size", "1")
    assert main(("chat", engine_path, *options)) == 0
    assert asked.strip() and asked in capsys.readouterr().out
