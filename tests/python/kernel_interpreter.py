"""Runs the paged-attention kernel on Triton's CPU interpreter against numpy; a process of its own
because TRITON_INTERPRET must be set before `triton` is imported. Prints one JSON line per case: its
largest relative error."""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from slipstream.kernels.compile import AttentionShape
from slipstream.kernels.paged_attention import paged_decode_attention

# heads, kv_heads, head_dim, block_tokens, window, context lengths
CASES = [
    (9, 3, 64, 32, 0, (1, 31, 32, 33, 200)),
    (4, 4, 16, 16, 0, (5, 64)),
    (8, 1, 80, 32, 0, (77, 3)),
    (32, 1, 64, 32, 0, (40,)),
    (6, 2, 64, 32, 48, (1, 48, 49, 130)),
    (2, 1, 128, 64, 1, (1, 65)),
]


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, window: int) -> np.ndarray:
    """q [heads, dim], k and v [kv_heads, positions, dim] -> [heads, dim], in f64."""
    group = q.shape[0] // k.shape[0]
    first = max(k.shape[1] - window, 0) if window else 0
    out = np.empty_like(q)
    for head in range(q.shape[0]):
        keys, values = k[head // group, first:], v[head // group, first:]
        score = keys @ q[head] * scale
        weight = np.exp(score - score.max())
        out[head] = weight @ values / weight.sum()
    return out


def run_case(
    rng: np.random.Generator,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int,
    window: int,
    contexts: tuple[int, ...],
) -> float:
    shape = AttentionShape(heads, kv_heads, head_dim, "fp16", block_tokens)
    blocks_of = [-(-c // block_tokens) for c in contexts]
    stride = max(blocks_of) + 2
    pool_blocks = sum(blocks_of) + 3
    # NaN everywhere that must not be read: foreign blocks, the tail of the last block, what left
    # the window.
    pool = np.full((2, pool_blocks, kv_heads, block_tokens, head_dim), np.nan, np.float16)
    table = np.full((len(contexts), stride), pool_blocks - 1, np.int32)
    free = rng.permutation(pool_blocks - 1).tolist()
    q = rng.standard_normal((len(contexts), heads, head_dim)).astype(np.float16)
    scale = head_dim**-0.5
    want = np.empty(q.shape, np.float64)
    for s, context in enumerate(contexts):
        k, v = rng.standard_normal((2, kv_heads, context, head_dim)).astype(np.float16)
        first = max(context - window, 0) if window else 0
        for index in range(blocks_of[s]):
            table[s, index] = block = free.pop()
            lo, hi = max(first, index * block_tokens), min(context, (index + 1) * block_tokens)
            if lo < hi:
                rows = slice(lo - index * block_tokens, hi - index * block_tokens)
                pool[0, block, :, rows] = k[:, lo:hi]
                pool[1, block, :, rows] = v[:, lo:hi]
        want[s] = attend(
            q[s].astype(np.float64), k.astype(np.float64), v.astype(np.float64), scale, window
        )
    out = torch.zeros(q.shape, dtype=torch.float16)
    paged_decode_attention[(len(contexts), kv_heads)](
        out,
        torch.from_numpy(q),
        torch.from_numpy(pool[0]),
        torch.from_numpy(pool[1]),
        torch.from_numpy(table),
        torch.tensor(contexts, dtype=torch.int32),
        scale * float(np.log2(np.e)),
        heads * head_dim,
        heads * head_dim,
        stride,
        window,
        **shape.constexprs(),
    )
    error = np.abs(out.numpy().astype(np.float64) - want).max() / np.abs(want).max()
    return float(error)


def main() -> None:
    rng = np.random.default_rng(int(sys.argv[1]))
    for case in CASES:
        print(json.dumps({"case": case, "error": run_case(rng, *case)}))


if __name__ == "__main__":
    main()
