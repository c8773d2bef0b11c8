"""Priorities, cache use, pause, drain, preemption and traces through the Python face."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import assert_idle, build_tiny_engine, facts

from slipstream import LLM, AsyncLLM, SamplingParams, Scheduling
from slipstream._replacing import replacing
from slipstream.errors import InvalidArgumentError, UnavailableError
from slipstream.trace import chrome_trace

GREEDY = SamplingParams(max_tokens=12, temperature=0, ignore_eos=True, logprobs=0)
PREFIX = [5 + i * 7 % 250 for i in range(150)]


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


def prompts(count: int) -> list[list[int]]:
    return [[*PREFIX, 9 + i, 40 + i] for i in range(count)]


def test_what_is_shared_is_computed_once_and_changes_nothing(engine_path: str) -> None:
    with LLM(engine_path, threads=2, kv_memory="16M") as llm:
        together = llm.generate(prompts(6), GREEDY)
        assert llm.stats().prefill_tokens_computed < 6 * 150
        assert llm.stats().cached_tokens >= 5 * 128
        again = llm.generate(prompts(6), GREEDY)
        assert [output.num_cached_tokens for output in again] == [151] * 6
        assert_idle(llm)
    with LLM(engine_path, threads=1, kv_memory="16M", prefix_cache=False) as llm:
        alone = [llm.generate([prompt], GREEDY)[0] for prompt in prompts(6)]
        assert llm.stats().cached_tokens == 0 and llm.stats().kv_blocks_cached == 0
    assert [facts(output) for output in together] == [facts(output) for output in alone]
    assert [facts(output) for output in again] == [facts(output) for output in alone]


def test_salts_and_opting_out(engine_path: str) -> None:
    with LLM(engine_path, threads=1, kv_memory="16M") as llm:

        def cached(**options: Any) -> int:
            (output,) = llm.generate([PREFIX], GREEDY, scheduling=Scheduling(**options))
            return output.num_cached_tokens

        assert cached(write_cache=False) == 0
        assert cached() == 0
        assert cached() == len(PREFIX) - 1
        assert cached(cache_salt="tenant") == 0
        assert cached(read_cache=False) == 0


def test_higher_priorities_are_served_first(engine_path: str) -> None:
    async def order() -> list[int]:
        llm = AsyncLLM(engine_path, threads=1, kv_memory="16M", max_batch_size=1)
        ended: list[int] = []

        async def one(priority: int) -> None:
            scheduling = Scheduling(priority=priority)
            async for _ in llm.generate([5, 6, 7], GREEDY, scheduling=scheduling):
                pass
            ended.append(priority)

        await llm.pause()
        tasks = [asyncio.create_task(one(priority)) for priority in (0, -2, 5, 3)]
        while llm.stats().waiting < 4:
            await asyncio.sleep(0.001)
        llm.resume()
        await asyncio.gather(*tasks)
        assert await llm.drain(5)
        with pytest.raises(UnavailableError, match="draining"):
            await anext(llm.generate("x", GREEDY))
        llm.shutdown()
        return ended

    assert asyncio.run(order()) == [5, 3, 0, -2]


def test_preempted_requests_end_with_the_same_tokens(engine_path: str) -> None:
    params = [SamplingParams(max_tokens=70, seed=i, ignore_eos=True, logprobs=0) for i in range(12)]
    tokens = [[7 + i, 8, 9] for i in range(12)]
    with LLM(engine_path, threads=1) as llm:
        block = llm.stats().kv_blocks_total
        alone = [llm.generate([t], p)[0] for t, p in zip(tokens, params, strict=True)]
    assert block > 0
    outputs = None
    # The smallest pool that takes one of them: several must not fit.
    for kib in (64, 128, 256, 512, 1024):
        options: dict[str, Any] = {"kv_memory": kib * 1024, "capacity": "max-utilization"}
        with LLM(engine_path, threads=1, **options) as llm:
            if llm.stats().kv_blocks_total < 6:
                continue
            outputs = llm.generate(tokens, params)
            assert llm.stats().preemptions > 0
            assert sum(o.metrics.preemptions for o in outputs if o.metrics) > 0
            break
    assert outputs is not None
    assert [facts(output) for output in outputs] == [facts(output) for output in alone]


def test_a_time_limit_keeps_the_tokens_so_far(engine_path: str) -> None:
    with LLM(engine_path, threads=1, kv_memory="16M") as llm:
        llm.pause()
        timer = threading.Timer(0.2, llm.resume)
        timer.start()
        (output,) = llm.generate([[5]], GREEDY, scheduling=Scheduling(time_limit=0.01))
        timer.join()
        completion = output.outputs[0]
        assert completion.finish_reason == "time_limit" and completion.token_ids == []
        assert output.metrics is not None and output.metrics.first_token_s is None
        assert output.metrics.total_s >= 0.01


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 1001),
        ("priority", True),
        ("priority", "high"),
        ("ttft_target", 0),
        ("tpot_target", -1.0),
        ("time_limit", float("nan")),
        ("time_limit", float("inf")),
        ("cache_salt", "é" * 129),
        ("cache_salt", b"x"),
        ("cache_salt", "\ud800"),
        ("read_cache", 1),
        ("write_cache", None),
    ],
)
def test_bad_scheduling_names_the_field(field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=field) as error:
        Scheduling(**{field: value})  # type: ignore[arg-type]
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity", "all"),
        ("chunking", None),
        ("prefix_cache", 1),
        ("ageing", 0),
        ("ageing", "1s"),
        ("iteration_history", -1),
        ("iteration_history", 2**21),
    ],
)
def test_bad_options_name_the_argument(field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        LLM("never-read.engine", **{field: value})  # type: ignore[arg-type]


def test_a_list_of_schedulings_must_fit(engine_path: str) -> None:
    with LLM(engine_path, threads=1, kv_memory="16M") as llm:
        with pytest.raises(InvalidArgumentError, match="scheduling has 1 entries for 2 prompts"):
            llm.generate([[5], [6]], GREEDY, scheduling=[Scheduling()])
        with pytest.raises(InvalidArgumentError, match=r"scheduling\[1\] is 3"):
            llm.generate([[5], [6]], GREEDY, scheduling=[Scheduling(), 3])  # type: ignore[list-item]
        with pytest.raises(InvalidArgumentError, match="scheduling is a int"):
            llm.generate([[5]], GREEDY, scheduling=7)  # type: ignore[arg-type]
        two = llm.generate([[5], [6]], GREEDY, scheduling=[Scheduling(priority=1), Scheduling()])
        assert len(two) == 2


def test_iterations_tell_every_row(engine_path: str) -> None:
    with LLM(engine_path, threads=1, kv_memory="16M", max_num_tokens=20) as llm:
        llm.generate([[*range(5, 50)]], GREEDY)
        steps = llm.iterations()
        assert [step.prefill_rows for step in steps[:3]] == [20, 20, 5]
        assert sum(step.decode_rows for step in steps) == 11
        assert [step.step for step in steps] == list(range(1, len(steps) + 1))
        assert next(step.step for step in llm.iterations(after_step=3)) == 4
    with LLM(engine_path, threads=1, kv_memory="16M", iteration_history=0) as llm:
        llm.generate([[5]], GREEDY)
        assert llm.iterations() == []


def test_a_trace_shows_each_request_from_queue_to_end(engine_path: str) -> None:
    with LLM(engine_path, threads=1, kv_memory="16M", max_batch_size=1) as llm:
        llm.generate([[5, 6], [7, 8]], GREEDY)
        trace = chrome_trace(llm.iterations())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    for request in (1, 2):
        mine = [e["name"] for e in spans if e["pid"] == 2 and e["tid"] == request]
        assert mine.count("prefill") == 1 and mine.count("decode") == 11
    assert any(e["name"] == "queued" and e["tid"] == 2 and e["dur"] > 0 for e in spans)
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans if event["pid"] == 1)


def test_run_writes_a_trace(engine_path: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    command = [sys.executable, "-m", "slipstream", "run", engine_path, "--prompt", "the", "--raw"]
    command += ["--max-tokens", "5", "--trace"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {event["name"] for event in json.loads(path.read_text())["traceEvents"]}
    assert {"step 1", "prefill", "decode", "model"} <= names
    bad = subprocess.run(
        [*command, str(tmp_path / "none" / "t.json")], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 1 and "none" in bad.stderr and bad.stdout == ""

    # A run that fails leaves the trace of the one before, and nothing beside it.
    before = path.read_bytes()
    bad = subprocess.run(
        [*command, str(path), "--top-p", "7"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2, bad.stderr
    command[command.index("the")] = "the " * 20_000  # refused when the file is already open
    bad = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert bad.returncode != 0
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "out.json", tmp_path / "link.json"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with pytest.raises(KeyboardInterrupt), replacing(str(link)) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with replacing(str(link)) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, path]
    with replacing("/dev/null") as file:
        file.write("gone")
    assert Path("/dev/null").is_char_device()


def test_pausing_does_not_hold_up_the_event_loop(
    engine_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class SlowPause:
        def pause(self) -> None:
            entered.set()
            assert leave.wait(30)

    async def main() -> None:
        llm = AsyncLLM(engine_path, threads=1, kv_memory="16M")
        executor = llm._session.executor
        monkeypatch.setattr(llm._session, "executor", SlowPause())
        task = asyncio.create_task(llm.pause())
        while not entered.is_set():
            await asyncio.sleep(0.001)  # would never come back if pause blocked the loop
        assert not task.done()
        leave.set()
        await task
        monkeypatch.setattr(llm._session, "executor", executor)
        llm.shutdown()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_interrupt_inside_submit_loses_no_request(
    engine_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        llm = AsyncLLM(engine_path, threads=1, kv_memory="16M")
        submit = llm._session.submit

        def interrupted(*args: Any) -> int:
            submit(*args)
            raise KeyboardInterrupt

        params = SamplingParams(max_tokens=60, ignore_eos=True)
        await llm.pause()
        with monkeypatch.context() as patch:
            patch.setattr(llm._session, "submit", interrupted)
            generator = llm.generate([5, 6], params, "a")
            try:
                await anext(generator)
            except KeyboardInterrupt:
                pass
            else:
                pytest.fail("the interrupt was lost")
        llm.resume()
        assert await llm.drain(30)
        stats = llm.stats()
        assert stats.requests_submitted == 1 and stats.generated_tokens == 0
        llm.shutdown()

    asyncio.run(main())
