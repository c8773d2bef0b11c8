"""The `slipstream` command: help, exit codes, run and chat on a tiny random engine."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import build_tiny_engine

from slipstream import LLM, SamplingParams, __version__
from slipstream.cli import main
from slipstream.cli.chat import Conversation
from slipstream.errors import LimitExceededError
from slipstream.outputs import CompletionOutput, RequestOutput

COMMANDS = ["run", "chat", "build", "inspect", "fetch", "completion"]


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


def slipstream(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "slipstream", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def assert_short_error(err: str, *words: str) -> None:
    lines = err.strip().splitlines()
    assert "Traceback" not in err
    assert lines[-1].startswith("slipstream") and "error: " in lines[-1]
    for word in words:
        assert word in lines[-1]


def test_help_lists_the_commands_and_each_has_its_own() -> None:
    status, out, _ = slipstream("--help")
    assert status == 0
    listed = out.split("commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    for command in COMMANDS:
        status, out, err = slipstream(command, "--help")
        assert status == 0, err
        assert out.startswith("usage:")
    status, _, err = slipstream()
    assert status == 2 and "usage: slipstream COMMAND" in err


def test_version() -> None:
    status, out, err = slipstream("--version")
    assert (status, err) == (0, "")
    assert out.startswith(f"slipstream {__version__}\nengine format  1.0\nnative module  ")
    assert "this CPU runs  scalar, emulated16" in out
    status, out, err = slipstream("--version", "--fast")
    assert (status, out) == (2, "") and "--fast" in err


def test_version_loads_no_compiler() -> None:
    code = (
        "import sys; from slipstream.cli import main\n"
        "assert main(['--version']) == 0\n"
        "heavy = {'numpy', 'jinja2', 'tensorrt_rtx_bindings', 'xxhash'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], ["unknown command 'fly'", "run, chat"]),
        (["run", "no.engine", "--prompt", "x"], ["no.engine: no such file"]),
        (["run", "no.engine", "--prompt", "x", "--temperature", "nan"], ["temperature is nan"]),
        (["run", "no.engine", "--prompt", "x", "--max-tokens", "0"], ["max_tokens is 0"]),
        (["run", "no.engine", "--prompt", "x", "--top-p", "2"], ["top_p is 2"]),
        (["run", "no.engine", "--prompt", "x", "--seed", "-1"], ["seed is -1"]),
        (["run", "no.engine", "--prompt", "x", "--stop", ""], ["stop holds an empty string"]),
        (["run", "no.engine", "--prompt", "x", "--logprobs"], ["--logprobs needs --json"]),
        (["run", "no.engine", "--prompt", "x", "--raw", "--system", "s"], ["--raw"]),
        (["run", "no.engine"], ["--prompt"]),
        (["run", "no.engine", "--prompt", "x", "--raw", "--chat"], ["not allowed"]),
        (["run", "no.engine", "--prompt", "x", "--cpu-path", "mmx"], ["mmx", "avx2"]),
        (["run", "no.engine", "--prompt", "x", "--max-tokens", "many"], ["many"]),
        (["run", "no.engine", "--prompt", "x", "--max-tok", "3"], ["unrecognized"]),
        (["chat", "no.engine"], ["no.engine: no such file"]),
        (["chat", "no.engine", "--threads", "0"], ["threads is 0"]),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments: list[str], words: list[str]) -> None:
    status, out, err = slipstream(*arguments)
    assert (status, out) == (2, "")
    assert_short_error(err, *words)


def test_wrong_input_that_needs_an_engine(engine_path: str, tmp_path: Path) -> None:
    for options, word in [
        (["--prompt", ""], "empty"),
        (["--prompt", "", "--raw"], "empty"),
        (["--prompt", "x " * 5000], "max_seq_len"),
        (["--prompt", "x", "--kv-memory", "1"], "KV"),
        (["--prompt", "x", "--kv-memory", "much"], "kv_memory is 'much'"),
    ]:
        status, out, err = slipstream("run", engine_path, *options)
        assert (status, out) == (1 if "1" in options else 2, ""), err
        assert_short_error(err, word)
    cut = tmp_path / "cut.engine"
    cut.write_bytes(Path(engine_path).read_bytes()[:10_000])
    status, _, err = slipstream("run", str(cut), "--prompt", "x")
    assert status == 2
    assert_short_error(err, "cut.engine")


def test_run_prints_what_the_library_gives(engine_path: str) -> None:
    with LLM(engine_path) as llm:
        params = SamplingParams(max_tokens=12, temperature=0.0, logprobs=0)
        raw = llm.generate("the", params)[0]
        chat = llm.chat([{"role": "user", "content": "the"}], params)[0]
        system = [{"role": "system", "content": "s"}, {"role": "user", "content": "the"}]
        told = llm.chat(system, params)[0]
        sampled = llm.generate("the", SamplingParams(max_tokens=12, seed=7, top_k=50))[0]
    base = ["run", engine_path, "--prompt", "the", "--max-tokens", "12"]
    assert slipstream(*base, "--raw")[:2] == (0, raw.outputs[0].text + "\n")
    assert slipstream(*base)[:2] == (0, chat.outputs[0].text + "\n")
    assert slipstream(*base, "--chat", "--system", "s")[:2] == (0, told.outputs[0].text + "\n")
    status, out, err = slipstream(*base, "--raw", "--seed", "7", "--top-k", "50")
    assert (status, out) == (0, sampled.outputs[0].text + "\n")
    assert "12 tokens" in err and "tokens/s]" in err

    base[3] = "-"
    assert slipstream(*base, "--raw", stdin=b"the")[:2] == (0, raw.outputs[0].text + "\n")
    status, out, err = slipstream(*base, stdin=b"the \xff")
    assert status == 2
    assert_short_error(err, "stdin", "byte 4 is 0xff")

    base[3] = "the"
    status, out, _ = slipstream(*base, "--raw", "--json", "--logprobs")
    result = json.loads(out)
    completion = raw.outputs[0]
    assert status == 0
    assert result["prompt_token_ids"] == raw.prompt_token_ids
    assert result["outputs"][0]["token_ids"] == completion.token_ids
    assert result["outputs"][0]["text"] == completion.text
    assert result["outputs"][0]["cumulative_logprob"] == completion.cumulative_logprob
    assert len(result["outputs"][0]["logprobs"]) == 12
    assert result["first_token_s"] > 0


def test_a_plain_run_loads_neither_numpy_nor_jinja(engine_path: str) -> None:
    code = (
        "import sys; from slipstream.cli import main\n"
        "assert main(['run', sys.argv[1], '--prompt', 'the', '--raw', '--max-tokens', '2']) == 0\n"
        "heavy = {'numpy', 'jinja2', 'rich', 'torch', 'asyncio'} & set(sys.modules)\n"
        "heavy |= {m for m in sys.modules if m.startswith('slipstream.builder')}\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, engine_path], check=True, timeout=60)


def test_a_reader_that_goes_away_is_no_error_message(engine_path: str) -> None:
    command = [sys.executable, "-m", "slipstream", "run", engine_path, "--prompt", "the", "--raw"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 1
    assert err == ""


def test_an_unexpected_exception_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def broken(argv: list[str]) -> int:
        raise ZeroDivisionError("so small")

    monkeypatch.setattr("slipstream.cli.run.main", broken)
    assert main(["run"]) == 1
    assert_short_error(capsys.readouterr().err, "ZeroDivisionError: so small", "report")
    monkeypatch.setenv("SLIPSTREAM_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["run"])


def test_chat_reads_lines_until_the_end(engine_path: str) -> None:
    lines = "the\n\n/what\n/reset\n/help\n/system s\nthe\n"
    status, out, err = slipstream("chat", engine_path, "--max-tokens", "8", stdin=lines.encode())
    assert status == 0, err
    with LLM(engine_path) as llm:
        params = SamplingParams(max_tokens=8, temperature=0.0)
        first = llm.chat([{"role": "user", "content": "the"}], params)[0].outputs[0].text
        system = [{"role": "system", "content": "s"}, {"role": "user", "content": "the"}]
        second = llm.chat(system, params)[0].outputs[0].text
    assert out == first + "\n" + second + "\n"
    assert "Unknown command /what" in err and "/exit" in err and "tokens/s" in err
    status, out, _ = slipstream("chat", engine_path, stdin=b"/exit\nthe\n")
    assert (status, out) == (0, "")


def test_a_line_that_is_no_text_costs_only_itself(engine_path: str) -> None:
    long = b"the " * 9000
    lines = b"the\n\xff\xfe\nthe \xc3\n" + long + b"\nthe"
    status, out, err = slipstream("chat", engine_path, "--max-tokens", "4", stdin=lines)
    with LLM(engine_path) as llm:
        params = SamplingParams(max_tokens=4, temperature=0.0)
        messages = [{"role": "user", "content": "the"}]
        first = llm.chat(messages, params)[0].outputs[0].text
        messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "the"}]
        second = llm.chat(messages, params)[0].outputs[0].text
    assert out == f"{first}\n{second}\n"
    errors = [line for line in err.splitlines() if "error" in line]
    assert len(errors) == 3, err
    assert "Line 2 of the input is not UTF-8: byte 0 is 0xff" in errors[0]
    assert "Line 3 of the input is not UTF-8: byte 4 is 0xc3" in errors[1]
    assert errors[2].endswith("/reset starts a new conversation.")
    assert status == 2


class FakeLLM:
    """Answers with the number of messages; each step may raise instead."""

    def __init__(self, *raises: BaseException) -> None:
        self.seen: list[list[dict[str, str]]] = []
        self.raises = list(raises)

    def stream_chat(self, messages: Any, params: Any) -> Iterator[RequestOutput]:
        self.seen.append([dict(message) for message in messages])
        text = f"{len(messages)} messages"
        if self.raises and isinstance(self.raises[0], LimitExceededError):
            raise self.raises.pop(0)
        yield RequestOutput("0", "p", [1], [CompletionOutput(0, text[:5], [1])])
        if self.raises:
            raise self.raises.pop(0)
        yield RequestOutput("0", "p", [1], [CompletionOutput(0, text, [1, 2])], True)


def talk(llm: FakeLLM, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(remaining)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    conversation = Conversation(llm, SamplingParams(), "be kind")  # type: ignore[arg-type]
    conversation._interactive = True
    llm.engine = type("E", (), {"model_name": "fake"})  # type: ignore[attr-defined]
    conversation.loop()


def test_the_history_goes_with_each_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = FakeLLM()
    talk(llm, ["one", "two", "/reset", "three"], monkeypatch)
    system = {"role": "system", "content": "be kind"}
    one = {"role": "user", "content": "one"}
    answer = {"role": "assistant", "content": "2 messages"}
    assert llm.seen == [
        [system, one],
        [system, one, answer, {"role": "user", "content": "two"}],
        [system, {"role": "user", "content": "three"}],
    ]
    assert capsys.readouterr().out == "2 messages\n4 messages\n2 messages\n"


def test_ctrl_c_stops_an_answer_and_keeps_what_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = FakeLLM(KeyboardInterrupt())
    talk(llm, ["one", "two"], monkeypatch)
    assert llm.seen[1][2] == {"role": "assistant", "content": "2 mes"}
    assert "(stopped)" in capsys.readouterr().err


def test_a_conversation_that_grew_too_long_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = FakeLLM(LimitExceededError("too long."))
    talk(llm, ["one", "two"], monkeypatch)
    assert [message["content"] for message in llm.seen[1]] == ["be kind", "two"]
    assert "too long. /reset starts a new conversation." in capsys.readouterr().err


def test_chat_in_a_terminal(engine_path: str) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "slipstream", "chat", engine_path, "--max-tokens", "5"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown = b""

    def wait_for(text: bytes) -> None:
        nonlocal shown
        end = time.monotonic() + 30
        while text not in shown:
            assert time.monotonic() < end, shown
            if not select.select([master], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(master, 4096)
            except OSError:
                pytest.fail(f"the process ended: {shown!r}")
        shown = shown.split(text, 1)[1]

    try:
        wait_for(b">>> ")
        time.sleep(0.3)  # Python's readline loses a signal between its prompt and its wait
        process.send_signal(signal.SIGINT)
        wait_for(b"/exit leaves")
        wait_for(b">>> ")
        os.write(master, b"the\n")
        wait_for(b"tokens/s]")
        wait_for(b">>> ")
        os.write(master, b"\x04")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_ctrl_c_ends_run_with_130(engine_path: str) -> None:
    # stdin stays open, so that the command waits for its prompt.
    process = subprocess.Popen(
        [sys.executable, "-m", "slipstream", "run", engine_path, "--prompt", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("closed", [">&-", "<&-", ">/dev/full", "| true"])
@pytest.mark.parametrize(
    "command", ["--help", "--version", "inspect m", "run m --prompt x --max-tokens 3 --json"]
)
def test_streams_that_are_closed_or_full_are_no_defect(
    engine_path: str, command: str, closed: str
) -> None:
    line = f"{sys.executable} -m slipstream {command.replace(' m', ' ' + engine_path, 1)} {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    for word in ("Traceback", "internal", "ignored", "defect"):
        assert word not in done.stderr
    assert done.returncode == (1 if closed == ">/dev/full" else 0)


def test_what_the_output_cannot_spell_is_escaped(tmp_path: Path) -> None:
    """An ASCII terminal, and names that are no text: neither ends a command."""
    engine = build_tiny_engine(tmp_path)
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xc3\xbc.engine")
    os.rename(engine, odd)
    for command in (["inspect", odd], ["run", odd, "--prompt", "x", "--json", "--raw"]):
        done = subprocess.run(
            [sys.executable, "-m", "slipstream", *command],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        done.stdout.decode("ascii")
    code = "from slipstream._streams import prepare_streams as p; p(); print('\\U0001f680\\udcff')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert done.stdout == b"\\U0001f680\\udcff\n"
