"""What an idle conversation costs to resume: computed again, or brought back from the host tier.

    python benchmarks/runtime/host_tier.py FILE.engine [--tokens 1000 4000] [--rounds 7]

A conversation of so many tokens fills the KV pool; others push it out; then one token is asked of
it. The time is that of this last call, its own steps included. The ways take turns within a round,
after one round that is thrown away; a figure is the median with minimum and maximum.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

from slipstream import LLM, SamplingParams

WAYS = ("in the pool", "host tier", "recompute")
ONE = SamplingParams(max_tokens=1, temperature=0, ignore_eos=True)


def pool_bytes(engine: str, threads: int | None, tokens: int) -> int:
    """A pool that takes one conversation of so many tokens, and not two."""
    with LLM(engine, threads=threads, kv_memory="64M") as llm:
        blocks = llm.stats().kv_blocks_total
    per_block = (64 << 20) / blocks
    return int(per_block * (tokens // 32 + 2))


def seconds(llm: LLM, way: str, draw: random.Random, tokens: int) -> float:
    prompts = [[draw.randrange(300, 20000) for _ in range(tokens)] for _ in range(2)]
    if way != "in the pool":
        llm.generate(prompts[:1], ONE)
        llm.generate(prompts[1:], ONE)  # pushes the first out
    else:
        llm.generate(prompts[:1], ONE)
    before = llm.stats()
    start = time.perf_counter()
    (output,) = llm.generate(prompts[:1], ONE)
    spent = time.perf_counter() - start
    moved = llm.stats().blocks_swapped_in - before.blocks_swapped_in
    cached = output.num_cached_tokens
    if (cached < tokens // 10) != (way == "recompute") or (moved > 0) != (way == "host tier"):
        raise RuntimeError(f"{way}: {cached} tokens cached, {moved} blocks brought back")
    return spent


def measure(engine: str, threads: int | None, tokens: int, rounds: int) -> None:
    pool = pool_bytes(engine, threads, tokens)
    # A tier of many conversations: so that it moves out, as it does in use, and drops nothing.
    options = {"threads": threads, "kv_memory": pool}
    draw = random.Random(tokens)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with (
        LLM(engine, host_kv_memory=pool * 4, **options) as tiered,  # type: ignore[arg-type]
        LLM(engine, **options) as plain,  # type: ignore[arg-type]
    ):
        for round_number in range(rounds + 1):
            for way in WAYS:
                spent = seconds(plain if way == "recompute" else tiered, way, draw, tokens)
                if round_number > 0:
                    times[way].append(spent)
    for way in WAYS:
        row = [1000 * t for t in times[way]]
        print(
            f"{tokens:6d} tokens, {way:12s} {statistics.median(row):9.2f} ms "
            f"({min(row):.2f} to {max(row):.2f})",
            flush=True,
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args(arguments)
    for tokens in args.tokens:
        measure(args.engine, args.threads, tokens, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
