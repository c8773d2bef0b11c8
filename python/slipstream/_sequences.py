"""Lists from callers: any finite sequence, numpy arrays and a caller's own classes included."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError

__all__ = ["as_list", "listed"]


def as_list(name: str, value: Any, form: str) -> list[Any]:
    """The items of a sequence; [] for None. `form` tells in the error what `name` must be.

    A sequence, not an iterator: the fields of SamplingParams are read more than once. Nothing is
    asked of its truth, which an array of several items does not have.

    Raises:
        InvalidArgumentError: it is no sequence, or its own class fails to give its items.
    """
    if value is None:
        return []
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be {form}, or None.")
    try:
        length = len(value)
        # A class whose __getitem__ never ends would be read for ever.
        items = list(islice(iter(value), length + 1))
    except Exception as error:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, whose items cannot be read ({type(error).__name__}); it "
            f"must be {form}, or None."
        ) from error
    if len(items) != length:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, whose length of {length} is not its number of items; it "
            f"must be {form}, or None."
        )
    return items


def listed(name: str, value: Iterable[Any]) -> list[Any]:
    """The items of an iterable that is read once.

    Raises:
        InvalidArgumentError: its own class fails to give them, as does an array without dimensions.
    """
    try:
        return list(value)
    except Exception as error:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, whose items cannot be read ({type(error).__name__}); give "
            "a list."
        ) from error
