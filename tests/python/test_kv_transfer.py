"""Cached KV out of an LLM and into another, its events and retention, and `chat --session`."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from llm_fixtures import assert_idle, build_tiny_engine

from slipstream import LLM, AsyncLLM, KvRetention, SamplingParams, Scheduling
from slipstream.cli import session_file
from slipstream.errors import (
    CorruptFileError,
    IncompatibleError,
    InvalidArgumentError,
    NotFoundError,
    SlipstreamError,
)

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
PROMPT = [(7 * i + i // 3) % 250 for i in range(90)]


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("kv"))


@pytest.fixture
def llm(engine_path: str) -> Iterator[LLM]:
    with LLM(engine_path, threads=1, kv_memory="8M", kv_events=1000) as made:
        yield made


def talk(llm: LLM, scheduling: Scheduling | None = None) -> list[int]:
    (output,) = llm.generate([PROMPT], GREEDY, scheduling=scheduling)
    return PROMPT + list(output.outputs[0].token_ids)


def test_another_llm_goes_on_without_computing_again(llm: LLM, engine_path: str) -> None:
    tokens = talk(llm)
    image = llm.export_kv(tokens)
    longer = [*tokens, 3, 1, 4]
    with LLM(engine_path, threads=1, kv_memory="8M", prefix_cache=False) as cold:
        (expected,) = cold.generate([longer], GREEDY)
    with LLM(engine_path, threads=2, kv_memory="8M") as other:
        assert other.import_kv(image) == len(tokens) - 1
        (output,) = other.generate([longer], GREEDY)
        assert output.num_cached_tokens == len(tokens) - 1
        assert output.outputs[0].token_ids == expected.outputs[0].token_ids
        assert_idle(other)


def test_what_is_wrong_with_an_image_or_a_call_is_said(llm: LLM) -> None:
    with pytest.raises(NotFoundError, match="cached"):
        llm.export_kv(PROMPT)
    image = llm.export_kv(talk(llm))
    with pytest.raises(NotFoundError):
        llm.export_kv(PROMPT, cache_salt="another")
    for damaged in (b"", image[:-1], image[:50], image[:300] + b"?" + image[301:], b"x" * 100):
        with pytest.raises(CorruptFileError):
            llm.import_kv(damaged)
    for wrong in (None, 3, "text"):
        with pytest.raises(InvalidArgumentError, match="image"):
            llm.import_kv(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="cache_salt"):
        llm.import_kv(image, cache_salt="s" * 257)
    with pytest.raises(InvalidArgumentError, match="salt_prefix"):
        llm.drop_cache(5)  # type: ignore[arg-type]


def test_drop_cache_forgets_what_begins_with_the_prefix(llm: LLM) -> None:
    tokens = talk(llm, Scheduling(cache_salt="tenant-1"))
    llm.drop_cache("tenant-2")
    assert llm.export_kv(tokens, cache_salt="tenant-1")
    llm.drop_cache("tenant")
    with pytest.raises(NotFoundError):
        llm.export_kv(tokens, cache_salt="tenant-1")
    assert llm.stats().kv_blocks_free == llm.stats().kv_blocks_total


def test_events_name_what_is_stored_and_removed(llm: LLM, engine_path: str) -> None:
    tokens = talk(llm, Scheduling(cache_salt="ä"))
    events, dropped = llm.take_kv_events()
    assert dropped == 0
    stored = [event for event in events if event.kind == "stored" and event.group == 0]
    assert [token for event in stored for token in event.token_ids] == tokens[:-1]
    assert {event.cache_salt for event in stored} == {"ä".encode()}
    names = {name for event in stored for name in event.hashes}
    assert len(names) == -(-(len(tokens) - 1) // 32)
    llm.drop_cache()
    removed = {name for event in llm.take_kv_events()[0] for name in event.hashes}
    assert removed == names
    assert llm.take_kv_events() == ([], 0)
    with (
        LLM(engine_path, kv_memory="4M") as quiet,
        pytest.raises(InvalidArgumentError, match="max_kv_events"),
    ):
        quiet.take_kv_events()
    with pytest.raises(InvalidArgumentError, match="kv_events"):
        LLM(engine_path, kv_events=-1)


def test_what_is_retained_outlives_what_came_later(engine_path: str) -> None:
    def cached_after(priority: int) -> int:
        with LLM(engine_path, threads=1, kv_memory="256K") as llm:
            kept = Scheduling(retention=[KvRetention(priority=priority)])
            talk(llm, kept)
            blocks = llm.stats().kv_blocks_total
            for name in range(blocks):
                llm.generate([[name % 250, name // 250] * 40], GREEDY)
            (output,) = llm.generate([PROMPT], GREEDY, scheduling=kept)
            return output.num_cached_tokens

    assert cached_after(100) == len(PROMPT) - 1
    assert cached_after(0) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": -1},
        {"first": 4, "end": 4},
        {"priority": 101},
        {"priority": True},
        {"duration": 0},
        {"end": "5"},
    ],
)
def test_retention_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        KvRetention(**wrong)  # type: ignore[arg-type]


def test_retention_is_a_list_of_ranges() -> None:
    with pytest.raises(InvalidArgumentError, match=r"retention\[1\]"):
        Scheduling(retention=[KvRetention(), 5])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="retention"):
        Scheduling(retention=KvRetention())  # type: ignore[arg-type]


def test_async(engine_path: str) -> None:
    async def run() -> None:
        llm = AsyncLLM(engine_path, threads=1, kv_memory="8M", kv_events=10)
        try:
            async for output in llm.generate(PROMPT, GREEDY):
                last = output
            tokens = PROMPT + list(last.outputs[0].token_ids)
            image = await llm.export_kv(tokens)
            await llm.drop_cache()
            assert await llm.import_kv(image) == len(tokens) - 1
            events, _ = await llm.take_kv_events()
            assert {event.kind for event in events} == {"stored", "removed"}
        finally:
            llm.shutdown()

    asyncio.run(run())


def test_a_processor_that_calls_its_own_llm_gets_an_error(llm: LLM) -> None:
    def nested(token_ids: list[int], logits: object) -> None:
        llm.generate([[1, 2]], GREEDY)

    with pytest.raises(SlipstreamError, match="callback or a logits processor"):
        llm.generate([[5, 6]], SamplingParams(max_tokens=2, logits_processors=[nested]))
    assert talk(llm)
    assert_idle(llm)


def chat(engine: str, session: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slipstream", "chat", engine, "--session", str(session)]
    command += ["--kv-memory", "8M", "--max-tokens", "8", "--temperature", "0", *more]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)


def test_a_chat_goes_on_where_it_ended(engine_path: str, tmp_path: Path) -> None:
    session = tmp_path / "talk.session"
    whole = tmp_path / "whole.session"
    first = chat(engine_path, session, "hello there\n", "--system", "be brief")
    assert first.returncode == 0, first.stderr
    assert session.stat().st_mode & 0o777 == 0o600
    second = chat(engine_path, session, "and now\n")
    assert second.returncode == 0, second.stderr
    assert "1 turns from" in second.stderr and "tokens of it ready" in second.stderr
    at_once = chat(engine_path, whole, "hello there\nand now\n", "--system", "be brief")
    assert first.stdout + second.stdout == at_once.stdout
    saved, other = session_file.read(str(session)), session_file.read(str(whole))
    assert saved is not None and other is not None
    assert saved.messages == other.messages
    assert [message["role"] for message in saved.messages] == [
        "system", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    with LLM(engine_path, kv_memory="8M") as llm:
        assert llm.import_kv(saved.kv) > 20
    refused = chat(engine_path, session, "x\n", "--system", "be long")
    assert refused.returncode == 2 and "--system differs" in refused.stderr


def test_another_engine_takes_up_the_text_alone(engine_path: str, tmp_path: Path) -> None:
    session = tmp_path / "talk.session"
    assert chat(engine_path, session, "hello\n").returncode == 0
    saved = session_file.read(str(session))
    assert saved is not None and saved.kv
    session_file.write(
        str(session),
        session_file.SavedConversation("other", "0" * 32, saved.messages, saved.kv),
    )
    second = chat(engine_path, session, "again\n")
    assert second.returncode == 0 and "computed again" in second.stderr


def test_a_damaged_session_is_an_error_and_stays(engine_path: str, tmp_path: Path) -> None:
    session = tmp_path / "talk.session"
    conversation = session_file.SavedConversation(
        "m", "b", [{"role": "user", "content": "é"}], b"k"
    )
    session_file.write(str(session), conversation)
    assert session_file.read(str(session)) == conversation
    data = session.read_bytes()
    for at in range(len(data)):
        session.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((CorruptFileError, IncompatibleError)):
            session_file.read(str(session))
        session.write_bytes(data[:at])
        with pytest.raises(CorruptFileError):
            session_file.read(str(session))
    result = chat(engine_path, session, "hello\n")
    assert result.returncode == 2 and "checksum" in result.stderr
    assert session.read_bytes() == data[:-1]


def test_a_session_that_cannot_be_written_is_said(engine_path: str, tmp_path: Path) -> None:
    result = chat(engine_path, tmp_path / "missing" / "talk.session", "hello\n")
    assert result.returncode != 0 and "cannot be written" in result.stderr
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with contextlib.suppress(FileNotFoundError):
        session_file.write(str(link), session_file.SavedConversation("m", "b", [], b""))
    assert link.is_symlink() and (tmp_path / "target").exists()
