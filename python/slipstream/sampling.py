"""`SamplingParams`: how the next token is chosen, in the names and meanings of vLLM."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipstream.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slipstream import _native

__all__ = ["SamplingParams"]

_INT32_MAX = 2**31 - 1


@dataclass(kw_only=True)
class SamplingParams:
    """Sampling settings of one request. Requests with different settings share a batch.

    The order is temperature, top_k, top_p, min_p, draw. A temperature below 1e-5 is greedy: the
    highest logit, ties to the lower id.

    Args:
        max_tokens: tokens to generate at most, at least 1.
        temperature: finite, >= 0; 0 is greedy.
        top_k: keep the k likeliest tokens; 0 or -1 keeps all.
        top_p: keep the likeliest tokens whose probability sums to this; in (0, 1].
        min_p: drop tokens below this fraction of the likeliest probability; in [0, 1].
        seed: 0 to 2**64-1; None takes a fresh one, which the output reports.
        stop: generation ends before any of these strings appears in the text.
        stop_token_ids: further ids that end generation, beside the model's own end ids.
        include_stop_str_in_output: keep the matched stop string at the end of the text.
        ignore_eos: go on after an end id of the model; stop_token_ids still end.
        skip_special_tokens: leave special tokens out of the text, never out of the ids.
        logprobs: None, or 0 for the log-probability of each sampled token.

    Raises:
        InvalidArgumentError: a value is out of its range.
    """

    max_tokens: int = 16
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Checks every field; also runs before each request, because the fields are mutable."""
        _check_int("max_tokens", self.max_tokens, 1, _INT32_MAX)
        _check_float("temperature", self.temperature)
        if self.temperature < 0:
            raise InvalidArgumentError(
                f"temperature is {self.temperature}; it must be 0 (greedy) or more."
            )
        _check_int("top_k", self.top_k, -1, _INT32_MAX)
        _check_float("top_p", self.top_p)
        if not 0 < self.top_p <= 1:
            raise InvalidArgumentError(f"top_p is {self.top_p}; it must be in (0, 1].")
        _check_float("min_p", self.min_p)
        if not 0 <= self.min_p <= 1:
            raise InvalidArgumentError(f"min_p is {self.min_p}; it must be in [0, 1].")
        if self.seed is not None:
            _check_int("seed", self.seed, 0, 2**64 - 1)
        _check_list("stop", self.stop, "a str or a list of str")
        for text in self.stop_strings():
            if not isinstance(text, str):
                raise InvalidArgumentError(
                    f"stop holds {text!r}; every stop string must be a str. For token ids use "
                    "stop_token_ids."
                )
            if not text:
                raise InvalidArgumentError("stop holds an empty string; remove it.")
            check_text("stop", text)
        _check_list("stop_token_ids", self.stop_token_ids, "a list of int")
        for token in self.stop_token_ids or ():
            _check_int("stop_token_ids", token, 0, _INT32_MAX)
        for name in ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgumentError(
                    f"{name} is {getattr(self, name)!r}; it must be True or False."
                )
        if self.logprobs is not None and (isinstance(self.logprobs, bool) or self.logprobs != 0):
            raise InvalidArgumentError(
                f"logprobs is {self.logprobs!r}; only the log-probability of the sampled token is "
                "available: use logprobs=0 for it, or None for none."
            )

    def stop_strings(self) -> list[str]:
        """The stop strings as a list, whichever way they were given."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)

    def to_native(self) -> _native.SamplingParams:
        """The C++ form of the validated values."""
        from slipstream import _native

        self.validate()
        return _native.SamplingParams(
            max_tokens=operator.index(self.max_tokens),
            temperature=float(self.temperature),
            top_k=max(operator.index(self.top_k), 0),
            top_p=float(self.top_p),
            min_p=float(self.min_p),
            seed=None if self.seed is None else operator.index(self.seed),
            stop=self.stop_strings(),
            stop_token_ids=[operator.index(token) for token in self.stop_token_ids or ()],
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            skip_special_tokens=self.skip_special_tokens,
            logprobs=self.logprobs is not None,
        )

    @classmethod
    def from_generation_config(cls, config: Mapping[str, Any], **overrides: Any) -> SamplingParams:
        """The defaults that a model's generation_config.json asks for.

        As in transformers: greedy unless `do_sample` is true, and then its temperature, top_k,
        top_p and min_p.
        """
        values: dict[str, Any] = {"temperature": 0.0}
        if config.get("do_sample"):
            values["temperature"] = 1.0
            for name in ("temperature", "top_k", "top_p", "min_p"):
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


def _check_int(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, bool):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if low <= number <= high:
                return
            raise InvalidArgumentError(
                f"{name} is {number}; it must be {low} or more."
                if number < low
                else f"{name} is {number}; it must be at most {high}."
            )
    raise InvalidArgumentError(f"{name} is {value!r}; it must be an integer.")


def _check_list(name: str, value: object, form: str) -> None:
    # A Sequence, not an iterator: the fields are read more than once.
    if value is not None and not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        raise InvalidArgumentError(f"{name} is {value!r}; it must be {form}, or None.")


def _check_float(name: str, value: object) -> None:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a number.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(
            f"{name} is {value!r:.40}; it must be a finite number."
        ) from None
    if not math.isfinite(number):
        raise InvalidArgumentError(f"{name} is {number}; it must be a finite number.")
