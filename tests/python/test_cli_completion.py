"""The completion scripts, run by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from slipstream.cli import COMMANDS, main

FLOATS = ["bfloat16", "float32"]
FORMATS = ["bf16", "f16", "f32"]
PATHS = ["auto", "avx2", "avx512", "emulated16", "scalar"]

# Words typed, the last being completed -> what is offered (files: beside sub/, a.engine, b c.txt).
CASES = [
    (["slipstream", "in"], ["inspect"]),
    (["slipstream", "--v"], ["--version"]),
    (["slipstream", "run", "--cpu-path", ""], PATHS),
    (["slipstream", "run", "--json", "x.engine", "--cpu-path", "av"], ["avx2", "avx512"]),
    (["slipstream", "run", "--log"], ["--logprobs"]),
    (["slipstream", "run", "a"], ["a.engine"]),
    (["slipstream", "fetch", "w"], ["wiki-excerpt"]),
    (["slipstream", "fetch", "--dtype", ""], FLOATS),
    (["slipstream", "completion", ""], ["bash", "fish", "zsh"]),
    (["slipstream", "build", "--weights", ""], FORMATS),
    (["build-engine", "--weights", ""], FORMATS),
    (["build-engine", "--max-s"], ["--max-seq-len"]),
    (["build-engine", "-o", "a"], ["a.engine"]),
    (["build-engine", "s"], ["sub"]),
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("a.engine", "b c.txt", "some.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    return tmp_path


def script(shell: str, capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / "completion.sh"
    path.write_text(capsys.readouterr().out)
    return path


def bash(path: Path, words: list[str], folder: Path) -> list[str]:
    """What bash's own completion offers for the last of `words`."""
    code = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        'function=$(complete -p "$1"); function=${function#*-F }; '
        '"${function%% *}" "$1" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", str(path), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stderr == ""
    return sorted(line for line in done.stdout.splitlines() if line)


def test_bash(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", capsys, here)
    for words, offered in CASES:
        assert bash(path, words, here) == offered, words
    assert set(COMMANDS) <= set(bash(path, ["slipstream", ""], here))
    assert bash(path, ["slipstream", "run", "--prompt", ""], here) == []
    assert bash(path, ["slipstream", "run", "--cpu-path", "=", "sc"], here) == ["scalar"]
    assert bash(path, ["slipstream", "run", "--cpu-path", "="], here) == PATHS
    assert bash(path, ["slipstream", "run", "b"], here) == ["b c.txt"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("fish", capsys, here)
    for words, offered in CASES:
        line = " ".join(words[:-1]) + " " + words[-1]
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"],
            cwd=here,
            env={"HOME": str(here), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        assert done.stderr == ""
        found = sorted(found.split("\t")[0].rstrip("/") for found in done.stdout.splitlines())
        assert found == offered, words


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("zsh", capsys, here)
    code = (
        f"autoload -Uz compinit && compinit -D && source {path} && "
        "print $_comps[slipstream] $_comps[build-engine]"
    )
    done = subprocess.run(
        ["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("_slipstream _slipstream\n", "")
