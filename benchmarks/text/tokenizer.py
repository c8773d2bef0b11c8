#!/usr/bin/env python3
"""Slipstream's tokenizer beside Hugging Face `tokenizers` on one machine, in one run.

    python benchmarks/text/tokenizer.py --text wiki.txt NAME=tokenizer.json ... [--rounds 5]
        [-o result.json]

The text is cut into documents of 1 KB. Both encode all of them on one thread, warm, round by round
in turns, so that a busy moment of a shared machine hits both; the peer once document by document
(`encode`) and once in its cheapest way (`encode_batch_fast` with RAYON_NUM_THREADS=1). Ours is
called from Python too. Times are CPU times of the process: what other processes take does not
count. Figures are MB of text a second, medians of the rounds with minimum and maximum; the ids are
compared before anything is measured. Loading is the median of the rounds too, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"  # read when the peer is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"

DOCUMENT = 1000  # characters
OURS = "slipstream"


def timed(work: Callable[[], object]) -> float:
    """Seconds of CPU time that `work` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(path: Path, documents: list[str], rounds: int) -> dict[str, Any]:
    """Seconds of every round, by what ran."""
    import tokenizers

    from slipstream._native import Tokenizer

    text = path.read_text(encoding="utf-8")
    ours, peer = Tokenizer.from_json(text), tokenizers.Tokenizer.from_str(text)
    for document in documents:  # this warms both up, too
        if ours.encode(document) != peer.encode(document).ids:
            raise SystemExit(f"error: {path}: the ids differ on {document[:40]!r}")
    runs: dict[str, Callable[[], object]] = {
        OURS: lambda: [ours.encode(d) for d in documents],
        "encode": lambda: [peer.encode(d) for d in documents],
        "encode_batch_fast": lambda: peer.encode_batch_fast(documents),
        "load " + OURS: lambda: Tokenizer.from_json(text),
        "load tokenizers": lambda: tokenizers.Tokenizer.from_str(text),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, work in runs.items():
            seconds[name].append(timed(work))
    return seconds


def report(name: str, seconds: dict[str, Any], size: int) -> dict[str, Any]:
    """Prints a line a figure, and gives the figures."""
    figures: dict[str, Any] = {}
    for run, values in seconds.items():
        loads = run.startswith("load ")
        each = sorted(1e3 * v if loads else size / v / 1e6 for v in values)
        figures[run] = {"median": statistics.median(each), "min": each[0], "max": each[-1]}
        unit = "ms" if loads else "MB/s"
        print(
            f"{name:12} {run:20} {figures[run]['median']:8.1f} {unit:4} "
            f"({each[0]:.1f} to {each[-1]:.1f})"
        )
    for peer in ("encode", "encode_batch_fast"):
        ratio = figures[OURS]["median"] / figures[peer]["median"]
        figures[f"times {peer}"] = ratio
        print(f"{name:12} times {peer:14} {ratio:8.2f}")
    return figures


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizers", nargs="+", metavar="NAME=tokenizer.json")
    parser.add_argument("--text", type=Path, required=True, help="UTF-8 text to encode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    text = arguments.text.read_text(encoding="utf-8")
    documents = [text[first : first + DOCUMENT] for first in range(0, len(text), DOCUMENT)]
    results = {}
    for item in arguments.tokenizers:
        name, _, path = item.partition("=")
        if not path:
            parser.error(f"'{item}' is not NAME=tokenizer.json")
        seconds = measure(Path(path), documents, arguments.rounds)
        results[name] = report(name, seconds, len(text.encode()))
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
