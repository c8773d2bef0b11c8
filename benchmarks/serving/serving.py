"""Many requests at once: Slipstream's batch against one after another and against llama-server.

    python benchmarks/serving/serving.py FILE.engine [--llama-server BIN --gguf FILE.gguf]
        [--rounds 3] [--threads 2] [--only mixed,load,chat] [-o result.json]

mixed: 64 and 256 requests, prompts and answers of log-normal length, all there at the start:
       tokens per second of the whole, also one after another.
load:  a closed loop of 1, 8 and 32 clients, prompts of 200 tokens, answers of 64: time to first
       token (TTFT) and time per further token (TPOT), median and 99th percentile.
chat:  turns 2 to 8 of a conversation with a system prompt of 1,000 tokens: TTFT with and without
       the prefix cache.

Prompts are random token ids, answers have a fixed length, greedy. The two take turns within a
round. llama-server runs with 8 slots and is reached over HTTP on the loopback; Slipstream is called
inside this process. Build the engine in the type of the GGUF file (f16 for F16).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slipstream import AsyncLLM, SamplingParams

SLOTS = 8
CONTEXT = 2048
IDS = range(300, 20000)


@dataclass
class Timing:
    """One answer, in seconds from its start."""

    first: float
    total: float
    tokens: int

    @property
    def per_token(self) -> float:
        return (self.total - self.first) / max(1, self.tokens - 1)


class Peer(Protocol):
    name: str

    async def ask(self, prompt: Sequence[int], tokens: int, *, cached: bool) -> Timing: ...


class Slipstream:
    name = "slipstream"

    def __init__(self, engine: str, threads: int) -> None:
        self._llm = AsyncLLM(engine, threads=threads)

    async def ask(self, prompt: Sequence[int], tokens: int, *, cached: bool) -> Timing:
        from slipstream import Scheduling

        params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        start = time.perf_counter()
        first, count = 0.0, 0
        scheduling = Scheduling(read_cache=cached)
        async for output in self._llm.generate(list(prompt), params, scheduling=scheduling):
            count = len(output.outputs[0].token_ids)
            first = first or time.perf_counter() - start
        return Timing(first, time.perf_counter() - start, count)

    def close(self) -> None:
        self._llm.shutdown()


class LlamaServer:
    name = "llama-server"

    def __init__(self, binary: str, gguf: str, threads: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = [binary, "-m", gguf, "-t", threads, "-tb", threads, "-np", SLOTS]
        command += ["-c", SLOTS * CONTEXT, "-b", 2048, "-ub", 512]
        command += ["--host", "127.0.0.1", "--port", self._port]
        self._process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        asyncio.run(self._until_ready())

    async def _until_ready(self) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {self._process.returncode}")
            try:
                await self.ask([1, 2, 3], 1, cached=False)
                return
            except (OSError, RuntimeError):
                await asyncio.sleep(0.1)
        raise RuntimeError("llama-server is not ready after a minute")

    async def ask(self, prompt: Sequence[int], tokens: int, *, cached: bool) -> Timing:
        body = {
            "prompt": list(prompt),
            "n_predict": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "cache_prompt": cached,
        }
        text = json.dumps(body).encode()
        head = (
            "POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        try:
            writer.write(head.encode() + text)
            await writer.drain()
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError(f"llama-server answered {status!r}")
            first, last, count = 0.0, 0.0, 0
            while line := await reader.readline():
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                last = time.perf_counter() - start
                first = first or last
                count = event.get("tokens_predicted") or count
            return Timing(first, last, count)
        finally:
            writer.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def ids(draw: random.Random, count: int) -> list[int]:
    return [draw.choice(IDS) for _ in range(count)]


def log_normal(draw: random.Random, median: float, low: int, high: int) -> int:
    return int(min(max(draw.lognormvariate(0, 0.8) * median, low), high))


async def at_once(
    peer: Peer, requests: Sequence[tuple[list[int], int]], clients: int
) -> list[Timing]:
    """Answers of all requests, with so many clients that each ask one after another."""
    waiting = iter(requests)
    timings: list[Timing] = []

    async def client() -> None:
        for prompt, tokens in waiting:
            timings.append(await peer.ask(prompt, tokens, cached=False))

    await asyncio.gather(*(client() for _ in range(clients)))
    return timings


async def mixed(peer: Peer, draw: random.Random) -> dict[str, float]:
    figures = {}
    for count in (64, 256):
        requests = [
            (ids(draw, log_normal(draw, 120, 8, 1000)), log_normal(draw, 40, 4, 200))
            for _ in range(count)
        ]
        ways = [("at once", count)]
        if count == 64:
            ways.append(("one after another", 1))
        for way, clients in ways:
            start = time.perf_counter()
            timings = await at_once(peer, requests, clients)
            seconds = time.perf_counter() - start
            figures[f"{count} mixed, {way}: tok/s"] = sum(t.tokens for t in timings) / seconds
    return figures


async def load(peer: Peer, draw: random.Random) -> dict[str, float]:
    figures = {}
    for clients in (1, 8, 32):
        requests = [(ids(draw, 200), 64) for _ in range(max(6, 2 * clients))]
        timings = await at_once(peer, requests, clients)
        for name, values in (
            ("TTFT", [t.first for t in timings]),
            ("TPOT", [t.per_token for t in timings]),
        ):
            ordered = sorted(values)
            for percent in (50, 99):
                place = min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))
                figures[f"{clients} clients, {name} p{percent}: ms"] = 1000 * ordered[place]
    return figures


async def chat(peer: Peer, draw: random.Random) -> dict[str, float]:
    figures = {}
    for cached in (True, False):
        history = ids(draw, 1000)
        waits = []
        for turn in range(8):
            history += ids(draw, 30)
            timing = await peer.ask(history, 40, cached=cached)
            # The answer is not looked at: as many tokens stand for it, which costs both the same.
            history += ids(draw, 40)
            if turn > 0:
                waits.append(timing.first)
        way = "with" if cached else "without"
        figures[f"chat turns 2-8 {way} cache, TTFT: ms"] = 1000 * statistics.median(waits)
    return figures


SCENES: dict[str, Callable[[Peer, random.Random], Any]] = {
    "mixed": mixed,
    "load": load,
    "chat": chat,
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--llama-server")
    parser.add_argument("--gguf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default=",".join(SCENES), help="some of " + ", ".join(SCENES))
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args(arguments)
    scenes = args.only.split(",")
    if unknown := set(scenes) - set(SCENES):
        parser.error(f"--only: no such scene: {', '.join(sorted(unknown))}")
    peers: list[Any] = [Slipstream(args.engine, args.threads)]
    figures: dict[str, dict[str, list[float]]] = {}
    try:
        if args.llama_server:
            peers.append(LlamaServer(args.llama_server, args.gguf, args.threads))
        for round_number in range(args.rounds):
            for scene in scenes:
                for peer in peers:
                    draw = random.Random(f"{scene} {round_number}")
                    for name, value in asyncio.run(SCENES[scene](peer, draw)).items():
                        figures.setdefault(name, {}).setdefault(peer.name, []).append(value)
            print(f"round {round_number + 1} of {args.rounds} done", file=sys.stderr)
    finally:
        for peer in peers:
            peer.close()
    for name, by_peer in figures.items():
        for peer_name, values in by_peer.items():
            print(
                f"{name:44s} {peer_name:13s} {statistics.median(values):9.1f} "
                f"({min(values):.1f} to {max(values):.1f})"
            )
    if args.output:
        args.output.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
