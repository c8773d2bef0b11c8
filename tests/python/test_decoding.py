"""Logits processors, log-probabilities and draws through `LLM`, against Hugging Face's own
processors where torch is installed.

A processor of the caller sees the row after all built-in ones, and `return_logits` gives it before
them: between the two lies what is tested.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_fixtures import build_tiny_engine
from numpy.typing import NDArray
from tiny_models import TinyConfig, make_checkpoint

from slipstream import LLM, SamplingParams
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.errors import InvalidArgumentError
from slipstream.outputs import CompletionOutput

needs_torch = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")),
    reason="torch and transformers are not installed",
)
END = 2  # the model's end id


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    with LLM(build_tiny_engine(tmp_path_factory.mktemp("decoding")), threads=1) as model:
        yield model


class Probe:
    """Keeps what it is shown, and changes nothing."""

    def __init__(self) -> None:
        self.histories: list[list[int]] = []
        self.rows: list[NDArray[np.float32]] = []

    def __call__(self, token_ids: list[int], logits: NDArray[np.float32]) -> None:
        self.histories.append(token_ids)
        self.rows.append(logits)


def probed(llm: LLM, prompt: list[int], **settings: Any) -> tuple[CompletionOutput, Probe]:
    probe = Probe()
    params = SamplingParams(return_logits=True, logits_processors=[probe], **settings)
    (output,) = llm.generate(prompt, params)
    completion = output.outputs[0]
    count = len(completion.token_ids)
    assert probe.histories == [prompt + completion.token_ids[:i] for i in range(count)]
    assert completion.logits is not None and len(completion.logits) == count
    return completion, probe


def draw_prompt(rng: random.Random) -> list[int]:
    """Few different ids, so that n-grams repeat."""
    return [rng.choice((3, 4, 5, 6, 7)) for _ in range(rng.randint(1, 40))]


CASES: list[dict[str, Any]] = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.4},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"min_tokens": 12},
    {"bad_words": [[4], [3, 5], [5, 5, 6], [9]]},
    {"logit_bias": {3: 2.5, 200: -7.25}},
    {"allowed_token_ids": [3, 4, 5, 6, 7, 100, 2]},
    {
        "repetition_penalty": 1.2,
        "no_repeat_ngram_size": 2,
        "bad_words": [[3, 4], [7]],
        "min_tokens": 8,
        "logit_bias": {5: 4.0},
    },
]


def hugging_face(settings: dict[str, Any], prompt_tokens: int) -> Any:
    """The same settings as transformers' own processors, in the order of its `generate`."""
    from transformers.generation import logits_process as hf

    processors = hf.LogitsProcessorList()
    if "logit_bias" in settings:
        bias = [[[token], value] for token, value in settings["logit_bias"].items()]
        processors.append(hf.SequenceBiasLogitsProcessor(bias))
    if "repetition_penalty" in settings:
        processors.append(hf.RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"]))
    if "no_repeat_ngram_size" in settings:
        processors.append(hf.NoRepeatNGramLogitsProcessor(settings["no_repeat_ngram_size"]))
    if "bad_words" in settings:
        processors.append(hf.NoBadWordsLogitsProcessor(settings["bad_words"]))
    if "min_tokens" in settings:
        processors.append(
            hf.MinNewTokensLengthLogitsProcessor(prompt_tokens, settings["min_tokens"], END)
        )
    if "allowed_token_ids" in settings:
        allowed = settings["allowed_token_ids"]
        processors.append(hf.PrefixConstrainedLogitsProcessor(lambda batch, ids: allowed, 1))
    return processors


@needs_torch
@pytest.mark.parametrize("settings", CASES, ids=lambda case: "-".join(case))
def test_rows_equal_hugging_face(llm: LLM, settings: dict[str, Any]) -> None:
    import torch

    rng = random.Random(str(settings))
    changed = 0
    for seed in range(6):
        prompt = draw_prompt(rng)
        completion, probe = probed(
            llm, prompt, max_tokens=30, temperature=1.5, top_k=3, seed=seed, **settings
        )
        processors = hugging_face(settings, len(prompt))
        assert completion.logits is not None
        for history, raw, row in zip(probe.histories, completion.logits, probe.rows, strict=True):
            want = processors(torch.tensor([history]), torch.tensor(raw)[None])[0].numpy()
            np.testing.assert_array_equal(row, want)
            changed += not np.array_equal(row, raw)
    assert changed > 5


@needs_torch
def test_greedy_text_equals_generate_of_hugging_face(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    rng = random.Random(5)
    differ = 0
    for architecture in ("LlamaForCausalLM", "Qwen2ForCausalLM"):
        folder = tmp_path / architecture
        make_checkpoint(folder, TinyConfig(architecture=architecture, vocab=265, tokenizer=True))
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        engine = tmp_path / f"{architecture}.engine"
        build(folder, engine, BuildConfig(weights="f32", kv_cache="f32"))
        with LLM(engine, threads=1) as ours:
            for settings in CASES:
                prompt = draw_prompt(rng)
                renamed = {
                    "repetition_penalty": settings.get("repetition_penalty"),
                    "no_repeat_ngram_size": settings.get("no_repeat_ngram_size"),
                    "bad_words_ids": settings.get("bad_words"),
                    "min_new_tokens": settings.get("min_tokens"),
                }
                given = {key: value for key, value in renamed.items() if value is not None}
                if "logit_bias" in settings:
                    given["sequence_bias"] = [
                        [[token], value] for token, value in settings["logit_bias"].items()
                    ]
                if "allowed_token_ids" in settings:
                    allowed = settings["allowed_token_ids"]
                    given["prefix_allowed_tokens_fn"] = lambda batch, ids, allowed=allowed: allowed
                with torch.no_grad():
                    want = theirs.generate(
                        torch.tensor([prompt]),
                        max_new_tokens=24,
                        do_sample=False,
                        eos_token_id=END,
                        pad_token_id=END,
                        **given,
                    )[0, len(prompt) :].tolist()
                params = SamplingParams(max_tokens=24, temperature=0, **settings)
                got = ours.generate(prompt, params)[0].outputs[0].token_ids
                assert got == want, settings
                plain = ours.generate(prompt, SamplingParams(max_tokens=24, temperature=0))
                differ += plain[0].outputs[0].token_ids != got
    assert differ > 8


def test_penalties_follow_their_formula(llm: LLM) -> None:
    prompt = [3, 4, 3, 5]
    completion, probe = probed(
        llm,
        prompt,
        max_tokens=40,
        temperature=1.0,
        top_k=4,
        seed=1,
        frequency_penalty=0.75,
        presence_penalty=-0.5,
        ignore_eos=True,
    )
    assert completion.logits is not None
    for i, (raw, row) in enumerate(zip(completion.logits, probe.rows, strict=True)):
        counts = np.bincount(completion.token_ids[:i], minlength=len(raw)).astype(np.float32)
        want = raw - np.float32(0.75) * counts + np.float32(0.5) * (counts > 0)
        np.testing.assert_allclose(row, want, rtol=0, atol=1e-6)


@needs_torch
@pytest.mark.parametrize(
    "settings",
    [
        {"typical_p": 0.3},
        {"typical_p": 0.9, "temperature": 0.7},
        {"typical_p": 0.6, "top_k": 40, "temperature": 1.4},
        {"typical_p": 0.5, "top_k": 60, "top_p": 0.8, "min_p": 0.02},
        {"top_k": 12, "top_p": 0.7},
        {"min_p": 0.3, "temperature": 2.0},
    ],
    ids=lambda case: "-".join(case),
)
def test_draws_follow_the_distribution_of_hugging_face(llm: LLM, settings: dict[str, Any]) -> None:
    import torch
    from transformers.generation import logits_process as hf

    prompt = [3, 9, 4]
    first = SamplingParams(max_tokens=1, return_logits=True, temperature=0)
    raw = (llm.generate(prompt, first)[0].outputs[0].logits or [])[0]
    scores = torch.tensor(raw)[None] / settings.get("temperature", 1.0)
    if "top_k" in settings:
        scores = hf.TopKLogitsWarper(settings["top_k"])(None, scores)
    if "top_p" in settings:
        scores = hf.TopPLogitsWarper(settings["top_p"])(None, scores)
    if "min_p" in settings:
        scores = hf.MinPLogitsWarper(settings["min_p"])(None, scores)
    if "typical_p" in settings:
        scores = hf.TypicalLogitsWarper(settings["typical_p"])(None, scores)
    want = torch.softmax(scores.double(), -1)[0].numpy()
    draws = 4000
    params = [
        SamplingParams(max_tokens=1, seed=seed, **{"temperature": 1.0, **settings})
        for seed in range(draws)
    ]
    outputs = llm.generate([prompt] * draws, params)
    counts = np.bincount([o.outputs[0].token_ids[0] for o in outputs], minlength=len(want))
    assert not counts[want == 0].any(), "a token that Hugging Face excludes was drawn"
    expected = want * draws
    common = expected >= 5
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    degrees = int(common.sum()) - 1
    assert degrees >= 2
    # Five standard deviations of chi-square.
    assert statistic < degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("asked", [0, 1, 5, 256])
def test_logprobs_are_of_the_raw_logits(llm: LLM, asked: int) -> None:
    params = SamplingParams(
        max_tokens=12,
        temperature=1.3,
        seed=4,
        top_k=30,
        repetition_penalty=1.5,
        no_repeat_ngram_size=2,
        logprobs=asked,
        return_logits=True,
        ignore_eos=True,
    )
    completion = llm.generate([3, 4, 5], params)[0].outputs[0]
    assert completion.logprobs is not None and completion.logits is not None
    for token, entries, raw in zip(
        completion.token_ids, completion.logprobs, completion.logits, strict=True
    ):
        exact = raw.astype(np.float64)
        exact -= exact.max() + np.log(np.exp(exact - exact.max()).sum())
        order = np.argsort(-raw, kind="stable")
        rank_of = {int(id): rank for rank, id in enumerate(order, start=1)}
        likeliest = [int(id) for id in order[:asked]]
        assert list(entries) == [token, *(id for id in likeliest if id != token)]
        for id, entry in entries.items():
            assert entry.rank == rank_of[id]
            assert abs(entry.logprob - exact[id]) < 1e-5
            assert entry.decoded_token == llm.tokenizer.decode([id], skip_special_tokens=False)


@needs_torch
def test_prompt_logprobs_equal_hugging_face(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "model"
    make_checkpoint(folder, TinyConfig(vocab=265, tokenizer=True))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    build(folder, tmp_path / "m.engine", BuildConfig(weights="f32", kv_cache="f32"))
    prompt = [random.Random(8).randrange(3, 265) for _ in range(70)]
    with torch.no_grad():
        want = torch.log_softmax(model(torch.tensor([prompt])).logits[0].double(), -1).numpy()
    with LLM(tmp_path / "m.engine", threads=1) as ours:
        (output,) = ours.generate(prompt, SamplingParams(max_tokens=2, prompt_logprobs=3))
    assert output.prompt_logprobs is not None
    first, *rest = output.prompt_logprobs
    assert first is None and len(rest) == len(prompt) - 1
    for position, (token, entries) in enumerate(zip(prompt[1:], rest, strict=True)):
        assert entries is not None and next(iter(entries)) == token
        assert len(entries) in (3, 4) and {1, 2, 3} <= {e.rank for e in entries.values()}
        for id, entry in entries.items():
            assert abs(entry.logprob - want[position, id]) < 1e-4


def test_prompt_logprobs_do_not_depend_on_pieces_and_batch(llm: LLM) -> None:
    rng = random.Random(3)
    prompts = [[rng.randrange(3, 265) for _ in range(rng.randint(1, 150))] for _ in range(12)]
    params = [
        SamplingParams(
            max_tokens=3, seed=index, prompt_logprobs=None if index % 3 == 2 else index % 4
        )
        for index in range(len(prompts))
    ]
    outputs = llm.generate(prompts, params)
    for prompt, each, output in zip(prompts, params, outputs, strict=True):
        if each.prompt_logprobs is None:
            assert output.prompt_logprobs is None
        else:
            assert output.prompt_logprobs is not None
            assert len(output.prompt_logprobs) == len(prompt)
    with LLM(llm.engine.path, threads=1, max_batch_size=5, max_num_tokens=17) as small:
        again = small.generate(prompts, params)
    assert [o.prompt_logprobs for o in outputs] == [o.prompt_logprobs for o in again]
    assert [o.outputs for o in outputs] == [o.outputs for o in again]
    streamed = list(llm.stream(prompts[0], params[0]))[-1]
    assert streamed.prompt_logprobs == outputs[0].prompt_logprobs


def test_a_processor_may_return_a_row(llm: LLM) -> None:
    def only_nine(token_ids: list[int], logits: NDArray[np.float32]) -> NDArray[np.float64]:
        row = np.full(logits.shape, -np.inf)
        row[9] = 0.0
        return row

    params = SamplingParams(max_tokens=4, logits_processors=[only_nine], logprobs=0)
    completion = llm.generate([3], params)[0].outputs[0]
    assert completion.token_ids == [9, 9, 9, 9]
    assert completion.cumulative_logprob is not None and completion.cumulative_logprob < -1


def test_what_a_processor_raises_reaches_the_caller(llm: LLM) -> None:
    def fails_late(token_ids: list[int], logits: NDArray[np.float32]) -> None:
        if len(token_ids) == 5:
            raise ZeroDivisionError("by design")

    bad = SamplingParams(max_tokens=8, logits_processors=[fails_late], ignore_eos=True)
    with pytest.raises(InvalidArgumentError, match="ZeroDivisionError: by design") as caught:
        llm.generate([[3, 4], [3, 4]], [SamplingParams(max_tokens=8), bad])
    assert "prompts[1]: logits_processors[0]" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(InvalidArgumentError, match="by design") as caught:
        list(llm.stream([3, 4], bad))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    # Others are not touched, and the executor goes on.
    assert len(llm.generate([3, 4], SamplingParams(max_tokens=3, ignore_eos=True))) == 1


@pytest.mark.parametrize(
    ("processor", "says"),
    [
        (lambda ids, row: row[:-1], r"array of shape \(264,\); expected \(265,\)"),
        (lambda ids, row: "x", "returned a str"),
        (lambda ids, row: row + 1j, "returned complex numbers; return real ones"),
        (lambda ids, row: [1j] * 265, "returned complex numbers"),
        (lambda ids: None, "TypeError"),
        (lambda ids, row: row.fill(np.nan), "left NaN at id 0"),
        (lambda ids, row: row.fill(-np.inf), "exclude every token at position 1"),
    ],
)
def test_a_wrong_row_is_an_error_of_its_request(llm: LLM, processor: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        llm.generate([3], SamplingParams(max_tokens=2, logits_processors=[processor]))


def test_bad_words_as_texts_are_not_generated(llm: LLM) -> None:
    greedy = SamplingParams(max_tokens=30, temperature=0, ignore_eos=True)
    text = llm.generate("the inner", greedy)[0].outputs[0].text
    word = next(part for part in (text[i : i + 1] for i in range(len(text))) if part.isalnum())
    params = SamplingParams(max_tokens=30, temperature=0, ignore_eos=True, bad_words=[word])
    changed = llm.generate("the inner", params)[0].outputs[0]
    banned = {tuple(llm.tokenizer.encode(f + word, add_special_tokens=False)) for f in ("", " ")}
    ids = llm.tokenizer.encode("the inner") + changed.token_ids
    begin = len(ids) - len(changed.token_ids)
    for end in range(begin + 1, len(ids) + 1):
        assert not any(tuple(ids[end - len(b) : end]) == b for b in banned)
    assert changed.text != text


def test_ids_outside_the_vocabulary_are_refused(llm: LLM) -> None:
    for settings in (
        {"logit_bias": {265: 1.0}},
        {"allowed_token_ids": [3, 265]},
        {"bad_words": [[3, 265]]},
    ):
        with pytest.raises(InvalidArgumentError, match="265, outside the model's vocabulary"):
            llm.generate([3], SamplingParams(**settings))  # type: ignore[arg-type]


def test_processing_does_not_depend_on_the_batch(llm: LLM) -> None:
    rng = random.Random(12)
    prompts = [draw_prompt(rng) for _ in range(24)]
    params = [
        SamplingParams(
            max_tokens=20,
            temperature=1.0,
            seed=index,
            logprobs=index % 4,
            typical_p=0.5 + index % 3 * 0.2,
            **CASES[index % len(CASES)],
        )
        for index in range(len(prompts))
    ]
    together = llm.generate(prompts, params)
    for prompt, each, output in zip(prompts, params, together, strict=True):
        (alone,) = llm.generate([prompt], [each])
        assert alone.outputs == output.outputs
