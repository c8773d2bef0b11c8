"""Typed reading of a config.json: every key is used, known to be harmless, or refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from slipstream.builder.errors import InputError, UnsupportedError

# Keys that never change the logits of inference with this program.
_IRRELEVANT = """
    architectures model_type transformers_version torch_dtype dtype use_cache initializer_range
    attention_dropout hidden_dropout resid_pdrop embd_pdrop dropout pretraining_tp
    bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id
    _name_or_path name_or_path _commit_hash _attn_implementation attn_implementation
    _attn_implementation_autoset _attn_implementation_internal _experts_implementation
    output_attentions output_hidden_states output_scores output_past return_dict
    return_dict_in_generate use_return_dict torchscript gradient_checkpointing
    _flash_attn_2_enabled use_flash_attn problem_type id2label label2id num_labels
    finetuning_task tokenizer_class prefix task_specific_params custom_pipelines
    is_decoder is_llama_config tf_legacy_loss use_bfloat16 tie_encoder_decoder
    chunk_size_feed_forward
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p min_p typical_p epsilon_cutoff eta_cutoff repetition_penalty
    encoder_repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    bad_words_ids num_return_sequences remove_invalid_values exponential_decay_length_penalty
    suppress_tokens begin_suppress_tokens forced_bos_token_id forced_eos_token_id
    unsloth_version unsloth_fixed transformers.js_config max_sequence_length model_max_length
    cache_implementation
"""
IRRELEVANT: frozenset[str] = frozenset(_IRRELEVANT.split())

# Keys that change the computation unless they hold one of these values (None always passes).
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "rope_interleaved": (False,),
    "partial_rotary_factor": (1.0, 1),
    "pruned_heads": ({},),
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "clip_qkv": (),
    "qk_norm": (False,),
    "use_qk_norm": (False,),
    "use_mrope": (False,),
    "use_bidirectional_attention": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "lm_head_bias": (False,),
    "full_attn_mod": (1,),
    "interpolate_factor": (1, 1.0),
    "embedding_multiplier": (1.0, 1),
    "residual_multiplier": (1.0, 1),
    "logits_scaling": (1.0, 1),
    "quantization_config": (),
    "auto_map": (),
}

_HINTS: Mapping[str, str] = {
    "quantization_config": "convert the checkpoint to f32, f16 or bf16 safetensors first",
    "auto_map": "models with their own code are not supported; remove the key if the weights are "
    "those of the stock architecture",
}


class ConfigReader:
    """Reads keys once and remembers them; `finish` refuses what nobody read."""

    def __init__(self, config: Mapping[str, Any], where: str = "config.json") -> None:
        self._config = config
        self._where = where
        self._used: set[str] = set()

    @property
    def where(self) -> str:
        return self._where

    def raw(self, key: str) -> Any:
        """The value, or None where the key is absent or null."""
        self._used.add(key)
        return self._config.get(key)

    def peek(self, key: str) -> Any:
        """The value as `raw` gives it, without counting as read."""
        return self._config.get(key)

    def has(self, key: str) -> bool:
        return key in self._config

    def _required(self, key: str, default: Any) -> Any:
        value = self.raw(key)
        if value is None:
            value = default
        if value is None:
            raise InputError(
                f"{self._where}: key '{key}' is missing; the checkpoint is incomplete, copy its "
                "original config.json"
            )
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(key, value, f"must be an integer from {low} to {high}")
        if not low <= value <= high:
            raise self.bad(key, value, f"is outside of {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.bad(key, value, f"must be a number from {low:g} to {high:g}")
        # Comparing first also refuses NaN, and integers that no float can hold.
        if not low <= value <= high:
            raise self.bad(key, value, f"is outside of {low:g} to {high:g}")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._required(key, default)
        if not isinstance(value, bool):
            raise self.bad(key, value, "must be true or false")
        return value

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        value = self._required(key, default)
        if not isinstance(value, str) or value not in choices:
            raise UnsupportedError(
                f"{self._where}: config key '{key}' = {short(value)} changes the computation "
                f"and is not supported; supported: {', '.join(sorted(choices))}"
            )
        return value

    def bad(self, key: str, value: Any, why: str) -> InputError:
        return InputError(
            f"{self._where}: '{key}' = {short(value)} {why}; correct the checkpoint's config.json"
        )

    def finish(self) -> None:
        """Refuses every key that is neither used nor known to leave the computation alone."""
        for key in sorted(set(self._config) - self._used - IRRELEVANT):
            value = self._config[key]
            if value is None or any(_equal(value, ok) for ok in NEUTRAL.get(key, ())):
                continue
            if key in NEUTRAL:
                allowed = ", ".join(short(v) for v in NEUTRAL[key][:1]) or "null"
                hint = f"; {_HINTS[key]}" if key in _HINTS else ""
                raise UnsupportedError(
                    f"{self._where}: config key '{key}' = {short(value)} changes the computation "
                    f"and is not supported; supported: {allowed}{hint}"
                )
            raise UnsupportedError(
                f"{self._where}: config key '{key}' = {short(value)} is not known, and may change "
                "the computation; remove it if it does not, or convert the model to a supported "
                "architecture"
            )


def _equal(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def short(value: Any) -> str:
    """A value for a message, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
