"""Architectures by the name that config.json gives, each with its parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.models import gemma, llama
from slipstream.builder.models.config_reader import short
from slipstream.builder.models.spec import ModelSpec

_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], ModelSpec]] = {
    "Gemma2ForCausalLM": gemma.parse_gemma2,
    "Gemma3ForCausalLM": gemma.parse_gemma3,
    "GemmaForCausalLM": gemma.parse_gemma,
    "GraniteForCausalLM": llama.parse_granite,
    "LlamaForCausalLM": llama.parse_llama,
    "MistralForCausalLM": llama.parse_mistral,
    "Phi3ForCausalLM": llama.parse_phi3,
    "Qwen2ForCausalLM": llama.parse_qwen2,
    "Qwen3ForCausalLM": llama.parse_qwen3,
}


def architectures() -> list[str]:
    """The architectures that can be built, sorted."""
    return sorted(_PARSERS)


def parse_config(config: Any) -> ModelSpec:
    """config.json as a JSON value -> ModelSpec. InputError or UnsupportedError otherwise."""
    if not isinstance(config, dict):
        raise InputError(
            f"config.json: holds {short(config)}, expected an object; copy the checkpoint's "
            "original file"
        )
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise InputError(
            f"config.json: 'architectures' = {short(names)}, expected a list with one name; known: "
            f"{', '.join(architectures())}"
        )
    parser = _PARSERS.get(names[0])
    if parser is None:
        raise UnsupportedError(
            f"config.json: architecture {short(names[0])} is unknown; known: "
            f"{', '.join(architectures())}"
        )
    return parser(config)
