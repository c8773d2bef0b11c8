"""Fixtures of several test files: a real model, and engines built from it once a session."""

from __future__ import annotations

import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstream import cache_dir
from slipstream.errors import IoError
from slipstream.fetch import fetch

# A shell that starts the tests in the background has Ctrl-C ignored in them, and so in every
# process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """SmolLM2-135M-Instruct in bfloat16, fetched into the cache once."""
    try:
        return fetch("smollm2-135m-instruct", cache_dir() / "models" / "smollm2-bfloat16").path
    except IoError as error:
        pytest.skip(f"no model: {error}")


@pytest.fixture(scope="session")
def wiki_text() -> str:
    """2.5 MB of English prose, fetched into the cache once."""
    try:
        folder = fetch("wiki-excerpt", cache_dir() / "texts" / "wiki-excerpt").path
    except IoError as error:
        pytest.skip(f"no text: {error}")
    return (folder / "wiki.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def smollm2_engine(
    smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """`smollm2_engine("bf16")`: the engine with these weights, built once a session."""
    folder = tmp_path_factory.mktemp("engines")

    def build(weights: str, kv_cache: str | None = None) -> Path:
        kv_cache = kv_cache or weights
        path = folder / f"smollm2-{weights}-{kv_cache}.engine"
        if not path.exists():
            command = [str(script("build-engine")), str(smollm2_dir), "-o", str(path)]
            command += ["--weights", weights, "--kv-cache", kv_cache]
            built = subprocess.run(command, capture_output=True, text=True, timeout=300)
            assert built.returncode == 0, built.stderr
        return path

    return build


def script(name: str) -> Path:
    """A console script of the environment that the tests run in."""
    path = Path(sysconfig.get_path("scripts")) / name
    assert path.exists(), f"{path} is missing: is slipstream installed for {sys.executable}?"
    return path
