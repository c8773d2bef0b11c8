"""GPU kernels without a GPU: numbers on Triton's interpreter, and cubins that ptxas accepts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.kernels import compile as aot

HERE = Path(__file__).parent
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed (Triton's interpreter runs on torch tensors)",
)


@needs_triton
@needs_torch
def test_paged_decode_attention_on_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, str(HERE / "kernel_interpreter.py"), "0"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == 6
    for result in results:
        # fp16 inputs and fp16 probabilities: 2^-10 relative, with room for the sum. NaN would fail
        # too.
        assert result["error"] < 2e-3, result


@needs_triton
@pytest.mark.parametrize("sm", [89, 90])
def test_cubin(sm: int, tmp_path: Path) -> None:
    cubin = aot.compile_paged_decode_attention(aot.AttentionShape(9, 3, 64), sm)
    assert cubin.image[:4] == b"\x7fELF"
    # e_machine 190 is EM_CUDA.
    assert int.from_bytes(cubin.image[18:20], "little") == 190
    assert cubin.entry.encode() in cubin.image
    assert cubin.arguments[0] == "out_ptr" and cubin.arguments[-1] == "window"
    usage = aot.resource_usage(cubin, tmp_path)
    assert 0 < usage.registers <= 128
    assert usage.local_bytes == 0, "the kernel spills registers"
    assert list(tmp_path.iterdir()) == []


@needs_triton
def test_command_writes_cubins_with_their_launch_facts(tmp_path: Path) -> None:
    args = ["--sm", "89", "--heads", "9", "--kv-heads", "3", "--head-dim", "64"]
    assert aot.main([*args, "-o", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "paged_decode_attention.sm89.json").read_text())
    assert record["sm"] == 89 and record["num_warps"] == 4 and record["shared_bytes"] > 0
    assert (tmp_path / "paged_decode_attention.sm89.cubin").stat().st_size > 1000


def test_bad_shapes_and_targets_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for shape in [(9, 2, 64), (0, 1, 64), (8, 8, 0), (8, 8, 512), (8, 8, 64, "fp64")]:
        with pytest.raises(ValueError, match=r"supports|multiple"):
            aot.AttentionShape(*shape)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="power of two"):
        aot.AttentionShape(8, 8, 64, block_tokens=24)
    with pytest.raises(ValueError, match="choose from 80"):
        aot.compile_paged_decode_attention(aot.AttentionShape(8, 8, 64), 75)
    args = ["--sm", "x", "--heads", "9", "--kv-heads", "3", "--head-dim", "64"]
    assert aot.main([*args, "-o", str(tmp_path)]) == 2
    assert "error:" in capsys.readouterr().err


def test_importing_the_package_needs_no_triton() -> None:
    code = (
        "import sys; sys.modules['triton'] = None; sys.modules['torch'] = None\n"
        "import slipstream.kernels.compile"
    )
    environment = dict(os.environ)
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
