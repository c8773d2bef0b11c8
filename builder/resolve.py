"""A requested configuration becomes a resolved one, with a reason for every difference.

An explicit value is never changed: where it cannot be kept the build fails and says what to ask
for instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.builder.config import BuildConfig, ResolvedConfig
from slipstream.builder.errors import InputError

DEFAULT_SEQ_LEN = 8192
DEFAULT_BATCH_SIZE = 64
DEFAULT_NUM_TOKENS = 512


@dataclass(frozen=True)
class Change:
    """`value` replaced `requested` (None: nothing was asked for) in `field`."""

    field: str
    requested: Any
    value: Any
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "from": self.requested,
            "to": self.value,
            "reason": self.reason,
        }


def rope_change(fixed: str, max_seq_len: int) -> Change:
    """The record of RoPE frequencies that an engine fixes where the reference implementation
    changes them while a sequence grows."""
    reason = (
        f"the frequencies of max_seq_len = {max_seq_len} hold from the first token on: changing "
        "them within a sequence would contradict the keys in its cache"
    )
    return Change("rope", "by the length of the sequence", fixed, reason)


def resolve(
    config: BuildConfig, max_position_embeddings: int, context_limit: int = 0
) -> tuple[ResolvedConfig, list[Change]]:
    """Decides the limits. InputError if explicit values contradict the model or each other.

    `context_limit` is the longest sequence that a model allows when asked, where that is beyond
    `max_position_embeddings`."""
    changes: list[Change] = []
    longest = max(max_position_embeddings, context_limit)

    def default(field: str, value: int, reason: str) -> int:
        changes.append(Change(field, None, value, reason))
        return value

    seq_len = config.max_seq_len
    if seq_len is None:
        value = min(max_position_embeddings, DEFAULT_SEQ_LEN)
        reason = (
            f"default: the smaller of the model's context, {max_position_embeddings}, and "
            f"{DEFAULT_SEQ_LEN}"
        )
        seq_len = default("max_seq_len", value, reason)
    elif seq_len > longest:
        source = "'max_position_embeddings'"
        if context_limit > max_position_embeddings:
            source += " times the 'factor' of its RoPE"
        raise InputError(
            f"--max-seq-len is {seq_len}, but the model's context ends at {longest} tokens "
            f"({source} in config.json); ask for at most {longest}"
        )

    batch, tokens = config.max_batch_size, config.max_num_tokens
    if batch is not None and tokens is not None and tokens < batch:
        raise InputError(
            f"--max-num-tokens is {tokens}, less than --max-batch-size {batch}: a step needs a "
            f"token for each of its sequences; raise it to {batch} or lower --max-batch-size to "
            f"{tokens}"
        )
    if batch is None:
        if tokens is not None and tokens < DEFAULT_BATCH_SIZE:
            reason = f"default {DEFAULT_BATCH_SIZE}, lowered to max_num_tokens"
            batch = default("max_batch_size", tokens, reason)
        else:
            batch = default("max_batch_size", DEFAULT_BATCH_SIZE, "default")
    if tokens is None:
        if batch > DEFAULT_NUM_TOKENS:
            reason = f"default {DEFAULT_NUM_TOKENS}, raised to max_batch_size"
            tokens = default("max_num_tokens", batch, reason)
        else:
            tokens = default("max_num_tokens", DEFAULT_NUM_TOKENS, "default")
    resolved = ResolvedConfig(
        weights=config.weights,
        kv_cache=config.kv_cache,
        target=config.target,
        sm=config.sm,
        max_seq_len=seq_len,
        max_batch_size=batch,
        max_num_tokens=tokens,
    )
    return resolved, changes
