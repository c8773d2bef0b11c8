"""A model's generation_config.json, and what it asks for beyond what this version applies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slipstream._shown import excerpt
from slipstream.errors import CorruptFileError

if TYPE_CHECKING:
    from slipstream import _native

__all__ = ["not_applied", "read_generation_config"]

# Honoured by `SamplingParams.from_generation_config`, by the engine (the ids), or about something
# that does not change which tokens come (caches, the outputs of transformers, where it came from).
_HONOURED = {
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "bad_words_ids",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "use_cache",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "continuous_batching_config",
    "disable_compile",
    "low_memory",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "remove_invalid_values",
    "renormalize_logits",
    "return_dict_in_generate",
    "transformers_version",
    # Without assisted decoding these do nothing.
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "target_lookbehind",
    # Without beams these do nothing; num_beams itself is told.
    "diversity_penalty",
    "early_stopping",
    "length_penalty",
    "num_beam_groups",
    "num_return_sequences",
}

# Values that ask for nothing, beside None, False, 0 and empty ones.
_NEUTRAL: dict[str, float] = {
    "encoder_repetition_penalty": 1,
    "guidance_scale": 1,
    "max_length": 20,  # what transformers writes when nobody chose a length
    "num_beams": 1,
    "top_h": 1,
}


def read_generation_config(engine: _native.Engine) -> dict[str, Any]:
    """generation_config.json of an engine. CorruptFileError if it is no JSON object."""
    try:
        config = json.loads(engine.generation_config_json or "{}")
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise CorruptFileError(
            f"{engine.path}: its generation_config.json is not a JSON object. Build the engine "
            "again from a correct checkpoint."
        )
    return config


def not_applied(config: Mapping[str, Any]) -> list[str]:
    """The settings that would change the answer and are not applied, as `name = value`, sorted.

    Keys that nobody knows are among them: better told for nothing than ignored in silence. Those
    with a leading underscore are notes of transformers to itself.
    """
    return sorted(
        f"{name} = {_shown(value)}"
        for name, value in config.items()
        if value
        and name not in _HONOURED
        and not name.startswith("_")
        and not (isinstance(value, (int, float)) and value == _NEUTRAL.get(name))
    )


def _shown(value: object) -> str:
    return excerpt(json.dumps(value, ensure_ascii=True))
