"""JSON that is not trusted, read as strictly as the C++ runtime reads it. No numpy.

Duplicate keys, NaN, numbers that f64 cannot hold, deep nesting and lone surrogates are refused:
each of them would fail later, far from its cause, or only in the runtime.
"""

from __future__ import annotations

import json
import math
from typing import Any

from slipstream._shown import shown

# Nested arrays and objects, the same number as in the runtime.
MAX_DEPTH = 64
# Longer whole numbers are beyond f64 and need not be converted to know that.
_MAX_DIGITS = 309


class JsonError(ValueError):
    """The text is refused. The message completes a sentence that starts with its name."""


def loads(data: bytes, max_depth: int = MAX_DEPTH) -> Any:
    """One JSON value that fills `data`. JsonError says what is wrong and where."""
    deep = f"is nested more than {max_depth} deep"
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except UnicodeDecodeError as error:
        raise JsonError(f"is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise JsonError(f"is not valid JSON: {error.msg} at {place}") from error
    except RecursionError as error:
        raise JsonError(deep) from error
    except ValueError as error:
        raise JsonError(f"is not valid JSON: {error}") from error
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, (dict, list)):
            if depth > max_depth:
                raise JsonError(deep)
            children = item if isinstance(item, list) else [*item.keys(), *item.values()]
            stack.extend((child, depth + 1) for child in children)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown(key)} appears twice")
            seen.add(key)
    return out


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _bounded(text: str) -> int:
    # The runtime reads what 64 bits cannot hold as f64.
    if len(text.removeprefix("-")) > _MAX_DIGITS or not math.isfinite(float(text)):
        raise ValueError(f"the number {text[:40]}... is out of range")
    return int(text)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise JsonError("holds a lone surrogate, which is no text") from error
