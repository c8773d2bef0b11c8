#!/usr/bin/env python3
"""Slipstream beside llama.cpp on one machine, in one run: prefill and decode, ratios with their
spread.

    python benchmarks/cpu/run.py --engine bf16=m-bf16.engine --engine f32=m-f32.engine \
        --llamacpp BIN_DIR --gguf f16=m-F16.gguf --gguf f32=m-F32.gguf [--rounds 5] [--threads 2]
        [-o result.json]

The engines and the peer take turns, round by round, so that a busy moment of a shared machine hits
both. Every figure is tokens per second: the median of the rounds, with minimum and maximum. The
peer is llama-bench and llama-batched-bench (`-t THREADS`, otherwise its defaults); the machine's
bandwidth and FMA peak are measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PREFILL = 512
CONTEXT = 128
DECODE = 32
HERE = Path(__file__).parent

# row name -> prompt tokens, generated tokens, sequences
ROWS = {
    "prefill 512": (PREFILL, 1, 1),
    "decode, batch 1": (CONTEXT, DECODE + 1, 1),
    "decode, batch 8": (CONTEXT, DECODE + 1, 8),
}


class Slipstream:
    """One loaded engine; prompts are random token ids, so nothing is ever reused."""

    def __init__(self, name: str, path: str, threads: int) -> None:
        from slipstream import LLM

        self.name = f"slipstream {name}"
        self._llm = LLM(path, threads=threads, prefix_cache=False)
        self._random = random.Random(0)

    def measure(self, row: str) -> float:
        """Tokens per second of one row: all prompt tokens over the time to the first token, or the
        tokens after the first over the time after every sequence has its first."""
        from slipstream import SamplingParams

        prompt, generate, batch = ROWS[row]
        prompts = [
            [self._random.randrange(100, 49_000) for _ in range(prompt)] for _ in range(batch)
        ]
        params = SamplingParams(max_tokens=generate, temperature=0.0, ignore_eos=True)
        if generate == 1:
            start = time.perf_counter()
            self._llm.generate(prompts, params)
            return prompt * batch / (time.perf_counter() - start)
        # Two runs of equal prompts, one stopping at the first token: the difference is decode
        # alone.
        first = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
        start = time.perf_counter()
        self._llm.generate(prompts, first)
        prefill = time.perf_counter() - start
        start = time.perf_counter()
        self._llm.generate(prompts, params)
        total = time.perf_counter() - start
        return batch * (generate - 1) / (total - prefill)


class LlamaCpp:
    def __init__(self, name: str, path: str, threads: int, binaries: Path) -> None:
        self.name = f"llama.cpp {name}"
        self._path, self._threads, self._bin = path, threads, binaries

    def measure(self, row: str) -> float:
        prompt, generate, batch = ROWS[row]
        common = ["-m", self._path, "-t", str(self._threads)]
        if batch > 1:
            sizes = ["-npp", str(prompt), "-ntg", str(generate - 1), "-npl", str(batch)]
            context = ["-c", str(batch * (prompt + generate) + 64), "-b", "2048", "-ub", "512"]
            lines = self._run(
                "llama-batched-bench", [*common, *context, *sizes, "--output-format", "jsonl"]
            )
            return float(
                next(json.loads(x)["speed_tg"] for x in lines.splitlines() if x.startswith("{"))
            )
        counts = (
            ["-p", str(prompt), "-n", "0"]
            if generate == 1
            else ["-p", "0", "-n", str(generate - 1), "-d", str(prompt)]
        )
        text = self._run("llama-bench", [*common, *counts, "-r", "1", "-o", "json"])
        return float(json.loads(text[text.index("[") :])[0]["avg_ts"])

    def _run(self, tool: str, args: list[str]) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        run = subprocess.run(
            [str(self._bin / tool), *args],
            capture_output=True,
            text=True,
            timeout=900,
            env=environment,
        )
        if run.returncode:
            raise RuntimeError(f"{tool} failed: {run.stderr[-500:]}")
        return run.stdout


def machine_limits(threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "limits"
        source = HERE / "limits.cpp"
        subprocess.run(
            ["g++", "-O3", "-march=native", "-pthread", str(source), "-o", str(binary)], check=True
        )
        out = subprocess.run(
            [str(binary), str(threads)], check=True, capture_output=True, text=True
        ).stdout
    return dict(json.loads(out))


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spread(values: list[float], digits: int) -> str:
    s = summary(values)
    return f"{s['median']:.{digits}f} ({s['min']:.{digits}f} to {s['max']:.{digits}f})"


def pair(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or not Path(path).exists():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=EXISTING_FILE")
    return name, path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", type=pair, action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--gguf", type=pair, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--llamacpp", type=Path, metavar="BIN_DIR")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.gguf and not args.llamacpp:
        parser.error("--gguf needs --llamacpp BIN_DIR")

    limits = machine_limits(args.threads)
    runners: list[Slipstream | LlamaCpp] = [Slipstream(n, p, args.threads) for n, p in args.engine]
    runners += [LlamaCpp(n, p, args.threads, args.llamacpp) for n, p in args.gguf]
    samples: dict[str, dict[str, list[float]]] = {
        row: {r.name: [] for r in runners} for row in ROWS
    }
    for round_index in range(args.rounds + 1):
        for row in ROWS:
            for runner in runners:
                value = runner.measure(row)
                if round_index > 0:  # the first round warms caches and pages
                    samples[row][runner.name].append(value)
        print(f"round {round_index} of {args.rounds} done", file=sys.stderr)

    result = {
        "cpu": cpu_name(),
        "limits": limits,
        "rounds": args.rounds,
        "load1": os.getloadavg()[0],
        "tokens_per_second": {
            r: {n: summary(v) for n, v in by.items()} for r, by in samples.items()
        },
    }
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n")
    bandwidth, peak = limits["read_gb_s"], limits["fma_gflop_s"]
    print(f"{cpu_name()}, {args.threads} threads, {bandwidth} GB/s read, {peak} GFLOP/s f32")
    peer = next((r.name for r in runners if isinstance(r, LlamaCpp)), None)
    for row, by_name in samples.items():
        for name, values in by_name.items():
            line = f"{row:16} {name:18} {spread(values, 1)} tok/s"
            if peer and name != peer:
                ratios = [a / b for a, b in zip(values, by_name[peer], strict=True)]
                line += f"   {spread(ratios, 2)} x {peer}"
            print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
