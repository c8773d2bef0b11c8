"""What a user asks of a build."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from slipstream._shown import shown
from slipstream.builder.errors import InputError
from slipstream.builder.formats import KV_FORMATS, WEIGHT_FORMATS
from slipstream.builder.targets import registry

TARGETS = registry.NAMES

# Upper bounds of the limits: what the runtime accepts. Rotary angles are exact up to 2^20 positions
# (docs/design/numerics.md).
MAX_SEQ_LEN = 1 << 20
MAX_BATCH_SIZE = 1 << 16
MAX_NUM_TOKENS = 1 << 20


@dataclass(frozen=True)
class BuildConfig:
    """A requested configuration. Every field is optional; None leaves a limit to the builder.

    Args:
        weights: format of the matrices: "f32", "f16" or "bf16".
        kv_cache: format of the KV cache: the same choices, or "int8" with a scale for each token
            and head.
        target: what to compile for beside the CPU, whose plan every engine holds: "cpu" (nothing
            else) or "tensorrt-rtx".
        sm: compute capabilities of the GPUs to compile for, such as (89, 120): with a GPU target,
            and only then.
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
    sm: tuple[int, ...] = ()
    max_seq_len: int | None = None
    max_batch_size: int | None = None
    max_num_tokens: int | None = None

    def __post_init__(self) -> None:
        _choice("weights", self.weights, WEIGHT_FORMATS)
        _choice("kv_cache", self.kv_cache, KV_FORMATS)
        _choice("target", self.target, TARGETS)
        object.__setattr__(self, "sm", _compute_capabilities(self.target, self.sm))
        _limit("max_seq_len", self.max_seq_len, 2, MAX_SEQ_LEN)
        _limit("max_batch_size", self.max_batch_size, 1, MAX_BATCH_SIZE)
        _limit("max_num_tokens", self.max_num_tokens, 1, MAX_NUM_TOKENS)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ResolvedConfig:
    """A configuration with every limit decided."""

    weights: str
    kv_cache: str
    target: str
    sm: tuple[int, ...]
    max_seq_len: int
    max_batch_size: int
    max_num_tokens: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_sm(text: str) -> tuple[int, ...]:
    """The command line's list of compute capabilities, such as "89,120"."""
    items = [item.strip() for item in text.split(",")]
    if not all(item.isascii() and item.isdigit() and len(item) <= 4 for item in items):
        raise InputError(
            f"--sm is {shown(text)}; give compute capabilities as whole numbers, with commas "
            "between them, e.g. --sm 89,120"
        )
    return tuple(int(item) for item in items)


def flag(field: str) -> str:
    """The command line's spelling of a field."""
    return "--" + field.replace("_", "-")


def _choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{flag(field)} is {shown(value)}; use one of: {', '.join(choices)}")


def _compute_capabilities(target: str, value: Any) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int):
            raise InputError(f"--sm is {shown(value)}; it must hold whole numbers, e.g. 89")
    repeated = next((sm for sm in items if items.count(sm) > 1), None)
    if repeated is not None:
        raise InputError(f"--sm names {repeated} twice; name each compute capability once")
    extra = registry.extra_target(target)
    if extra is not None:
        extra.check_sm(items)
    elif items:
        others = " or ".join(registry.extra_names())
        raise InputError(
            f"--sm {','.join(map(str, items))} chooses GPUs, but --target is {target}; add "
            f"--target {others}, or leave --sm away"
        )
    return items


def _limit(field: str, value: Any, low: int, high: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"{flag(field)} is {shown(value)}; it must be an integer from {low} to {high}"
        )
    if not low <= value <= high:
        raise InputError(f"{flag(field)} is {shown(value)}; it must be from {low} to {high}")
