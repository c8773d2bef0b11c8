"""The build of a model that is larger than the memory it may take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import script

MAKER = Path(__file__).resolve().parents[2] / "benchmarks/make_1b.py"


def make(tokenizer: Path, out: Path, layers: int, seed: int = 0) -> Path:
    command = [sys.executable, str(MAKER), str(tokenizer), str(out)]
    command += ["--layers", str(layers), "--seed", str(seed)]
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return out


def build(checkpoint: Path, out: Path) -> tuple[dict[str, object], int]:
    """The report of a build, and the peak resident memory (bytes) that the system counted."""
    command = [str(script("build-engine")), str(checkpoint), "-o", str(out), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    report = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(report), usage.ru_maxrss * 1024


@pytest.mark.full
def test_a_1b_model_is_built_in_1500_mb(smollm2_dir: Path, tmp_path: Path) -> None:
    checkpoint = make(smollm2_dir, tmp_path / "1b", layers=16)
    weights = (checkpoint / "model.safetensors").stat().st_size
    assert weights > 2.4e9
    report, peak = build(checkpoint, tmp_path / "1b.engine")
    print(f"peak {peak / 1e6:.0f} MB for {weights / 1e6:.0f} MB of weights")
    assert peak < 1.5e9
    reported = report["peak_memory_bytes"]
    assert isinstance(reported, int) and abs(reported - peak) < 0.05 * peak


@pytest.mark.full
def test_the_synthetic_checkpoint_is_the_same_for_the_same_seed(
    smollm2_dir: Path, tmp_path: Path
) -> None:
    one, two, other = (
        (make(smollm2_dir, tmp_path / name, 1, seed) / "model.safetensors").read_bytes()
        for name, seed in (("one", 5), ("two", 5), ("other", 6))
    )
    assert one == two and one != other
