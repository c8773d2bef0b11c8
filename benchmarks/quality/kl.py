#!/usr/bin/env python3
"""How far an engine's predictions are from those of a reference engine, and the perplexity of both.

    python benchmarks/quality/kl.py REFERENCE.engine OTHER.engine --text wiki.txt

The first CHUNKS x 512 tokens of the text, each chunk on its own. KL(reference || other) in nats per
token, over all positions; perplexity over the positions whose next token is in the chunk.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream import _native
from slipstream.builder.native import TeacherForcing

CHUNK = 512


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    normalized: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--chunks", type=int, default=16)
    args = parser.parse_args()

    tokenizer = _native.Engine.load(str(args.reference)).tokenizer
    # Far more characters than the tokens need.
    text = args.text.read_text(encoding="utf-8")[: args.chunks * CHUNK * 12]
    tokens = tokenizer.encode(text)[: args.chunks * CHUNK]
    engines = [TeacherForcing(args.reference), TeacherForcing(args.other)]
    divergence: list[NDArray[np.float64]] = []
    same_top: list[NDArray[np.bool_]] = []
    losses: list[list[NDArray[np.float64]]] = [[], []]
    for start in range(0, len(tokens), CHUNK):
        chunk = tokens[start : start + CHUNK]
        a, b = (log_softmax(engine.logits(chunk)) for engine in engines)
        divergence.append((np.exp(a) * (a - b)).sum(axis=1))
        same_top.append(a.argmax(axis=1) == b.argmax(axis=1))
        following = np.asarray(chunk[1:])
        for total, p in zip(losses, (a, b), strict=True):
            total.append(-p[np.arange(len(following)), following])
    kl = np.concatenate(divergence)
    perplexity = [float(np.exp(np.concatenate(total).mean())) for total in losses]
    print(
        f"{len(kl)} tokens: mean KL {kl.mean():.6f}, 99 % {np.quantile(kl, 0.99):.6f}, "
        f"same top token {np.concatenate(same_top).mean():.2%}, "
        f"perplexity {perplexity[0]:.4f} -> {perplexity[1]:.4f}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
