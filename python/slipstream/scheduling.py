"""When a request is served, and with whom it shares cached keys and values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError

__all__ = ["Scheduling"]

_LONGEST_S = 365 * 24 * 3600
_HIGHEST_PRIORITY = 1000
_LONGEST_SALT = 256


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
    """

    priority: int = 0
    ttft_target: float | None = None
    tpot_target: float | None = None
    time_limit: float | None = None
    cache_salt: str = ""
    read_cache: bool = True
    write_cache: bool = True

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
        salt = self.cache_salt
        if not isinstance(salt, str) or _utf8_length(salt) > _LONGEST_SALT:
            raise InvalidArgumentError(
                f"cache_salt is {shown(salt)}; it must be a text of at most {_LONGEST_SALT} bytes "
                "in UTF-8. Give a hash of it."
            )
        for name in ("read_cache", "write_cache"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgumentError(
                    f"{name} is {shown(getattr(self, name))}; it must be True or False."
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
        }


def _check_seconds(name: str, value: object) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= _LONGEST_S:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be a number of seconds above 0 and at most "
            f"{_LONGEST_S}, or None."
        )


def _utf8_length(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"cache_salt is {shown(text)}, which cannot be written as UTF-8; give other text."
        ) from None


def _milliseconds(seconds: float | None) -> int:
    """Rounded up: a target never becomes "none"."""
    return 0 if seconds is None else math.ceil(seconds * 1000)
