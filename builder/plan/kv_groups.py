"""Cache groups: the attention layers that share block tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.builder.formats import KV_BLOCK_TOKENS, kv_bytes, kv_scale_granularity
from slipstream.builder.ir.graph import Graph


@dataclass(frozen=True)
class KvGroup:
    """One entry of `kv.groups`: layers with the same kind, window and head shape, ascending."""

    kind: str
    window: int
    kv_heads: int
    head_dim: int
    layers: tuple[int, ...]
    dtype: str
    block_tokens: int = KV_BLOCK_TOKENS

    @property
    def bytes_per_block(self) -> int:
        """K and V of `block_tokens` positions of all layers of the group."""
        per_token = self.kv_heads * kv_bytes(self.dtype, self.head_dim)
        return len(self.layers) * per_token * self.block_tokens

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "layers": list(self.layers),
            "bytes_per_block": self.bytes_per_block,
            "block_tokens": self.block_tokens,
            "dtype": self.dtype,
            "scale_granularity": kv_scale_granularity(self.dtype),
            "window": self.window,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
        }


def plan_kv_groups(graph: Graph, kv_format: str) -> list[KvGroup]:
    """Groups in the order of their first layer."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for node in graph.nodes:
        if node.op in ("attention", "attention_kv"):
            key = (node.int_attr("window"), node.int_attr("kv_heads"), node.int_attr("head_dim"))
            found.setdefault(key, []).append(node.layer)
    return [
        KvGroup(
            kind="window" if window else "full",
            window=window,
            kv_heads=kv_heads,
            head_dim=head_dim,
            layers=tuple(sorted(layers)),
            dtype=kv_format,
        )
        for (window, kv_heads, head_dim), layers in found.items()
    ]
