"""Formats of weights and KV cache, the constants of their layouts, and the numerics contract: what
the compiler, the engine file and its checks share. No numpy.
"""

from __future__ import annotations

from collections.abc import Mapping

# docs/design/numerics.md
NUMERICS = "cpu-numerics/1"

# Bytes of an element of a weight.
ELEMENT_BYTES: Mapping[str, int] = {"f32": 4, "f16": 2, "bf16": 2}
WEIGHT_FORMATS = tuple(ELEMENT_BYTES)
# Layout n16k4: rows of a block, and bytes of a unit of columns.
BLOCK_ROWS = 16
UNIT_BYTES = 4

KV_FORMATS = (*WEIGHT_FORMATS, "int8")
# Positions of a KV block.
KV_BLOCK_TOKENS = 32
_INT8_SCALE_BYTES = 4


def kv_bytes(fmt: str, head_dim: int) -> int:
    """K and V of one token and head in a cache of a known format: the elements, and with int8 an
    f32 scale for each of the two."""
    if fmt == "int8":
        return 2 * (head_dim + _INT8_SCALE_BYTES)
    return 2 * head_dim * ELEMENT_BYTES[fmt]


def kv_scale_granularity(fmt: str) -> str:
    """What a scale of the cache belongs to: a token of a head, or nothing."""
    return "token_head" if fmt == "int8" else "none"
