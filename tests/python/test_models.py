"""Configs to specs: both spellings, defaults, every refusal by name, and checkpoint contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import LLAMA3_ROPE, TinyConfig, config_json, random_config

from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.models import (
    architectures,
    build_graph,
    check_tensors,
    expected_tensors,
    parse_config,
)
from slipstream.errors import SlipstreamError


def config(**changes: Any) -> dict[str, Any]:
    """The default tiny config with keys set, or removed where the value is `...`."""
    base = config_json(TinyConfig())
    for key, value in changes.items():
        if value is ...:
            base.pop(key, None)
        else:
            base[key] = value
    return base


@pytest.mark.parametrize("seed", range(12))
def test_both_spellings_give_one_spec(seed: int) -> None:
    tiny = random_config(seed)
    specs = [
        parse_config(config_json(TinyConfig(**{**tiny.__dict__, "spelling": spelling})))
        for spelling in (4, 5)
    ]
    assert specs[0] == specs[1]
    assert specs[0].checkpoint_dtype == "f32"
    assert specs[0].rope.kind == ("llama3" if tiny.llama3_rope else "default")


def test_values_arrive() -> None:
    spec = parse_config(config(head_dim=16, eos_token_id=[2, 5, 999], bos_token_id=None))
    assert (spec.hidden_size, spec.num_heads, spec.num_kv_heads, spec.head_dim) == (40, 4, 2, 16)
    assert spec.eos_token_ids == (2, 5) and spec.bos_token_id == -1
    assert spec.windows == (0, 0) and spec.norm_eps == 1e-5 and spec.rope.rotary_dim == 16


def test_defaults_of_absent_keys() -> None:
    absent = dict.fromkeys(
        (
            "rms_norm_eps",
            "hidden_act",
            "tie_word_embeddings",
            "rope_theta",
            "rope_scaling",
            "max_position_embeddings",
            "num_key_value_heads",
            "attention_bias",
            "mlp_bias",
            "eos_token_id",
        ),
        ...,
    )
    spec = parse_config(config(**absent))
    assert spec.norm_eps == 1e-6 and spec.activation == "silu" and not spec.tied_embeddings
    assert spec.rope.theta == 10000.0 and spec.max_position_embeddings == 2048
    assert spec.num_kv_heads == spec.num_heads == 4 and spec.eos_token_ids == ()


def test_windows_of_the_families() -> None:
    mistral = config_json(TinyConfig(architecture="MistralForCausalLM", window=7))
    assert parse_config(mistral).windows == (7, 7)
    assert parse_config({**mistral, "sliding_window": None}).windows == (0, 0)
    del mistral["sliding_window"]
    assert parse_config(mistral).windows == (4096, 4096)
    qwen = config_json(
        TinyConfig(architecture="Qwen2ForCausalLM", layers=3, window=7, max_window_layers=2)
    )
    assert parse_config(qwen).windows == (0, 0, 7)
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    assert parse_config({**qwen, "layer_types": types}).windows == (7, 0, 7)
    assert parse_config({**qwen, "use_sliding_window": False}).windows == (0, 0, 0)
    spec = parse_config(qwen)
    assert (spec.qkv_bias, spec.o_bias, spec.mlp_bias) == (True, False, False)


def test_inverse_frequencies() -> None:
    spec = parse_config(config(head_dim=16, rope_theta=500000.0))
    exact = 500000.0 ** (-np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(spec.rope.inv_freq, exact, rtol=3e-7)
    assert all(float(np.float32(v)) == v for v in spec.rope.inv_freq)
    scaled = parse_config(config(head_dim=64, rope_scaling=LLAMA3_ROPE))
    exact = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    wave = 2 * np.pi / exact
    smooth = (32 / wave - 1) / (4 - 1)
    want = np.where(wave > 32, exact / 8, exact)
    medium = (wave >= 8) & (wave <= 32)
    want = np.where(medium, (1 - smooth) * exact / 8 + smooth * exact, want)
    assert medium.any() and (wave > 32).any() and (wave < 8).any()
    np.testing.assert_allclose(scaled.rope.inv_freq, want, rtol=1e-6)


def test_llama3_original_length_falls_back() -> None:
    rope = {k: v for k, v in LLAMA3_ROPE.items() if k != "original_max_position_embeddings"}
    explicit = {**rope, "original_max_position_embeddings": 256}
    spec = parse_config(config(rope_scaling=rope))
    assert spec == parse_config(config(rope_scaling=explicit))
    outer = config(rope_scaling=LLAMA3_ROPE, original_max_position_embeddings=256)
    assert parse_config(outer) == spec


def test_old_rope_key_spelling() -> None:
    rope = {**LLAMA3_ROPE, "type": "llama3"}
    del rope["rope_type"]
    assert parse_config(config(rope_scaling=rope)) == parse_config(config(rope_scaling=LLAMA3_ROPE))


@pytest.mark.parametrize(
    "changes",
    [
        {"pretraining_tp": 1},
        {"_name_or_path": "x/y"},
        {"is_llama_config": True, "rope_interleaved": False},
        {"partial_rotary_factor": 1.0},
        {"quantization_config": None},
        {"use_mrope": False, "transformers.js_config": {"dtype": "q4"}},
        {"something_new": None},
        {"temperature": 0.7, "top_p": 0.9},
        {"layer_types": ["full_attention", "full_attention"]},
    ],
)
def test_harmless_keys_pass(changes: dict[str, Any]) -> None:
    assert parse_config(config(**changes)) == parse_config(config())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"something_new": 3}, ["'something_new' = 3", "not known"]),
        ({"quantization_config": {"bits": 4}}, ["'quantization_config'", "f32, f16 or bf16"]),
        ({"auto_map": {"AutoModel": "x"}}, ["'auto_map'", "their own code"]),
        ({"partial_rotary_factor": True}, ["'partial_rotary_factor' = True"]),
        ({"rope_interleaved": True}, ["'rope_interleaved' = True", "supported: False"]),
        ({"partial_rotary_factor": 0.5}, ["'partial_rotary_factor' = 0.5", "supported: 1.0"]),
        ({"final_logit_softcapping": 30.0}, ["'final_logit_softcapping'", "supported: null"]),
        (
            {"hidden_act": "gelu"},
            ["'hidden_act' = 'gelu'", "supported: gelu_pytorch_tanh, silu"],
        ),
        (
            {"rope_scaling": {"rope_type": "axial", "factor": 4.0}},
            ["'rope_scaling.rope_type' = 'axial'", "supported: default, linear, dynamic, yarn"],
        ),
        (
            {"rope_scaling": {"type": "su", "factor": 4.0}},
            ["'rope_scaling.type' = 'su'", "longrope, llama3"],
        ),
        (
            {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2]}},
            ["rope_parameters", "'mrope_section'"],
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
            ["'rope_parameters.full_attention'", "one RoPE for all layers"],
        ),
        (
            {"rope_scaling": {**LLAMA3_ROPE, "partial_rotary_factor": 0.5}},
            ["rope_scaling", "'partial_rotary_factor' = 0.5"],
        ),
        ({"layer_types": ["full_attention", "linear_attention"]}, ["'layer_types[1]'"]),
        ({"sliding_window": 8}, ["'sliding_window' = 8"]),
        ({"architectures": ["GPT2LMHeadModel"]}, ["'GPT2LMHeadModel' is unknown", "Mistral"]),
    ],
)
def test_what_would_change_the_computation_is_refused(
    changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(UnsupportedError) as error:
        parse_config(config(**changes))
    for word in (*words, "config.json"):
        assert word in str(error.value)
    assert isinstance(error.value, SlipstreamError) and error.value.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": ...}, ["'hidden_size' is missing"]),
        ({"hidden_size": -40}, ["'hidden_size' = -40 is outside of 2 to 65536"]),
        ({"hidden_size": 40.0}, ["'hidden_size' = 40.0 must be an integer"]),
        ({"hidden_size": True}, ["'hidden_size' = True must be an integer"]),
        ({"hidden_size": "40"}, ["'hidden_size' = '40' must be an integer"]),
        ({"hidden_size": 41}, ["'hidden_size' = 41 is not a multiple", "set 'head_dim'"]),
        ({"vocab_size": 1 << 40}, ["'vocab_size'", "is outside of 2 to 4194304"]),
        ({"num_hidden_layers": 0}, ["'num_hidden_layers' = 0"]),
        ({"num_hidden_layers": 10**9}, ["'num_hidden_layers'", "1024"]),
        ({"num_attention_heads": 5}, ["is not a multiple of 'num_key_value_heads' = 2"]),
        ({"num_key_value_heads": 0}, ["'num_key_value_heads' = 0"]),
        ({"head_dim": 7}, ["'head_dim' = 7 is odd"]),
        ({"head_dim": 4096}, ["'head_dim' = 4096 is outside of 2 to 1024"]),
        ({"rms_norm_eps": -1e-5}, ["'rms_norm_eps' = -1e-05"]),
        ({"rms_norm_eps": float("nan")}, ["'rms_norm_eps' = nan"]),
        ({"rope_theta": float("inf")}, ["'rope_theta' = inf"]),
        ({"rope_theta": 10**400}, ["'rope_theta' = 1000", "is outside of 1 to 1e+12"]),
        ({"rope_theta": "1e4"}, ["'rope_theta' = '1e4' must be a number"]),
        ({"rope_theta": 0.999}, ["'rope_theta' = 0.999 is outside of 1 to 1e+12"]),
        ({"rope_scaling": 0}, ["'rope_scaling' = 0 must be an object or null"]),
        ({"rope_scaling": ""}, ["'rope_scaling' = '' must be an object or null"]),
        ({"rope_scaling": False}, ["'rope_scaling' = False must be an object or null"]),
        ({"rope_parameters": []}, ["'rope_parameters' = [] must be an object or null"]),
        ({"rope_scaling": [1]}, ["'rope_scaling' = [1] must be an object"]),
        ({"rope_scaling": {"rope_type": "llama3"}}, ["rope_scaling: key 'factor' is missing"]),
        (
            {"rope_scaling": {**LLAMA3_ROPE, "high_freq_factor": 1.0}},
            ["'high_freq_factor' = 1.0 must be above 'low_freq_factor' = 1.0"],
        ),
        ({"tie_word_embeddings": "no"}, ["'tie_word_embeddings' = 'no' must be true or false"]),
        ({"eos_token_id": "x"}, ["'eos_token_id' = 'x' must be a token id"]),
        ({"eos_token_id": [1, None]}, ["'eos_token_id'"]),
        ({"layer_types": ["full_attention"]}, ["'layer_types'", "list of 2 names"]),
        ({"layer_types": ["sliding_attention"] * 2}, ["sets no sliding window"]),
        ({"architectures": ...}, ["'architectures' = None", "LlamaForCausalLM"]),
        ({"architectures": "LlamaForCausalLM"}, ["expected a list with one name"]),
    ],
)
def test_absurd_values_name_field_value_and_limit(
    changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        parse_config(config(**changes))
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_a_config_that_is_not_an_object(value: Any) -> None:
    with pytest.raises(InputError, match="expected an object"):
        parse_config(value)


def test_known_architectures() -> None:
    assert architectures() == [
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "GemmaForCausalLM",
        "GraniteForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
    ]


def shapes(tiny: TinyConfig) -> dict[str, tuple[int, ...]]:
    return dict(expected_tensors(parse_config(config_json(tiny))))


def test_a_fitting_checkpoint_passes() -> None:
    for seed in range(10):
        tiny = random_config(seed)
        spec = parse_config(config_json(tiny))
        report = check_tensors(spec, shapes(tiny))
        assert report.ignored == () and report.must_equal == ()
        constants = build_graph(spec).constants
        named = {c.checkpoint_name for c in constants.values() if c.checkpoint_name}
        assert named == set(expected_tensors(spec))


def test_leftovers_and_a_repeated_tied_head_are_ignored() -> None:
    tiny = TinyConfig(tied=True)
    found = shapes(tiny)
    found["model.rotary_emb.inv_freq"] = (5,)
    found["model.layers.1.self_attn.rotary_emb.inv_freq"] = (5,)
    found["lm_head.weight"] = (131, 40)
    report = check_tensors(parse_config(config_json(tiny)), found)
    assert len(report.ignored) == 3
    assert report.must_equal == (("lm_head.weight", "model.embed_tokens.weight"),)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("model.layers.0.mlp.up_proj.weight", None, "is missing, expected with shape [56, 40]"),
        ("lm_head.weight", None, "set 'tie_word_embeddings': true"),
        ("model.norm.weight", (41,), "has shape [41], expected [40] from config.json"),
        ("model.layers.2.mlp.up_proj.weight", (56, 40), "'num_hidden_layers' is 2"),
        ("model.layers.0.self_attn.q_proj.bias", (40,), "set 'attention_bias' or 'mlp_bias'"),
        ("model.layers.0.self_attn.q_proj.qweight", (40,), "quantized checkpoints"),
        ("model.layers.0.self_attn.q_norm.weight", (10,), "does not read it"),
    ],
)
def test_what_does_not_fit_is_listed(name: str, shape: tuple[int, ...] | None, words: str) -> None:
    found = shapes(TinyConfig())
    if shape is None:
        del found[name]
    else:
        found[name] = shape
    with pytest.raises(InputError) as error:
        check_tensors(parse_config(config_json(TinyConfig())), found)
    assert name in str(error.value) and words in str(error.value)
    assert "1 problem:" in str(error.value)


def test_many_problems_stay_readable() -> None:
    with pytest.raises(InputError) as error:
        check_tensors(parse_config(config_json(TinyConfig())), {})
    assert "21 problems" in str(error.value) and "and 13 more" in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [{key: "x" * 100_000} for key in (*sorted(config()), "head_dim", "layer_types", "unknown")]
    + [
        {"rope_scaling": {"rope_type": "x" * 100_000}},
        {"rope_scaling": {"rope_type": "linear", "factor": "x" * 100_000}},
        {"rope_parameters": {"rope_type": "default", "factor": "x" * 100_000}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_messages_stay_short_whatever_the_value(changes: dict[str, Any]) -> None:
    try:
        parse_config(config(**changes))
    except SlipstreamError as error:
        assert len(str(error)) < 500
