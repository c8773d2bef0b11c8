"""RoPE kinds: frequencies against the functions of transformers, logits against its models forced
to the same frequencies, and what a fixed length means for a build."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import TinyConfig, config_json, make_checkpoint, make_tensors, write_tokenizer

from slipstream.builder import inspect, native
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.reader import EngineReader
from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.ir.interpret import Interpreter
from slipstream.builder.models import ModelSpec, build_graph, fix_length, parse_config

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from make_reference_logits import reference_logits, tokens_of

TOLERANCE = 1e-4
LIVE = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_torch = pytest.mark.skipif(not LIVE, reason="torch and transformers are not installed")
needs_native = pytest.mark.skipif(not native.available(), reason="needs the C++ library")

SHORT = [1.0, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0, 3.5]
LONG = [1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 20.0, 31.0]
KINDS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn-mscale": {
        "rope_type": "yarn",
        "factor": 40.0,
        "mscale": 0.707,
        "mscale_all_dim": 1.3,
        "beta_fast": 16,
        "beta_slow": 2,
        "original_max_position_embeddings": 32,
    },
    "yarn-exact": {
        "rope_type": "yarn",
        "factor": 8.0,
        "truncate": False,
        "attention_factor": 0.9,
        "original_max_position_embeddings": 32,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": SHORT,
        "long_factor": LONG,
        "original_max_position_embeddings": 32,
    },
}


def tiny_of(name: str, **changes: Any) -> TinyConfig:
    """Heads of 16 elements, a context of 128."""
    return replace(
        TinyConfig(seed=5, rope=KINDS[name], head_dim=16, max_positions=128, rope_theta=5000.5),
        **changes,
    )


def spec_of(tiny: TinyConfig, max_seq_len: int) -> ModelSpec:
    return fix_length(parse_config(config_json(tiny)), max_seq_len)[0]


LENGTHS = (16, 128, 300)
CASES = [
    (name, length)
    for name in KINDS
    for length in (LENGTHS if name in ("dynamic", "longrope") else (128,))
]


@needs_torch
@pytest.mark.parametrize(("name", "length"), CASES)
@pytest.mark.parametrize("spelling", [4, 5])
def test_frequencies_are_those_of_transformers(name: str, length: int, spelling: int) -> None:
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    tiny = tiny_of(name, spelling=spelling)
    ours = spec_of(tiny, length).rope
    config = AutoConfig.for_model(**config_json(tiny))
    kind = KINDS[name]["rope_type"]
    theirs, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    assert ours.kind == kind and ours.rotary_dim == 16
    assert ours.attention_factor == pytest.approx(factor, rel=1e-12)
    # Torch takes f32 powers: the last bit may differ before the other steps.
    np.testing.assert_allclose(ours.inv_freq, theirs.numpy(), rtol=4e-7)
    assert all(float(np.float32(v)) == v for v in ours.inv_freq)


@needs_torch
@pytest.mark.parametrize(("name", "length"), CASES)
def test_interpreter_parity(name: str, length: int) -> None:
    tiny = tiny_of(name)
    spec = spec_of(tiny, length)
    tokens = tokens_of(tiny, 100)
    reference = reference_logits(tiny, tokens, spec.rope)
    logits = Interpreter(build_graph(spec), make_tensors(tiny).__getitem__).run([tokens])[0]
    assert np.abs(logits - reference).max() < TOLERANCE * np.ptp(reference)


@needs_torch
@needs_native
@pytest.mark.parametrize(("name", "length"), CASES)
def test_runtime_parity(name: str, length: int, tmp_path: Path) -> None:
    tiny = tiny_of(name)
    if length > 128 and KINDS[name]["rope_type"] != "dynamic":
        length = 128
    tokens = tokens_of(tiny, min(length, 100))
    reference = reference_logits(tiny, tokens, spec_of(tiny, length).rope)
    checkpoint = make_checkpoint(tmp_path / "checkpoint", tiny)
    write_tokenizer(checkpoint, 259)
    config = BuildConfig(weights="f32", kv_cache="f32", max_seq_len=length)
    build(checkpoint, tmp_path / "m.engine", config)
    logits = native.TeacherForcing(tmp_path / "m.engine").logits(tokens, 7)
    assert np.abs(logits - reference).max() < TOLERANCE * np.ptp(reference)


def test_kinds_differ_from_plain_rope() -> None:
    """Parity would not notice kinds that change nothing at these sizes."""
    plain = np.asarray(spec_of(tiny_of("linear", rope=None), 128).rope.inv_freq)
    for name, length in CASES:
        changed = np.abs(np.asarray(spec_of(tiny_of(name), length).rope.inv_freq) / plain - 1)
        fixed = name == "dynamic" and length <= 128
        assert (changed.max() < 1e-6) == fixed, (name, length)


def test_dynamic_may_be_asked_for_more_than_the_trained_length(tmp_path: Path) -> None:
    tiny = tiny_of("dynamic", vocab=300, tokenizer=True)
    make_checkpoint(tmp_path, tiny)
    build(tmp_path, tmp_path / "a.engine", BuildConfig())
    build(tmp_path, tmp_path / "b.engine", BuildConfig(max_seq_len=384))
    with pytest.raises(InputError, match=r"at 384 tokens .*'factor' of its RoPE"):
        build(tmp_path, tmp_path / "c.engine", BuildConfig(max_seq_len=385))
    changes = {}
    for name in "ab":
        with EngineReader(tmp_path / f"{name}.engine") as engine:
            changes[name] = {c["field"]: c for c in engine.manifest["config"]["changes"]}
    assert changes["a"]["max_seq_len"]["to"] == 128
    assert changes["a"]["rope"]["to"] == "dynamic, fixed for 128 tokens"
    assert changes["b"]["rope"]["to"] == "dynamic, fixed for 384 tokens"
    assert "max_seq_len = 384" in changes["b"]["rope"]["reason"]


@pytest.mark.parametrize(("length", "factors"), [(32, "short"), (33, "long")])
def test_longrope_takes_the_factors_of_its_length(
    tmp_path: Path, length: int, factors: str
) -> None:
    make_checkpoint(tmp_path, tiny_of("longrope", vocab=300, tokenizer=True))
    report = build(tmp_path, tmp_path / "m.engine", BuildConfig(max_seq_len=length))
    assert any(f"rope = longrope, {factors} factors: " in line for line in report.log)


def test_kinds_without_a_length_record_nothing() -> None:
    spec = parse_config(config_json(tiny_of("yarn")))
    assert fix_length(spec, 7) == (spec, "")


def test_angles_beyond_the_contract_are_refused() -> None:
    tiny = TinyConfig(rope={"rope_type": "linear", "factor": 0.01}, max_positions=1 << 20)
    spec = parse_config(config_json(tiny))
    assert fix_length(spec, 8192)[1] == ""
    with pytest.raises(UnsupportedError, match="--max-seq-len 10485 or less"):
        fix_length(spec, 10486)


def rope_config(**keys: Any) -> dict[str, Any]:
    return config_json(TinyConfig(rope=keys, head_dim=16, max_positions=128))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rope_type": "linear"}, "key 'factor' is missing"),
        ({"rope_type": "linear", "factor": 0}, "'factor' = 0 is outside"),
        ({"rope_type": "dynamic", "factor": 0.5}, "'factor' = 0.5 is outside of 1 to 10000"),
        ({"rope_type": "yarn", "factor": 2.0, "beta_fast": 1, "beta_slow": 9}, "'beta_fast' = 1"),
        ({"rope_type": "yarn", "factor": 2.0, "truncate": 1}, "must be true or false"),
        ({"rope_type": "yarn", "factor": "4"}, "must be a number"),
        ({"rope_type": "longrope"}, "'short_factor' = None must be a list of 8 numbers"),
        (
            {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG[:7]},
            "'long_factor'",
        ),
        (
            {"rope_type": "longrope", "short_factor": SHORT, "long_factor": [*LONG[:7], 0.0]},
            "'long_factor' = 0.0 holds something else",
        ),
    ],
)
def test_absurd_values_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        parse_config(rope_config(**keys))
    assert words in str(error.value) and "rope_scaling" in str(error.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rope_type": "proportional"}, "supported: default, linear, dynamic, yarn, longrope"),
        ({"rope_type": "linear", "factor": 2.0, "beta_fast": 4}, "'beta_fast' = 4 is not used"),
        ({"rope_type": "dynamic", "factor": 2.0, "partial_rotary_factor": 0.5}, "supported: 1.0"),
    ],
)
def test_keys_of_other_kinds_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        parse_config(rope_config(**keys))
    assert words in str(error.value)


def test_inspect_shows_what_was_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_checkpoint(tmp_path, tiny_of("dynamic", vocab=300, tokenizer=True))
    build(tmp_path, tmp_path / "m.engine", BuildConfig(max_seq_len=200))
    assert inspect.main([str(tmp_path / "m.engine")]) == 0
    shown = "rope = by the length of the sequence -> dynamic, fixed for 200 tokens"
    assert shown in capsys.readouterr().out
