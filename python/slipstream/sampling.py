"""`SamplingParams`: how the next token is chosen, in the names and meanings of vLLM."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from slipstream._sequences import as_list
from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slipstream import _native

__all__ = ["LogitsProcessor", "SamplingParams"]

_INT32_MAX = 2**31 - 1
_MAX_LOGPROBS = 256  # kMaxLogprobs of slipstream/sampling.h
_FINITE = sys.float_info.max
_IDS = "a list of int"
_WORDS = "a list of str or of lists of int"

# (token ids of prompt and answer, float32 logits) -> None after a change in place, or a new row.
LogitsProcessor: TypeAlias = Callable[[list[int], Any], Any]


@dataclass(kw_only=True)
class SamplingParams:
    """Sampling settings of one request. Requests with different settings share a batch.

    The order, on a row of raw logits:

    1. logit_bias, repetition_penalty, frequency_penalty and presence_penalty change values;
    2. no_repeat_ngram_size, bad_words, min_tokens and allowed_token_ids exclude tokens;
    3. the logits_processors, in their order;
    4. temperature, top_k, top_p, min_p, typical_p; draw.

    A temperature below 1e-5 is greedy: the highest logit after step 3, ties to the lower id. A
    request whose settings exclude every token fails with InvalidArgumentError.

    Args:
        max_tokens: tokens to generate at most, at least 1.
        min_tokens: until so many are generated, end ids of the model (unless ignore_eos) and
            stop_token_ids are excluded, and stop strings do not end; from 0 to max_tokens.
        temperature: finite, >= 0; 0 is greedy.
        top_k: keep the k likeliest tokens; 0 or -1 keeps all.
        top_p: keep the likeliest tokens whose probability sums to this; in (0, 1].
        min_p: drop tokens below this fraction of the likeliest probability; in [0, 1].
        typical_p: keep the tokens whose information is closest to the entropy, until their
            probability sums to this; in (0, 1].
        repetition_penalty: divides positive logits, and multiplies negative ones, of every token
            of prompt and answer; above 0, 1 changes nothing.
        presence_penalty: subtracted from the logit of every generated token.
        frequency_penalty: the same, times how often it was generated.
        no_repeat_ngram_size: no n-gram of so many tokens of prompt and answer occurs twice; 0
            allows all.
        logit_bias: {token id: value added to its logit}.
        allowed_token_ids: every other token is excluded; None allows all.
        bad_words: texts, or lists of token ids, that are not generated. A text is excluded as the
            ids that the tokenizer makes of it, with and without a space in front; other
            spellings of it in tokens are not.
        logits_processors: callables `(token_ids, logits)`: the ids of prompt and answer so far,
            and a float32 array of the whole vocabulary, to be changed in place or returned
            changed; -inf excludes a token. They run on the executor's thread and hold up every
            request, so they must be quick. What one raises ends its own request: the error that
            `generate` raises has it as its `__cause__`.
        seed: 0 to 2**64-1; None takes a fresh one, which the output reports.
        n: answers to give, at most max_batch_size. The first draws with `seed`, the others with
            seeds derived from it, which the outputs report. The prompt is computed once.
        best_of: answers to generate, of which the n of the highest cumulative log-probability are
            given, best first; a stream gets them at the end. None for n.
        stop: generation ends before any of these strings appears in the text.
        stop_token_ids: further ids that end generation, beside the model's own end ids.
        include_stop_str_in_output: keep the matched stop string at the end of the text.
        ignore_eos: go on after an end id of the model; stop_token_ids still end.
        skip_special_tokens: leave special tokens out of the text, never out of the ids.
        logprobs: the log-probability of each sampled token, and of so many of the likeliest ones,
            0 to 256, under the raw logits; None for none.
        prompt_logprobs: the same for each prompt token after the first. Its values are those of
            a cold run in one piece; such a prompt is computed in smaller pieces than others.
        return_logits: give the raw logits of each generated token.

    Raises:
        InvalidArgumentError: a value is out of its range.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: Sequence[int] | None = None
    bad_words: Sequence[str | Sequence[int]] | None = None
    logits_processors: Sequence[LogitsProcessor] | None = None
    seed: int | None = None
    n: int = 1
    best_of: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_logits: bool = False

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Checks every field; also runs before each request, because the fields are mutable."""
        _check_int("max_tokens", self.max_tokens, 1, _INT32_MAX)
        _check_float("temperature", self.temperature)
        if self.temperature < 0:
            raise InvalidArgumentError(
                f"temperature is {shown(self.temperature)}; it must be 0 (greedy) or more."
            )
        _check_int("top_k", self.top_k, -1, _INT32_MAX)
        _check_float("top_p", self.top_p)
        if not 0 < self.top_p <= 1:
            raise InvalidArgumentError(f"top_p is {shown(self.top_p)}; it must be in (0, 1].")
        _check_float("min_p", self.min_p)
        if not 0 <= self.min_p <= 1:
            raise InvalidArgumentError(f"min_p is {shown(self.min_p)}; it must be in [0, 1].")
        _check_float("typical_p", self.typical_p)
        if not 0 < self.typical_p <= 1:
            raise InvalidArgumentError(
                f"typical_p is {shown(self.typical_p)}; it must be in (0, 1]."
            )
        self._validate_processing()
        if self.seed is not None:
            _check_int("seed", self.seed, 0, 2**64 - 1)
        _check_int("n", self.n, 1, _INT32_MAX)
        if self.best_of is not None:
            _check_int("best_of", self.best_of, 1, _INT32_MAX)
            if self.best_of < self.n:
                raise InvalidArgumentError(
                    f"best_of is {shown(self.best_of)}; it must be at least n, {self.n}, or None."
                )
        for text in self.stop_strings():
            if not isinstance(text, str):
                raise InvalidArgumentError(
                    f"stop holds {shown(text)}; every stop string must be a str. For token ids use "
                    "stop_token_ids."
                )
            if not text:
                raise InvalidArgumentError("stop holds an empty string; remove it.")
            check_text("stop", text)
        for token in self.stop_ids():
            _check_int("stop_token_ids", token, 0, _INT32_MAX)
        for name in (
            "include_stop_str_in_output",
            "ignore_eos",
            "skip_special_tokens",
            "return_logits",
        ):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgumentError(
                    f"{name} is {shown(getattr(self, name))}; it must be True or False."
                )
        if self.logprobs is not None:
            _check_int("logprobs", self.logprobs, 0, _MAX_LOGPROBS)
        if self.prompt_logprobs is not None:
            _check_int("prompt_logprobs", self.prompt_logprobs, 0, _MAX_LOGPROBS)

    def _validate_processing(self) -> None:
        """The settings that change logits before temperature and filters."""
        _check_int("min_tokens", self.min_tokens, 0, _INT32_MAX)
        if self.min_tokens > self.max_tokens:
            raise InvalidArgumentError(
                f"min_tokens is {shown(self.min_tokens)}; it must be at most max_tokens, "
                f"{self.max_tokens}."
            )
        for name in ("repetition_penalty", "presence_penalty", "frequency_penalty"):
            _check_float(name, getattr(self, name))
        if self.repetition_penalty <= 0:
            raise InvalidArgumentError(
                f"repetition_penalty is {shown(self.repetition_penalty)}; it must be above 0 (1 "
                "changes nothing)."
            )
        _check_int("no_repeat_ngram_size", self.no_repeat_ngram_size, 0, _INT32_MAX)
        if self.logit_bias is not None and not isinstance(self.logit_bias, Mapping):
            raise InvalidArgumentError(
                f"logit_bias is {shown(self.logit_bias)}; it must be a dict of token id to number, "
                "or None."
            )
        for token, bias in self._biases():
            _check_int("logit_bias id", token, 0, _INT32_MAX)
            # The name is made only for an error: there may be one for each token of a vocabulary.
            if type(bias) not in (int, float) or not -_FINITE <= bias <= _FINITE:
                _check_float(f"logit_bias of id {shown(token)}", bias)
        allowed = as_list("allowed_token_ids", self.allowed_token_ids, _IDS)
        if self.allowed_token_ids is not None and not allowed:
            raise InvalidArgumentError(
                "allowed_token_ids is empty, so that nothing could be generated; use None to "
                "allow all."
            )
        for token in allowed:
            _check_int("allowed_token_ids", token, 0, _INT32_MAX)
        if isinstance(self.bad_words, str):
            raise InvalidArgumentError("bad_words is a str; put it into a list.")
        for word in as_list("bad_words", self.bad_words, _WORDS):
            items = word if isinstance(word, str) else as_list("bad_words", word, _WORDS)
            if not items:
                raise InvalidArgumentError("bad_words holds an empty entry; remove it.")
            if isinstance(items, str):
                check_text("bad_words", items)
            else:
                for token in items:
                    _check_int("bad_words id", token, 0, _INT32_MAX)
        for processor in self.processors():
            if not callable(processor):
                raise InvalidArgumentError(
                    f"logits_processors holds {shown(processor)}; each must be callable."
                )

    def stop_strings(self) -> list[str]:
        """The stop strings as a list, whichever way they were given."""
        if isinstance(self.stop, str):
            return [self.stop]
        return as_list("stop", self.stop, "a str or a list of str")

    def stop_ids(self) -> list[int]:
        """The stop token ids as a list, whichever sequence they were given in."""
        return as_list("stop_token_ids", self.stop_token_ids, _IDS)

    def processors(self) -> list[LogitsProcessor]:
        """The logits processors as a list, whichever sequence they were given in."""
        return as_list("logits_processors", self.logits_processors, "a list of callables")

    def _biases(self) -> list[tuple[Any, Any]]:
        if self.logit_bias is None:
            return []
        try:
            return [(token, bias) for token, bias in self.logit_bias.items()]
        except Exception as error:
            raise InvalidArgumentError(
                f"logit_bias is {shown(self.logit_bias)}, whose items cannot be read "
                f"({type(error).__name__}); it must be a dict of token id to number, or None."
            ) from error

    def to_native(self) -> _native.SamplingParams:
        """The C++ form of the validated values."""
        from slipstream import _native

        self.validate()
        words = as_list("bad_words", self.bad_words, _WORDS)
        return _native.SamplingParams(
            max_tokens=operator.index(self.max_tokens),
            min_tokens=operator.index(self.min_tokens),
            temperature=float(self.temperature),
            top_k=max(operator.index(self.top_k), 0),
            top_p=float(self.top_p),
            min_p=float(self.min_p),
            typical_p=float(self.typical_p),
            repetition_penalty=float(self.repetition_penalty),
            presence_penalty=float(self.presence_penalty),
            frequency_penalty=float(self.frequency_penalty),
            no_repeat_ngram_size=operator.index(self.no_repeat_ngram_size),
            logit_bias={operator.index(token): float(bias) for token, bias in self._biases()},
            allowed_token_ids=_ids(as_list("allowed_token_ids", self.allowed_token_ids, _IDS)),
            bad_words=[word for word in words if isinstance(word, str)],
            bad_words_ids=[_ids(word) for word in words if not isinstance(word, str)],
            seed=None if self.seed is None else operator.index(self.seed),
            n=operator.index(self.n),
            best_of=None if self.best_of is None else operator.index(self.best_of),
            stop=self.stop_strings(),
            stop_token_ids=_ids(self.stop_ids()),
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            skip_special_tokens=self.skip_special_tokens,
            logprobs=None if self.logprobs is None else operator.index(self.logprobs),
            prompt_logprobs=(
                None if self.prompt_logprobs is None else operator.index(self.prompt_logprobs)
            ),
            return_logits=self.return_logits,
        )

    @classmethod
    def from_generation_config(cls, config: Mapping[str, Any], **overrides: Any) -> SamplingParams:
        """The defaults that a model's generation_config.json asks for.

        As in transformers: greedy unless `do_sample` is true, and then its temperature, top_k,
        top_p, min_p and typical_p; penalties and excluded tokens in both cases.
        """
        values: dict[str, Any] = {"temperature": 0.0}
        for name, theirs in (
            ("repetition_penalty", "repetition_penalty"),
            ("no_repeat_ngram_size", "no_repeat_ngram_size"),
            ("bad_words", "bad_words_ids"),
        ):
            if config.get(theirs):
                values[name] = config[theirs]
        if config.get("do_sample"):
            values["temperature"] = 1.0
            for name in ("temperature", "top_k", "top_p", "min_p", "typical_p"):
                if config.get(name) is not None:
                    values[name] = config[name]
        return cls(**{**values, **overrides})


def check_text(where: str, text: str) -> None:
    """Raises unless `text` can be written as UTF-8: a str may hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{where} is not valid Unicode: character {error.start} is the lone surrogate "
            f"U+{ord(text[error.start]):04X}. Decode the bytes as UTF-8 first."
        ) from None


def _ids(tokens: Sequence[int]) -> list[int]:
    return [operator.index(token) for token in tokens]


def _check_int(name: str, value: object, low: int, high: int) -> None:
    if type(value) is int and low <= value <= high:
        return
    if not isinstance(value, bool):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except Exception:  # of the value's own class
            pass
        else:
            if low <= number <= high:
                return
            raise InvalidArgumentError(
                f"{name} is {shown(number)}; it must be {low} or more."
                if number < low
                else f"{name} is {shown(number)}; it must be at most {high}."
            )
    raise InvalidArgumentError(f"{name} is {shown(value)}; it must be an integer.")


def _check_float(name: str, value: object) -> None:
    if type(value) is float and math.isfinite(value):
        return
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be a number.")
    try:
        number = float(value)
    except Exception:  # of the value's own class, or too large
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be a finite number."
        ) from None
    if not math.isfinite(number):
        raise InvalidArgumentError(f"{name} is {number}; it must be a finite number.")
