"""Hours in minutes: clients that never stop, on a pool that is always too small.

    python tests/soak/soak.py [--minutes 20] [--engine FILE] [--seed 1] [--clients 4]

Without --engine a tiny random model is made, so that requests are many. The clients draw from a
fixed set of requests (shared prefixes, sampling settings, priorities, time limits), leave streams
in the middle, and cancel; the KV pool holds a few of them, the rest goes to the host tier, and
running requests are preempted. Every whole answer is compared with the same request alone, every
cut one with its beginning. Every interval the clients stop for a moment: nothing may run or wait
then, and every KV block must be back.

Prints a line per interval and exits with 1 where an answer differs, a block is lost, or memory
grows: the median resident size of the last quarter above that of the second by more than 2 % and
4 MiB.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipstream import LLM, SamplingParams, Scheduling

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

REQUESTS = 160
PROMPT = 150
ANSWER = 60
BLOCKS = 28  # of the KV pool: four of the longest requests


@dataclass(frozen=True)
class Case:
    prompt: list[int]
    params: SamplingParams
    expected: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass
class Tally:
    """What the clients saw; under its lock."""

    whole: int = 0
    cut: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def make_engine(folder: Path) -> Path:
    from tiny_models import TinyConfig, make_checkpoint

    from slipstream.builder.build import build

    make_checkpoint(folder / "checkpoint", TinyConfig(seed=5, vocab=512, hidden=64, tokenizer=True))
    engine = folder / "tiny.engine"
    build(folder / "checkpoint", engine)
    return engine


def draw_cases(draw: random.Random, vocab: int, longest: int) -> list[Case]:
    prefixes = [[draw.randrange(vocab) for _ in range(n)] for n in (20, 50, 64, 90, 100)]
    cases = []
    for number in range(REQUESTS):
        prefix = draw.choice(prefixes) if draw.random() < 0.7 else []
        tail = [draw.randrange(vocab) for _ in range(draw.randint(1, PROMPT - len(prefix)))]
        params = SamplingParams(
            max_tokens=draw.randint(1, min(ANSWER, longest - PROMPT)),
            temperature=draw.choice([0.0, 0.7, 1.3]),
            top_k=draw.choice([0, 0, 20]),
            top_p=draw.choice([1.0, 0.9]),
            repetition_penalty=draw.choice([1.0, 1.0, 1.2]),
            frequency_penalty=draw.choice([0.0, 0.0, 0.3]),
            seed=number,
            logprobs=draw.choice([None, None, 0, 3]),
            ignore_eos=True,
        )
        cases.append(Case(prefix + tail, params))
    return cases


def alone(engine: Path, cases: Sequence[Case]) -> list[Case]:
    """The cases with their answers, computed one by one without a cache."""
    answered = []
    with LLM(engine, threads=1, prefix_cache=False) as llm:
        for case in cases:
            (output,) = llm.generate([case.prompt], case.params)
            answer = output.outputs[0]
            answered.append(Case(case.prompt, case.params, tuple(answer.token_ids), scores(answer)))
    return answered


def scores(answer: object) -> tuple[float, ...]:
    rows = getattr(answer, "logprobs", None) or []
    ids = getattr(answer, "token_ids", [])
    return tuple(row[token].logprob for token, row in zip(ids, rows, strict=False))


def check(case: Case, answer: object, whole: bool) -> str:
    ids = tuple(getattr(answer, "token_ids", ()))
    values = scores(answer)
    same = case.expected == ids if whole else case.expected[: len(ids)] == ids
    if same and values == case.logprobs[: len(values)]:
        return ""
    return f"seed {case.params.seed}: {list(ids)[:8]} instead of {list(case.expected)[:8]}"


def client(
    llm: LLM,
    cases: Sequence[Case],
    draw: random.Random,
    tally: Tally,
    go: threading.Event,
    stop: threading.Event,
    idle: threading.Barrier,
) -> None:
    try:
        while not stop.is_set():
            if not go.is_set():
                idle.wait()  # all clients stand
                go.wait()
            run_one(llm, cases, draw, tally)
    except threading.BrokenBarrierError:
        return
    except Exception as error:  # a soak reports, whatever it is
        with tally.lock:
            tally.errors.append(f"{type(error).__name__}: {error}")
        idle.abort()


def run_one(llm: LLM, cases: Sequence[Case], draw: random.Random, tally: Tally) -> None:
    case = draw.choice(cases)
    scheduling = Scheduling(
        priority=draw.choice([0, 0, 0, 1, 5]),
        time_limit=draw.choice([None, None, 0.02]),
        cache_salt=draw.choice(["", "", "tenant"]),
    )
    way = draw.random()
    if way < 0.5:
        batch = [case] + [draw.choice(cases) for _ in range(draw.randint(0, 5))]
        outputs = llm.generate(
            [each.prompt for each in batch], [each.params for each in batch], scheduling=scheduling
        )
        answers = [(each, output.outputs[0]) for each, output in zip(batch, outputs, strict=True)]
    else:
        leave_after = draw.randint(1, ANSWER) if way < 0.75 else None
        answers = []
        stream = llm.stream(case.prompt, case.params, scheduling=scheduling)
        last = None
        for number, output in enumerate(stream):
            last = output
            if leave_after is not None and number >= leave_after:
                break
        stream.close()
        if last is not None:
            answers = [(case, last.outputs[0])]
    with tally.lock:
        for each, answer in answers:
            whole = answer.finish_reason == "length"
            wrong = check(each, answer, whole)
            if wrong:
                tally.errors.append(wrong)
            tally.whole += whole
            tally.cut += not whole
            tally.tokens += len(answer.token_ids)


def resident_mib() -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


def idle_faults(llm: LLM) -> list[str]:
    deadline = time.monotonic() + 30
    while True:
        stats = llm.stats()
        held = stats.kv_blocks_total - stats.kv_blocks_free - stats.kv_blocks_cached
        if stats.running == stats.waiting == held == 0:
            return []
        if time.monotonic() > deadline:
            return [f"idle, but {stats.running} run, {stats.waiting} wait, {held} blocks are held"]
        time.sleep(0.01)


def growth(sizes: Sequence[float]) -> list[str]:
    quarter = len(sizes) // 4
    if quarter == 0:
        return ["too short to judge memory: at least four intervals are needed"]
    early = statistics.median(sizes[quarter : 2 * quarter])
    late = statistics.median(sizes[-quarter:])
    if late > early * 1.02 + 4:
        return [f"resident memory grew from {early:.1f} to {late:.1f} MiB"]
    return []


def soak(engine: Path, minutes: float, seed: int, clients: int, interval: float) -> list[str]:
    draw = random.Random(seed)
    with LLM(engine, threads=1, kv_memory="16M") as probe:
        limits = probe.engine.limits
        block_bytes = (16 << 20) // probe.stats().kv_blocks_total
    cases = alone(engine, draw_cases(draw, limits.vocab_size, limits.max_seq_len))
    pool = block_bytes * BLOCKS
    tally, go, stop = Tally(), threading.Event(), threading.Event()
    idle = threading.Barrier(clients + 1)
    sizes: list[float] = []
    faults: list[str] = []
    with LLM(
        engine,
        threads=2,
        kv_memory=pool,
        host_kv_memory=pool * 2,
        capacity="max-utilization",
        chunking=draw.choice(["first-come", "equal-progress"]),
        max_batch_size=6,
        max_num_tokens=48,
        ageing=0.5,
    ) as llm:
        threads = [
            threading.Thread(
                target=client,
                args=(llm, cases, random.Random(seed * 1000 + n), tally, go, stop, idle),
            )
            for n in range(clients)
        ]
        go.set()
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        try:
            while time.monotonic() - begin < 60 * minutes and not faults and not tally.errors:
                time.sleep(interval)
                go.clear()
                idle.wait(timeout=60)
                faults = idle_faults(llm)
                sizes.append(resident_mib())
                stats = llm.stats()
                print(
                    f"{time.monotonic() - begin:7.1f} s  {sizes[-1]:8.1f} MiB  "
                    f"{tally.whole} whole, {tally.cut} cut, {tally.tokens} tokens; "
                    f"{stats.preemptions} preemptions, {stats.blocks_swapped_out} out, "
                    f"{stats.blocks_swapped_in} in, {stats.cached_tokens} cached",
                    flush=True,
                )
                go.set()
        except threading.BrokenBarrierError:
            faults.append("a client did not come to rest")
        finally:
            stop.set()
            go.set()
            idle.abort()
            for thread in threads:
                thread.join()
    return tally.errors[:10] + faults + growth(sizes)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--engine", type=Path)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--interval", type=float, default=10, help="seconds between two looks")
    args = parser.parse_args(arguments)
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory() as folder:
        engine = args.engine or make_engine(Path(folder))
        faults = soak(engine, args.minutes, args.seed, args.clients, args.interval)
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
