"""The Gemma family: norms that store gain - 1, embeddings scaled by sqrt(hidden_size), GELU.

Gemma 2 adds norms after attention and MLP, soft caps and windows on every other layer; Gemma 3
norms the heads of q and k, has five layers with a window for each without, and a RoPE for either
kind.

The reference implementation rounds the embeddings' scale to the type it computes in. That type is
f32 here, whatever type the checkpoint stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.builder.errors import UnsupportedError
from slipstream.builder.models.config_reader import ConfigReader, short
from slipstream.builder.models.decoder_config import (
    MAX_HIDDEN,
    MAX_LAYERS,
    Variant,
    num_layers,
    parse_decoder,
    window_of,
    windows_of_types,
)
from slipstream.builder.models.spec import ModelSpec

_ACTIVATION = "gelu_pytorch_tanh"
_HEAD_DIM = 256


def parse_gemma(config: Mapping[str, Any]) -> ModelSpec:
    # The first files say "gelu" and mean its approximation, as the reference implementation knows.
    if config.get("hidden_act") == "gelu":
        config = {**config, "hidden_act": _ACTIVATION}
    reader = ConfigReader(config)
    _same_activation(reader, "hidden_activation", "hidden_act")
    windows = (0,) * num_layers(reader)
    types = reader.raw("layer_types")
    if types is not None:
        windows = windows_of_types(reader, types, len(windows), 0)
    variant = Variant(
        "GemmaForCausalLM",
        8192,
        16,
        head_dim=_HEAD_DIM,
        tied_embeddings=True,
        activation=_ACTIVATION,
        extras=_common(reader),
    )
    bias = _common_refusals(reader)
    return parse_decoder(reader, variant, windows, bias, bias, False)


def parse_gemma2(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    _same_activation(reader, "hidden_act", "hidden_activation")
    windows = _windows(reader, 2)
    extras = {
        **_common(reader),
        "post_norms": True,
        "attention_scale": _attention_scale(reader),
        "attention_softcap": _softcap(reader, "attn_logit_softcapping", 50.0),
        "logit_softcap": _softcap(reader, "final_logit_softcapping", 30.0),
    }
    variant = Variant(
        "Gemma2ForCausalLM",
        8192,
        4,
        head_dim=_HEAD_DIM,
        tied_embeddings=True,
        activation_key="hidden_activation",
        activation=_ACTIVATION,
        extras=extras,
    )
    bias = _common_refusals(reader)
    return parse_decoder(reader, variant, windows, bias, bias, False)


def parse_gemma3(config: Mapping[str, Any]) -> ModelSpec:
    reader = ConfigReader(config)
    _same_activation(reader, "hidden_act", "hidden_activation")
    windows = _windows(reader, reader.integer("sliding_window_pattern", 1, MAX_LAYERS, 6))
    # What a config was made from; `layer_types` beside it says the same.
    reader.raw("_sliding_window_pattern")
    extras = {
        **_common(reader),
        "post_norms": True,
        "attention_scale": _attention_scale(reader),
        "logit_softcap": _softcap(reader, "final_logit_softcapping", None),
    }
    variant = Variant(
        "Gemma3ForCausalLM",
        131072,
        4,
        head_dim=_HEAD_DIM,
        qk_norm=True,
        tied_embeddings=True,
        layer_thetas=(1e6, 1e4),
        activation_key="hidden_activation",
        activation=_ACTIVATION,
        extras=extras,
    )
    bias = _common_refusals(reader)
    return parse_decoder(reader, variant, windows, bias, bias, False)


def _common(reader: ConfigReader) -> dict[str, Any]:
    hidden = reader.integer("hidden_size", 2, MAX_HIDDEN)
    return {"norm_offset": 1.0, "embedding_scale": float(np.float32(hidden**0.5))}


def _common_refusals(reader: ConfigReader) -> bool:
    """Whether q, k, v and o have biases. Refuses what is not causal."""
    if reader.boolean("use_bidirectional_attention", False):
        raise UnsupportedError(
            f"{reader.where}: config key 'use_bidirectional_attention' = True changes the "
            "computation and is not supported; supported: False"
        )
    return reader.boolean("attention_bias", False)


def _same_activation(reader: ConfigReader, unused: str, used: str) -> None:
    """Some files name the activation twice; the second name must not say something else. For
    "gelu" see `parse_gemma`."""
    value, read = reader.raw(unused), reader.peek(used) or _ACTIVATION
    if value not in (None, read) and not (value == "gelu" and read == _ACTIVATION):
        raise UnsupportedError(
            f"{reader.where}: config key '{unused}' = {short(value)} differs from '{used}', which "
            "the architecture reads; remove the one that is wrong"
        )


def _windows(reader: ConfigReader, pattern: int) -> tuple[int, ...]:
    """Every `pattern`-th layer sees everything, unless the config lists the kinds of its layers."""
    layers = num_layers(reader)
    window = window_of(reader) if reader.has("sliding_window") else 4096
    types = reader.raw("layer_types")
    if types is None:
        kinds = ("full_attention", "sliding_attention")
        types = [kinds[(i + 1) % pattern != 0] for i in range(layers)]
    return windows_of_types(reader, types, layers, window)


def _attention_scale(reader: ConfigReader) -> float:
    return float(reader.number("query_pre_attn_scalar", 1e-3, 1e9, 256.0) ** -0.5)


def _softcap(reader: ConfigReader, key: str, default: float | None) -> float:
    """0 for none; null means none, an absent key the default."""
    value = reader.raw(key) if reader.has(key) else default
    if value is None:
        return 0.0
    return reader.number(key, 1e-3, 1e5, default)
