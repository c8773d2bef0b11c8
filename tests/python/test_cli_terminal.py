"""What a terminal sees that a pipe does not, and what both are told."""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import make_tiny_checkpoint

from slipstream._download import Progress
from slipstream._progress import ProgressBar, progress_line
from slipstream.builder import build as build_module
from slipstream.builder import cli
from slipstream.builder.errors import InputError, InternalError
from slipstream.builder.manifest import model_name
from slipstream.cli.options import sampling_params
from slipstream.generation_config import not_applied
from slipstream.sampling import SamplingParams


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_tells_percent_rate_and_time_left() -> None:
    line = progress_line("weights", 50_000_000, 200_000_000, 2_000_000)
    assert line == "weights [######                  ]  25%  50.0 of 200.0 MB  2.0 MB/s  1:15 left"
    assert progress_line("w", 10, 10, 5e6) == f"w [{'#' * 24}] 100%  0.0 of 0.0 MB  5.0 MB/s"
    assert progress_line("w", 3_000_000, None, 1e6) == "w  3.0 MB  1.0 MB/s"
    assert progress_line("w", 0, 7_201_000_000, 1e6).endswith("2:00:01 left")
    assert "left" not in progress_line("w", 0, 100, 0)


def test_the_bar_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    with ProgressBar("weights", terminal) as bar:
        bar.update(10, 10)
    shown, cleared = terminal.getvalue().split("\r")[1:3]
    assert shown.startswith("weights [#####") and len(shown) == 39
    assert cleared == " " * 39 and terminal.getvalue().endswith("\r")
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_no_terminal_no_bar(
    stream: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    progress = Progress(stream)
    progress.bytes("Unpacking", 5, 10)
    progress.bytes("Unpacking", 10, 10)
    progress.line("done")
    assert stream.getvalue() == "done\n"


def test_build_shows_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "tiny")
    command = [sys.executable, "-m", "slipstream", "build", str(folder)]
    command += ["-o", str(tmp_path / "m.engine")]
    piped = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert piped.stderr == b"" and b"\x1b" not in piped.stdout and b"\r" not in piped.stdout

    main_end, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=end, env=environment
    ) as process:
        os.close(end)
        seen = b""
        while True:
            try:
                data = os.read(main_end, 4096)
            except OSError:  # how a pty tells that its other end is closed
                break
            if not data:
                break
            seen += data
        assert process.wait(timeout=60) == 0
    os.close(main_end)
    assert b"weights [########################] 100%" in seen and b"\x1b" not in seen
    assert seen.endswith(b"\r")


def test_settings_that_are_not_applied_are_told() -> None:
    assert not_applied({}) == []
    quiet: dict[str, Any] = {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 50,
        "eos_token_id": [1, 2],
        "transformers_version": "5.0.0",
        "_from_model_config": True,
        "repetition_penalty": 1.0,
        "num_beams": 1,
        "no_repeat_ngram_size": 0,
        "bad_words_ids": None,
        "suppress_tokens": [],
        "max_length": 20,
    }
    assert not_applied(quiet) == []
    loud = {"epsilon_cutoff": 0.1, "num_beams": 4, "suppress_tokens": [3], "future": "x"}
    assert not_applied({**quiet, **loud}) == [
        "epsilon_cutoff = 0.1",
        'future = "x"',
        "num_beams = 4",
        "suppress_tokens = [3]",
    ]
    assert len(not_applied({"suppress_tokens": list(range(100))})[0]) < 80


def test_run_tells_them_once(capsys: pytest.CaptureFixture[str]) -> None:
    class Engine:
        model_name = "Tiny"
        generation_config_json = json.dumps({"epsilon_cutoff": 0.1})

    class Model:
        engine = Engine()

        def default_sampling_params(self) -> SamplingParams:
            return SamplingParams(temperature=0)

    names = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop")
    args = argparse.Namespace(**dict.fromkeys(names))
    sampling_params(args, Model())  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "Tiny's generation_config.json asks for epsilon_cutoff = 0.1" in err


def test_a_defect_of_the_builder_asks_for_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise InternalError("pass 'fold' broke the graph: two nodes are named a")

    monkeypatch.setattr(build_module, "build", broken)
    assert cli.main([str(tmp_path), "-o", str(tmp_path / "m.engine")]) == 1
    assert capsys.readouterr().err == (
        "build-engine: error: pass 'fold' broke the graph: two nodes are named a. This is a defect "
        "of Slipstream; please report it.\n"
    )


def test_name_of_the_model() -> None:
    config = {"architectures": ["LlamaForCausalLM"], "_name_or_path": "org/model"}
    assert model_name(config) == "org/model"
    assert model_name({**config, "_name_or_path": "/home/someone/model"}) == "LlamaForCausalLM"
    assert model_name(config, "Mein Modell") == "Mein Modell"
    for wrong in ("", " x", "a\nb", "\ud800", "x" * 201):
        with pytest.raises(InputError, match=r"--name is .*1 to 200 printable"):
            model_name(config, wrong)
