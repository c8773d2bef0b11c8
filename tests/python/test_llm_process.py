"""What happens to running requests when the process is interrupted, ends or forks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llm_fixtures import build_tiny_engine

COMMON = """
import asyncio, os, sys, threading, time
sys.modules["torch"] = None
from slipstream import LLM, AsyncLLM, SamplingParams
long = SamplingParams(max_tokens=8000, temperature=0.0, ignore_eos=True)
def forever(llm):
    while True:
        llm.generate([[5, 6, 7]] * 32, long)
"""


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


def start(code: str, engine: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + code, engine],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"the process hangs: {out} {err}")
    return process.returncode, out, err


@pytest.mark.parametrize("how", ["generate", "stream"])
def test_ctrl_c_interrupts_and_leaves_nothing_running(engine_path: str, how: str) -> None:
    code = """
llm = LLM(sys.argv[1], threads=1, kv_memory="64M")
print("started", flush=True)
try:
    while True:
        HOW
except KeyboardInterrupt:
    pass  # its traceback holds the frames, and they the stream, until here
print("interrupted", llm.stats().running, llm.stats().waiting)
print(len(llm.generate("the", SamplingParams(max_tokens=3))[0].outputs[0].token_ids) > 0)
""".replace(
        "HOW",
        "llm.generate([[5, 6, 7]] * 2000, long)"
        if how == "generate"
        else "[None for _ in llm.stream([5, 6, 7], long)]",
    )
    process = start(code, engine_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert (status, out) == (0, "interrupted 0 0\nTrue\n"), err
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "code",
    [
        # A generator that nobody finished, and callbacks that still arrive.
        """
async def main():
    llm = AsyncLLM(sys.argv[1], threads=2, kv_memory="64M")
    keep = [llm.generate("the", long) for _ in range(20)]
    for stream in keep:
        await anext(stream)
    globals()["kept"] = llm, keep
asyncio.run(main())
""",
        # The same without an event loop, all of it alive in a global at the end.
        """
from slipstream import _native
model = _native.Model(_native.Runtime(threads=2), _native.Engine.load(sys.argv[1]))
config = _native.ExecutorConfig()
config.kv_memory_bytes = 1 << 26
executor = _native.Executor(model, config)
request = _native.Request(prompt_token_ids=[5], sampling=long.to_native())
seen = []
for _ in range(50):
    executor.submit(request, seen.append)
""",
        # A daemon thread inside generate, and one inside a stream.
        """
llm = LLM(sys.argv[1], threads=2, kv_memory="64M")
def stream():
    while True:
        for _ in llm.stream([5, 6], long): pass
for work in (lambda: forever(llm), stream):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
        # An exit from the middle.
        """
llm = LLM(sys.argv[1], threads=2, kv_memory="64M")
streams = [llm.stream([5, 6], long) for _ in range(5)]
next(streams[0])
sys.exit(0)
""",
        # The model is dropped while its requests run.
        """
async def main():
    llm = AsyncLLM(sys.argv[1], threads=2, kv_memory="64M")
    streams = [llm.generate("the", long) for _ in range(5)]
    await anext(streams[0])
    del llm
asyncio.run(main())
""",
    ],
    ids=["generators", "callbacks", "daemons", "exit", "dropped"],
)
def test_the_end_of_the_process_neither_hangs_nor_crashes(engine_path: str, code: str) -> None:
    status, out, err = finish(start(code + "print('end', flush=True)\n", engine_path))
    assert status == 0, err
    assert "Fatal" not in err and "terminate" not in err
    assert out in ("end\n", "")


def test_a_forked_child_gets_an_error_and_ends(engine_path: str) -> None:
    code = """
import gc
from slipstream import SlipstreamError
llm = LLM(sys.argv[1], threads=2, kv_memory="64M")
llm.generate("the", long)
pid = os.fork()
if pid == 0:
    try:
        llm.generate("the", long)
    except SlipstreamError as error:
        print("child", error.code, "fork" in str(error), flush=True)
    del llm
    gc.collect()
    sys.exit(3)
_, status = os.waitpid(pid, 0)
print("parent", os.waitstatus_to_exitcode(status), llm.generate("the", long)[0].finished)
"""
    status, out, err = finish(start(code, engine_path))
    assert (status, out) == (0, "child UNAVAILABLE True\nparent 3 True\n"), err


def test_generation_works_without_the_checkpoint_and_without_numpy(
    engine_path: str, tmp_path: Path
) -> None:
    code = """
sys.modules["numpy"] = None
print(LLM(sys.argv[1]).generate("the", long)[0].finished)
"""
    copy = tmp_path / "copy.engine"
    copy.write_bytes(Path(engine_path).read_bytes())
    status, out, err = finish(start(code, str(copy)))
    assert (status, out) == (0, "True\n"), err
