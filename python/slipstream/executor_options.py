"""The settings of an executor, as `LLM` and `AsyncLLM` take them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from slipstream import _native
from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError
from slipstream.units import parse_bytes

__all__ = ["ExecutorOptions", "count"]

_CAPACITY = {
    "guaranteed-no-evict": _native.CapacityPolicy.GUARANTEED_NO_EVICT,
    "max-utilization": _native.CapacityPolicy.MAX_UTILIZATION,
}
_CHUNKING = {
    "first-come": _native.ChunkingPolicy.FIRST_COME,
    "equal-progress": _native.ChunkingPolicy.EQUAL_PROGRESS,
}
_Choice = TypeVar("_Choice")
_MOST_KEPT = 2**20
_LONGEST_S = 365 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Checked when `to_native` is called; see `LLM` for what each means."""

    kv_memory: int | str | None
    max_batch_size: int | None
    max_num_tokens: int | None
    max_queued_requests: int
    prefix_cache: bool
    host_kv_memory: int | str | None
    host_kv_dir: str | os.PathLike[str] | None
    capacity: str
    chunking: str
    ageing: float | None
    kv_events: int
    iteration_history: int

    def to_native(self) -> _native.ExecutorConfig:
        """Raises InvalidArgumentError naming the argument."""
        config = _native.ExecutorConfig()
        config.max_batch_size = count("max_batch_size", self.max_batch_size)
        config.max_num_tokens = count("max_num_tokens", self.max_num_tokens)
        config.max_queued_requests = count(
            "max_queued_requests", self.max_queued_requests, default=False
        )
        if self.kv_memory is not None:
            config.kv_memory_bytes = parse_bytes(self.kv_memory, "kv_memory")
        if not isinstance(self.prefix_cache, bool):
            raise InvalidArgumentError(
                f"prefix_cache is {shown(self.prefix_cache)}; it must be True or False."
            )
        config.prefix_cache = self.prefix_cache
        if self.host_kv_memory is not None:
            config.host_kv_bytes = parse_bytes(self.host_kv_memory, "host_kv_memory")
        if self.host_kv_dir is not None:
            config.host_kv_dir = _folder("host_kv_dir", self.host_kv_dir)
        config.capacity = _choice("capacity", self.capacity, _CAPACITY)
        config.chunking = _choice("chunking", self.chunking, _CHUNKING)
        config.ageing_ms = _ageing_ms(self.ageing)
        config.max_kv_events = _at_most("kv_events", self.kv_events)
        config.iteration_history = _at_most("iteration_history", self.iteration_history)
        return config


def count(name: str, value: int | None, high: int = 2**31 - 1, *, default: bool = True) -> int:
    """A count where None means the default, if there is one, which the runtime writes as 0."""
    if value is None and default:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be an integer from 1 to {high}"
            f"{', or None for the default' if default else ''}."
        )
    return value


def _choice(name: str, value: object, choices: Mapping[str, _Choice]) -> _Choice:
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be one of {', '.join(choices)}."
        )
    return choices[value]


def _folder(name: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be the path of a folder.")
    return path


def _at_most(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_KEPT:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be an integer from 0 to {_MOST_KEPT}."
        )
    return value


def _ageing_ms(ageing: float | None) -> int:
    if ageing is None:
        return 0
    number = isinstance(ageing, (int, float)) and not isinstance(ageing, bool)
    if not number or not 0 < ageing <= _LONGEST_S:
        raise InvalidArgumentError(
            f"ageing is {shown(ageing)}; it must be a number of seconds above 0 and at most "
            f"{_LONGEST_S}, or None for no ageing."
        )
    return math.ceil(ageing * 1000)
