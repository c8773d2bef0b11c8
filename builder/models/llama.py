"""The Llama family: Llama, Mistral (a window on every layer), Qwen2 (biases on q, k and v, windows
on some layers), Qwen3 (norms over the heads of q and k), Phi-3 (a part of each head is rotated,
fused projections in the checkpoint) and Granite (multipliers of embedding, residual, scores and
logits). They share one graph; mostly the configs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.builder.models.config_reader import ConfigReader
from slipstream.builder.models.decoder_config import (
    MAX_LAYERS,
    Variant,
    check_layer_types,
    num_layers,
    parse_decoder,
    window_of,
    windows_of_types,
)
from slipstream.builder.models.rope import RopeRules
from slipstream.builder.models.spec import ModelSpec


def parse_llama(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    attention_bias = reader.boolean("attention_bias", False)
    mlp_bias = reader.boolean("mlp_bias", False)
    layers = num_layers(reader)
    windows = (0,) * layers
    check_layer_types(reader, windows)
    variant = Variant("LlamaForCausalLM", 2048)
    return parse_decoder(reader, variant, windows, attention_bias, attention_bias, mlp_bias)


def parse_mistral(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    layers = num_layers(reader)
    # An absent key means 4096, null means none.
    window = window_of(reader) if reader.has("sliding_window") else 4096
    windows = (window,) * layers
    check_layer_types(reader, windows)
    variant = Variant("MistralForCausalLM", 131072, 8)
    return parse_decoder(reader, variant, windows, False, False, False)


def parse_phi3(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    layers = num_layers(reader)
    windows = (window_of(reader),) * layers
    check_layer_types(reader, windows)
    # "yarn" is what the first files of this family called longrope.
    rope = RopeRules(("default", "longrope"), {"su": "longrope", "yarn": "longrope"}, True, 4096)
    _check_auto_map(reader, "phi3", "Phi3")
    variant = Variant("Phi3ForCausalLM", 4096, eps=1e-5, rope=rope, fused_projections=True)
    return parse_decoder(reader, variant, windows, False, False, False)


def parse_qwen3(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    bias = reader.boolean("attention_bias", False)
    variant = Variant("Qwen3ForCausalLM", 32768, 32, head_dim=128, qk_norm=True)
    return parse_decoder(reader, variant, _qwen_windows(reader), bias, bias, False)


def parse_qwen2(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    windows = _qwen_windows(reader)
    return parse_decoder(
        reader, Variant("Qwen2ForCausalLM", 32768, 32), windows, True, False, False
    )


def parse_granite(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    attention_bias = reader.boolean("attention_bias", False)
    mlp_bias = reader.boolean("mlp_bias", False)
    windows = (0,) * num_layers(reader)
    check_layer_types(reader, windows)
    extras = {
        "embedding_scale": reader.number("embedding_multiplier", 1e-6, 1e6, 1.0),
        "residual_scale": reader.number("residual_multiplier", 1e-6, 1e6, 1.0),
        "attention_scale": reader.number("attention_multiplier", 1e-6, 1e6, 1.0),
        # The config's number divides.
        "logit_scale": 1.0 / reader.number("logits_scaling", 1e-6, 1e6, 1.0),
    }
    variant = Variant("GraniteForCausalLM", 2048, extras=extras)
    return parse_decoder(reader, variant, windows, attention_bias, attention_bias, mlp_bias)


def _qwen_windows(reader: ConfigReader) -> tuple[int, ...]:
    layers = num_layers(reader)
    used = reader.boolean("use_sliding_window", False)
    window = window_of(reader) if reader.has("sliding_window") else 4096
    first = reader.integer("max_window_layers", 0, MAX_LAYERS, 28)
    if not used:
        window = 0
    windows = tuple(window if i >= first else 0 for i in range(layers))
    types = reader.raw("layer_types")
    if types is not None:
        windows = windows_of_types(reader, types, layers, window)
    return windows


def _check_auto_map(reader: ConfigReader, module: str, name: str) -> None:
    """Files from before an architecture was part of transformers name the code that became it."""
    stock = {
        "AutoConfig": f"configuration_{module}.{name}Config",
        "AutoModelForCausalLM": f"modeling_{module}.{name}ForCausalLM",
        "AutoTokenizer": "Xenova/gpt-4o",
    }
    value = reader.peek("auto_map")
    if isinstance(value, dict) and all(stock.get(k) == v for k, v in value.items()):
        reader.raw("auto_map")
