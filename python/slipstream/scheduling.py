"""When a request is served, and with whom it shares cached keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstream import _native
from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError

__all__ = ["KvRetention", "Scheduling", "check_salt"]

_LONGEST_S = 365 * 24 * 3600
_HIGHEST_PRIORITY = 1000
_LONGEST_SALT = 256
_MOST_RANGES = 1024
_FARTHEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class KvRetention:
    """What the keys and values of the positions [first, end) are worth when no request holds them.

    Attributes:
        first: position of the first token, from 0 on.
        end: position behind the last; None: to the end, generated tokens too.
        priority: from 0 (evicted first) to 100; 35 is that of blocks of which nobody says anything.
        duration: seconds from when the last request lets go, then 35 holds; None: for good.
    """

    first: int = 0
    end: int | None = None
    priority: int = 35
    duration: float | None = None

    def __post_init__(self) -> None:
        _check_integer("first", self.first, 0, _FARTHEST - 1)
        if self.end is not None:
            _check_integer("end", self.end, self.first + 1, _FARTHEST)
        _check_integer("priority", self.priority, 0, 100)
        _check_seconds("duration", self.duration)


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """How one request stands among the others. Nothing here changes its tokens.

    Attributes:
        priority: higher is served first; from -1000 to 1000.
        ttft_target: seconds until the first token is due; among requests of equal priority the
            sooner one is served first. None: no target.
        tpot_target: longest gap between two tokens in seconds: prompts of others get no more of a
            step than leaves this gap. None: no target.
        time_limit: seconds after which the request ends with "time_limit" and the tokens so far.
            None: no limit.
        cache_salt: cached prefixes are shared only between requests of the same salt; at most 256
            bytes in UTF-8.
        read_cache: False computes the whole prompt, whatever is cached.
        write_cache: False keeps nothing of this request for others.
        retention: how firmly its keys and values are kept afterwards; where ranges overlap the
            highest priority holds, and of requests that share tokens the last decides.
    """

    priority: int = 0
    ttft_target: float | None = None
    tpot_target: float | None = None
    time_limit: float | None = None
    cache_salt: str = ""
    read_cache: bool = True
    write_cache: bool = True
    retention: Sequence[KvRetention] = ()

    def __post_init__(self) -> None:
        priority = self.priority
        if (
            isinstance(priority, bool)
            or not isinstance(priority, int)
            or abs(priority) > _HIGHEST_PRIORITY
        ):
            raise InvalidArgumentError(
                f"priority is {shown(priority)}; it must be an integer from -{_HIGHEST_PRIORITY} "
                f"to {_HIGHEST_PRIORITY}."
            )
        for name in ("ttft_target", "tpot_target", "time_limit"):
            _check_seconds(name, getattr(self, name))
        check_salt("cache_salt", self.cache_salt)
        for name in ("read_cache", "write_cache"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgumentError(
                    f"{name} is {shown(getattr(self, name))}; it must be True or False."
                )

        ranges = self.retention
        if not isinstance(ranges, (list, tuple)) or len(ranges) > _MOST_RANGES:
            raise InvalidArgumentError(
                f"retention is {shown(ranges)}; it must be a list of at most {_MOST_RANGES} "
                "KvRetention."
            )
        for index, each in enumerate(ranges):
            if not isinstance(each, KvRetention):
                raise InvalidArgumentError(
                    f"retention[{index}] is {shown(each)}; it must be a KvRetention."
                )

    def to_native(self) -> dict[str, Any]:
        """The arguments of `_native.Request`."""
        return {
            "priority": self.priority,
            "ttft_target_ms": _milliseconds(self.ttft_target),
            "tpot_target_ms": _milliseconds(self.tpot_target),
            "time_limit_ms": _milliseconds(self.time_limit),
            "cache_salt": self.cache_salt,
            "read_cache": self.read_cache,
            "write_cache": self.write_cache,
            "retention": [
                _native.KvRetention(
                    each.first,
                    _FARTHEST if each.end is None else each.end,
                    each.priority,
                    _milliseconds(each.duration),
                )
                for each in self.retention
            ],
        }


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be an integer from {low} to {high}."
        )


def _check_seconds(name: str, value: object) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= _LONGEST_S:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be a number of seconds above 0 and at most "
            f"{_LONGEST_S}, or None."
        )


def check_salt(name: str, salt: object) -> None:
    """Raises InvalidArgumentError unless it can be the salt of a cache key."""
    try:
        fits = isinstance(salt, str) and len(salt.encode()) <= _LONGEST_SALT
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{name} is {shown(salt)}, which cannot be written as UTF-8; give other text."
        ) from None
    if not fits:
        raise InvalidArgumentError(
            f"{name} is {shown(salt)}; it must be a text of at most {_LONGEST_SALT} bytes in "
            "UTF-8. Give a hash of it."
        )


def _milliseconds(seconds: float | None) -> int:
    """Rounded up: a target never becomes "none"."""
    return 0 if seconds is None else math.ceil(seconds * 1000)
