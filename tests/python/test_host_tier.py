"""The host tier through the Python face: what leaves the pool comes back, with the same answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import assert_idle, build_tiny_engine, drawn_requests, facts

from slipstream import LLM, SamplingParams
from slipstream.errors import InvalidArgumentError, IoError, ResourceExhaustedError

GREEDY = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True, logprobs=0)


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


def small_pool(engine_path: str, tokens: int) -> int:
    """Bytes of a pool that takes one sequence of so many tokens, and not two."""
    for kib in range(16, 4096, 16):
        try:
            with LLM(engine_path, threads=1, kv_memory=kib * 1024) as llm:
                if llm.stats().kv_blocks_total * 32 >= tokens:
                    return kib * 1024
        except ResourceExhaustedError:  # not one block
            continue
    raise AssertionError("no pool is small enough")


def conversation(name: int, tokens: int) -> list[int]:
    return [3 + (name * 31 + i * 7 + i // 11) % 260 for i in range(tokens)]


def test_an_idle_conversation_goes_on(engine_path: str, tmp_path: Path) -> None:
    size = small_pool(engine_path, 300)
    with LLM(engine_path, threads=1, prefix_cache=False) as llm:
        alone = llm.generate([conversation(0, 250)], GREEDY)[0]
    cached = {}
    for host in (None, "4MiB"):
        options: dict[str, Any] = {"host_kv_memory": host, "host_kv_dir": tmp_path}
        with LLM(engine_path, threads=1, kv_memory=size, **options) as llm:
            for name in (0, 1, 2):
                llm.generate([conversation(name, 250)], GREEDY)
            again = llm.generate([conversation(0, 250)], GREEDY)[0]
            assert facts(again) == facts(alone)
            cached[host] = again.num_cached_tokens
            stats = llm.stats()
            assert (stats.host_blocks_total > 0) == (host is not None)
            assert (stats.host_blocks_used > 0) == (host is not None)
            assert (stats.blocks_swapped_in > 0) == (host is not None)
            assert (stats.blocks_swapped_out > 0) == (host is not None)
            assert_idle(llm)
        assert list(tmp_path.iterdir()) == []
    assert cached == {None: 0, "4MiB": 249}


def test_many_preempted_requests_answer_as_alone(engine_path: str) -> None:
    requests = drawn_requests(200, seed=7)
    prompts, params = [list(x) for x in zip(*requests, strict=True)]
    with LLM(engine_path, threads=1, prefix_cache=False, max_batch_size=1) as llm:
        alone = llm.generate(prompts, params)
    with LLM(
        engine_path,
        threads=2,
        kv_memory=small_pool(engine_path, 320),
        host_kv_memory="8M",
        capacity="max-utilization",
    ) as llm:
        outputs = llm.generate(prompts, params)
        outputs_again = llm.generate(prompts, params)
        stats = llm.stats()
        assert stats.blocks_swapped_in > 20 and stats.blocks_swapped_out > 100
        assert stats.preemptions > 0
        assert_idle(llm)
    assert [facts(output) for output in outputs] == [facts(output) for output in alone]
    assert [facts(output) for output in outputs_again] == [facts(output) for output in alone]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host_kv_memory": "lots"}, "host_kv_memory is 'lots'"),
        ({"host_kv_memory": 0}, "host_kv_memory is 0"),
        ({"host_kv_memory": 1}, "host_kv_bytes is 1"),
        ({"host_kv_memory": "8M", "prefix_cache": False}, "prefix_cache is off"),
        ({"host_kv_memory": "8M", "host_kv_dir": 5}, "host_kv_dir is 5"),
        ({"host_kv_memory": "8M", "host_kv_dir": ""}, "host_kv_dir is ''"),
    ],
)
def test_wrong_settings_are_named(engine_path: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LLM(engine_path, threads=1, **options)


def test_a_missing_folder_is_named(engine_path: str, tmp_path: Path) -> None:
    with pytest.raises(IoError, match="No file for the host KV tier"):
        LLM(engine_path, threads=1, host_kv_memory="1M", host_kv_dir=tmp_path / "missing")


def test_the_command_line_takes_it(engine_path: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slipstream", "run", engine_path, "--prompt", "a b"]
    tier = ["--host-kv-memory", "1M", "--host-kv-dir"]
    done = subprocess.run([*command, *tier, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    failed = subprocess.run(
        [*command, *tier, str(tmp_path / "missing")], capture_output=True, text=True
    )
    assert failed.returncode != 0 and "host KV tier" in failed.stderr
