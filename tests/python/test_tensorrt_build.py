"""`build-engine --target tensorrt-rtx`: what is refused, what the file holds, who loads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tensorrt import needs_rtx
from tiny_models import TinyConfig, make_checkpoint

from slipstream.builder import cli, inspect, native
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.reader import EngineReader
from slipstream.builder.manifest import make_manifest
from slipstream.builder.plan.program import CpuProgram
from slipstream.builder.targets.tensorrt.network import Network
from slipstream.errors import InvalidArgumentError

TINY = TinyConfig(vocab=300, dtype="bfloat16", tied=True, attention_bias=True, tokenizer=True)
RTX = ["--target", "tensorrt-rtx"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "c", TINY)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (RTX, "--target tensorrt-rtx needs --sm"),
        (["--sm", "89"], "--sm 89 chooses GPUs, but --target is cpu; add --target tensorrt-rtx"),
        (["--target", "cpu", "--sm", "89,120"], "--sm 89,120 chooses GPUs"),
        ([*RTX, "--sm", "89,120,89"], "--sm names 89 twice"),
        ([*RTX, "--sm", ""], "whole numbers"),
        ([*RTX, "--sm", "89,"], "whole numbers"),
        ([*RTX, "--sm", "8.9"], "'8.9'; give compute capabilities as whole numbers"),
        ([*RTX, "--sm", "sm_89"], "e.g. --sm 89,120"),
        ([*RTX, "--sm", "-89"], "--sm"),
        ([*RTX, "--sm", "9" * 5000], "whole numbers"),
        ([*RTX, "--sm", "75"], "--sm 75 has no BF16 arithmetic; choose from 80"),
        ([*RTX, "--sm", "89,90"], "--sm 90 is not built by TensorRT for RTX"),
        ([*RTX, "--sm", "0"], "choose from 80, 86, 89, 120, 121"),
        ([*RTX, "--sm", "89", "--weights", "f32"], "use --weights bf16 or --target cpu"),
        ([*RTX, "--sm", "89", "--kv-cache", "f16"], "use --kv-cache bf16 or --target cpu"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_refused_before_any_work(
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
    dry: bool,
) -> None:
    # Whatever is refused here is refused whether or not TensorRT is installed.
    monkeypatch.setitem(sys.modules, "tensorrt_rtx_bindings", None)
    output = ["--dry-run"] if dry else ["-o", str(tmp_path / "m.engine")]
    assert cli.main([str(checkpoint), *output, *arguments]) == 2
    message = capsys.readouterr().err
    assert says in message and len(message) < 2000
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_missing_bindings_are_found_before_any_work(
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx_bindings", None)
    for output in (["-o", str(tmp_path / "m.engine")], ["--dry-run"]):
        assert cli.main([str(checkpoint), *output, *RTX, "--sm", "89"]) == 2
        captured = capsys.readouterr()
        assert "pip install 'slipstream[tensorrt-rtx]'" in captured.err
        assert not captured.out
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("sm", ["89", [89.0], [True], [None], [89, 89], [90], [], None])
def test_bad_values_of_sm_in_a_configuration(sm: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="--sm"):
        BuildConfig(target="tensorrt-rtx", sm=sm)


def test_a_configuration_loads_neither_numpy_nor_the_bindings() -> None:
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['tensorrt_rtx_bindings'] = None;"
        "from slipstream.builder.config import BuildConfig;"
        "assert BuildConfig(target='tensorrt-rtx', sm=[89, 120]).sm == (89, 120)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def manifest_with(targets: list[dict[str, Any]], plan_hash: str) -> dict[str, Any]:
    names = ["plan.cpu", *(s["section"] for t in targets for s in t.get("segments", []))]
    sections = [{"name": n, "offset": 0, "size": 1, "hash": "0" * 32} for n in names]
    for section in sections[1:]:
        section["hash"] = plan_hash * 32
    return make_manifest(
        model={},
        config={},
        limits={},
        quantization={},
        program=CpuProgram(plan_json={}, tensors=[], kv_groups=[], memory={}),
        targets=targets,
        tokenizer={},
        sections=sections,
        tensors=[],
    )


def gpu_target(sm: int, version: str = "1", measured: int = 5) -> dict[str, Any]:
    section = {"section": f"plan.tensorrt-rtx.sm{sm}.0", "activation_bytes": measured}
    return {
        "name": "tensorrt-rtx",
        "sm": sm,
        "provider_version": version,
        "segments": [section],
        "duplicated_weight_bytes": measured,
    }


def test_build_id_depends_on_the_request_and_not_on_the_bytes_of_gpu_plans() -> None:
    cpu = {"name": "cpu", "section": "plan.cpu"}
    base = manifest_with([cpu, gpu_target(89)], "a")["build_id"]
    assert manifest_with([cpu, gpu_target(89, measured=6)], "b")["build_id"] == base
    assert manifest_with([cpu, gpu_target(80)], "a")["build_id"] != base
    assert manifest_with([cpu, gpu_target(89, version="2")], "a")["build_id"] != base
    assert manifest_with([cpu], "a")["build_id"] != base


@needs_rtx
def test_a_model_is_built_for_two_gpus_and_still_runs_on_the_cpu(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.engine"
    assert cli.main([str(checkpoint), "-o", str(out), *RTX, "--sm", "89,120"]) == 0
    log = capsys.readouterr().out
    assert "tensorrt-rtx sm_89: 3 plans" in log and "tensorrt-rtx sm_120: 3 plans" in log
    assert "built, not run" in log
    with EngineReader(out) as engine:
        engine.verify_full()
        manifest = engine.manifest
        cpu, *gpus = manifest["targets"]
        assert cpu == {"name": "cpu", "section": "plan.cpu"}
        assert manifest["config"]["requested"]["sm"] == [89, 120]
        embedding = 300 * 40 * 2
        for gpu, sm in zip(gpus, (89, 120), strict=True):
            assert (gpu["name"], gpu["sm"], gpu["strategy"]) == ("tensorrt-rtx", sm, "segmented")
            assert gpu["duplicated_weight_bytes"] > 2 * embedding  # Tied, so in two plans.
            assert [s["attention_layer"] for s in gpu["segments"]] == [0, 1, -1]
            for index, segment in enumerate(gpu["segments"]):
                assert segment["section"] == f"plan.tensorrt-rtx.sm{sm}.{index}"
                plan = engine.section(segment["section"])
                assert plan[:4] == b"vtrt"
                assert int.from_bytes(plan[16:24], "little") == len(plan)
        assert len({s["section"] for g in gpus for s in g["segments"]}) == 6
        plain = build(checkpoint, tmp_path / "cpu.engine")
        with EngineReader(plain.path) as other:
            for name in ("plan.cpu", "graph", "weights"):
                assert engine.section(name) == other.section(name)
    assert inspect.main([str(out)]) == 0
    text = capsys.readouterr().out
    for sm in (89, 120):
        line = next(
            x for x in text.splitlines() if x.startswith(f"  tensorrt-rtx sm_{sm}: 3 plans")
        )
        assert "copies of weights" in line and line.endswith("built, not run")
    if native.available():
        from slipstream import LLM, SamplingParams

        tokens = []
        for path in (out, plain.path):
            with LLM(path, threads=1, kv_memory="8M") as llm:
                params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
                tokens.append(llm.generate("the", params)[0].outputs[0].token_ids)
        assert tokens[0] == tokens[1] and len(tokens[0]) == 8


@needs_rtx
def test_a_dry_run_tells_of_the_second_copy(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([str(checkpoint), "--dry-run", "--json", *RTX, "--sm", "89"]) == 0
    facts = json.loads(capsys.readouterr().out)
    plans = facts["extra_plans"]
    assert plans["sm"] == [89] and plans["bytes"] > plans["weights_bytes"] > 0
    report = build(checkpoint, tmp_path / "m.engine", BuildConfig(target="tensorrt-rtx", sm=(89,)))
    assert report.file_bytes <= facts["file_bytes"]
    assert cli.main([str(checkpoint), "--dry-run", *RTX, "--sm", "89"]) == 0
    assert "copies of the weights" in capsys.readouterr().out


@needs_rtx
def test_a_plan_that_cannot_be_built_leaves_nothing(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def silu(self: Network, x: Any) -> Any:
        # The row has one column too many: TensorRT refuses the sum.
        return self.add(x, self.weight(np.zeros((1, 57), np.uint16)))

    monkeypatch.setattr(Network, "silu", silu)
    out = tmp_path / "m.engine"
    assert cli.main([str(checkpoint), "-o", str(out), *RTX, "--sm", "89"]) == 1
    assert "sm_89" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
