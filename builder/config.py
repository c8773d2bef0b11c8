"""What a user asks of a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from slipstream.builder.errors import InputError

FORMATS = ("f32", "f16", "bf16")
TARGETS = ("cpu",)

# Upper bounds of the limits: what the file format holds without any sum overflowing.
MAX_SEQ_LEN = 1 << 24
MAX_BATCH_SIZE = 1 << 16
MAX_NUM_TOKENS = 1 << 20


@dataclass(frozen=True)
class BuildConfig:
    """A requested configuration. Every field is optional; None leaves a limit to the builder.

    Args:
        weights: format of the matrices: "f32", "f16" or "bf16".
        kv_cache: format of the KV cache, the same choices.
        target: the machine to compile for: "cpu".
        max_seq_len: tokens of the longest sequence, prompt and output together; default
            min(the model's context, 8192).
        max_batch_size: sequences of one step; default 64.
        max_num_tokens: tokens of one step over all sequences; default 512.

    Raises:
        InputError: a value is not one of the choices, or out of range.
    """

    weights: str = "bf16"
    kv_cache: str = "bf16"
    target: str = "cpu"
    max_seq_len: int | None = None
    max_batch_size: int | None = None
    max_num_tokens: int | None = None

    def __post_init__(self) -> None:
        _choice("weights", self.weights, FORMATS)
        _choice("kv_cache", self.kv_cache, FORMATS)
        _choice("target", self.target, TARGETS)
        _limit("max_seq_len", self.max_seq_len, 2, MAX_SEQ_LEN)
        _limit("max_batch_size", self.max_batch_size, 1, MAX_BATCH_SIZE)
        _limit("max_num_tokens", self.max_num_tokens, 1, MAX_NUM_TOKENS)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BuildConfig:
        """InputError names a key that is not a field."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise InputError(
                f"build configuration: unknown key {unknown[0]!r}; known: {', '.join(known)}"
            )
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ResolvedConfig:
    """A configuration with every limit decided."""

    weights: str
    kv_cache: str
    target: str
    max_seq_len: int
    max_batch_size: int
    max_num_tokens: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def flag(field: str) -> str:
    """The command line's spelling of a field."""
    return "--" + field.replace("_", "-")


def _choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{flag(field)} is {value!r}; use one of: {', '.join(choices)}")


def _limit(field: str, value: Any, low: int, high: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{flag(field)} is {value!r}; it must be an integer from {low} to {high}")
    if not low <= value <= high:
        raise InputError(f"{flag(field)} is {value}; it must be from {low} to {high}")
