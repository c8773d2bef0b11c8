"""The forms in which a prompt may be given, brought into one."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict, cast

from slipstream._sequences import listed
from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError
from slipstream.sampling import check_text

__all__ = ["Prompt", "Prompts", "TextPrompt", "TokenPrompt", "TokensPrompt", "normalize", "split"]


class TextPrompt(TypedDict):
    """A prompt of text."""

    prompt: str


class TokensPrompt(TypedDict):
    """A prompt of ready token ids, used as they are."""

    prompt_token_ids: Sequence[int]


Prompt: TypeAlias = str | Sequence[int] | TextPrompt | TokensPrompt
Prompts: TypeAlias = Prompt | Sequence[Prompt]


@dataclass(slots=True)
class TokenPrompt:
    """A prompt of one request: its text if it had one, or its ids if they were given."""

    text: str | None
    token_ids: list[int] | None


def split(prompts: Prompts) -> tuple[list[Prompt], bool]:
    """The prompts as a list, and whether it was one prompt rather than a list of prompts."""
    if isinstance(prompts, (str, bytes, bytearray, Mapping)) or not isinstance(prompts, Iterable):
        return [cast("Prompt", prompts)], True
    items = listed("prompts", prompts)
    if items and _is_id(items[0]):
        return [cast("list[int]", items)], True
    return cast("list[Prompt]", items), False


def normalize(prompt: Prompt) -> TokenPrompt:
    """Checks the form of one prompt. What depends on the engine is checked when it is submitted."""
    if isinstance(prompt, str):
        return _text(prompt)
    if isinstance(prompt, Mapping):
        keys = set(prompt)
        if keys == {"prompt"} and isinstance(prompt["prompt"], str):  # type: ignore[typeddict-item]
            return _text(prompt["prompt"])  # type: ignore[typeddict-item]
        if keys == {"prompt_token_ids"}:
            return _ids(prompt["prompt_token_ids"])  # type: ignore[typeddict-item]
        raise InvalidArgumentError(
            f"A prompt dict has the keys {shown(sorted(map(str, keys)))}; it must be "
            "{'prompt': text} or {'prompt_token_ids': ids}."
        )
    if isinstance(prompt, Iterable) and not isinstance(prompt, (bytes, bytearray)):
        return _ids(prompt)
    raise InvalidArgumentError(
        f"A prompt is a {type(prompt).__name__}; give a str, a list of token ids, or a dict with "
        "'prompt' or 'prompt_token_ids'."
    )


def _is_id(item: object) -> bool:
    """Whether it is one number. An array has __index__ too, but it also has a length."""
    try:
        len(item)  # type: ignore[arg-type]
    except Exception:  # of the item's own class, too
        return hasattr(item, "__index__")
    return False


def _text(text: str) -> TokenPrompt:
    if not text:
        raise InvalidArgumentError("The prompt is empty; give at least one character.")
    check_text("The prompt", text)
    return TokenPrompt(text, None)


def _ids(ids: Iterable[int]) -> TokenPrompt:
    if not isinstance(ids, Iterable):
        raise InvalidArgumentError(
            f"prompt_token_ids is {shown(ids)}; it must be a list of integers."
        )
    numbers = []
    for position, token in enumerate(listed("prompt_token_ids", ids)):
        try:
            numbers.append(operator.index(token))
        except Exception:  # of the item's own class, too
            raise InvalidArgumentError(
                f"prompt_token_ids[{position}] is {shown(token)}; it must be an integer."
            ) from None
    if not numbers:
        raise InvalidArgumentError("The prompt is empty; give at least one token id.")
    for position, token in enumerate(numbers):
        if not 0 <= token < 2**31:
            raise InvalidArgumentError(
                f"prompt_token_ids[{position}] is {shown(token)}; ids start at 0 and must be below "
                "the size of the vocabulary."
            )
    return TokenPrompt(None, numbers)
