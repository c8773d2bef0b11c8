"""JSON files of a checkpoint, read strictly: size, syntax, duplicate keys, finite numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from slipstream.builder.errors import InputError
from slipstream.errors import NotFoundError

MAX_JSON_BYTES = 256 << 20
MAX_DEPTH = 64


def read_bytes(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The bytes of a small file. NotFoundError or InputError otherwise."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError(f"{path} is not a regular file; copy the checkpoint's original file")
        if size > limit:
            raise InputError(
                f"{path} has {size} bytes, the limit is {limit}; copy the checkpoint's original "
                "file"
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist; the checkpoint is incomplete") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def parse_json(data: bytes, where: str) -> Any:
    """One JSON value. `where` names it in messages. InputError for anything that is not clean."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8 (byte {error.start}); copy the original file"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not valid JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}; copy the original file"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where} is nested more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON: {error}; copy the original file") from error
    _check(value, where)
    return value


def read_json(path: Path) -> Any:
    """A JSON file. NotFoundError if it does not exist, InputError if it is not clean JSON."""
    return parse_json(read_bytes(path), str(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {key!r} appears twice")
            seen.add(key)
    return out


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _check(value: Any, where: str) -> None:
    """Depth, and text that UTF-8 cannot hold: both would fail later, far from their cause."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise InputError(f"{where} is nested more than {MAX_DEPTH} deep")
        if isinstance(item, str):
            _check_text(item, where)
        elif isinstance(item, dict):
            for key, child in item.items():
                _check_text(key, where)
                stack.append((child, depth + 1))
        elif isinstance(item, list):
            stack.extend((child, depth + 1) for child in item)


def _check_text(text: str, where: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} holds a lone surrogate, which is no text; copy the original file"
            ) from error
