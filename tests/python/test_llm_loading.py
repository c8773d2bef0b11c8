"""From a path to a model that is ready: options, paths, the cache, the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import LONG, build_tiny_engine, facts, make_tiny_checkpoint

from slipstream import LLM
from slipstream.errors import (
    CorruptFileError,
    InvalidArgumentError,
    NotFoundError,
    SlipstreamError,
    UnavailableError,
)


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"threads": 2000}, "threads is 2000"),
        ({"threads": "2"}, "threads is '2'"),
        ({"kv_memory": "lots"}, "kv_memory is 'lots'"),
        ({"kv_memory": 0}, "kv_memory is 0"),
        ({"kv_memory": 1}, "KV"),
        ({"cpu_path": "mmx"}, "cpu_path is 'mmx'; it must be one of auto, scalar"),
        ({"cpu_path": None}, "cpu_path is None"),
        ({"cpu_path": 3}, "cpu_path is 3"),
        ({"cpu_path": ["auto"]}, "cpu_path is"),
        ({"threads": 1.5}, "threads is 1.5"),
        ({"threads": True}, "threads is True"),
        ({"kv_memory": 1.5}, "kv_memory is 1.5"),
        ({"kv_memory": []}, "kv_memory is"),
        ({"max_batch_size": "8"}, "max_batch_size is '8'"),
        ({"max_num_tokens": [1]}, "max_num_tokens is"),
        ({"max_batch_size": 10**6}, "max_batch_size is 1000000"),
        ({"max_num_tokens": 10**6}, "max_num_tokens is 1000000"),
    ],
)
def test_bad_options_of_loading(engine_path: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SlipstreamError, match=says):
        LLM(engine_path, **options)


def test_bad_paths(tmp_path: Path, engine_path: str) -> None:
    with pytest.raises(NotFoundError, match="no such file or folder"):
        LLM(tmp_path / "none.engine")
    with pytest.raises(InvalidArgumentError, match=r"without config\.json"):
        LLM(tmp_path)
    with pytest.raises(InvalidArgumentError, match="path is empty"):
        LLM("")
    for wrong in (None, 3, b"m.engine", ["m.engine"], "m\0.engine"):
        with pytest.raises(InvalidArgumentError, match="path is"):
            LLM(wrong)  # type: ignore[arg-type]
    cut = tmp_path / "cut.engine"
    cut.write_bytes(Path(engine_path).read_bytes()[:10_000])
    with pytest.raises(CorruptFileError, match=r"cut\.engine"):
        LLM(cut)


def test_a_checkpoint_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLIPSTREAM_CACHE", str(tmp_path / "cache"))
    checkpoint = make_tiny_checkpoint(tmp_path / "model", seed=4)
    first = LLM(checkpoint).generate("the", LONG)[0]
    assert "building an engine once (weights bf16, KV cache bf16" in capsys.readouterr().err
    second = LLM(str(checkpoint)).generate("the", LONG)[0]
    told = capsys.readouterr().err
    assert "building" not in told and "using" in told
    assert facts(first) == facts(second)

    make_tiny_checkpoint(tmp_path / "model", seed=5)
    assert facts(LLM(checkpoint).generate("the", LONG)[0]) != facts(first)
    assert "building an engine once" in capsys.readouterr().err


def test_a_closed_model_refuses(engine_path: str) -> None:
    model = LLM(engine_path, kv_memory="16M")
    model.close()
    model.close()
    with pytest.raises(UnavailableError):
        model.generate("x")
