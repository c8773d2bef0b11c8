"""Tiny random Hugging Face checkpoints without torch: config.json, safetensors and, if wanted, a
byte-level tokenizer. Everything follows from the seed.

    make_checkpoint(folder, TinyConfig(seed=3, kv_heads=1))
    make_checkpoint(folder, random_config(7))
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from slipstream.builder.models import expected_tensors, parse_config

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class TinyConfig:
    """Shape of a tiny model. `spelling` is the major version of transformers whose config.json
    keys are written. `rope` is a kind of RoPE with its own keys (without theta), `extra` holds more
    keys of config.json."""

    seed: int = 0
    architecture: str = "LlamaForCausalLM"
    vocab: int = 131
    hidden: int = 40
    intermediate: int = 56
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int | None = None
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    llama3_rope: bool = False
    rope: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    window: int | None = None
    max_window_layers: int = 1
    max_positions: int = 256
    eps: float = 1e-5
    spelling: int = 4
    dtype: str = "float32"
    shards: int = 1
    tokenizer: bool = False


def config_json(tiny: TinyConfig) -> dict[str, Any]:
    """The config.json of a tiny model."""
    model_type = {
        "Gemma2ForCausalLM": "gemma2",
        "Gemma3ForCausalLM": "gemma3_text",
        "GemmaForCausalLM": "gemma",
        "GraniteForCausalLM": "granite",
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "mistral",
        "Phi3ForCausalLM": "phi3",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
    }[tiny.architecture]
    config: dict[str, Any] = {
        "architectures": [tiny.architecture],
        "model_type": model_type,
        "vocab_size": tiny.vocab,
        "hidden_size": tiny.hidden,
        "intermediate_size": tiny.intermediate,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "hidden_act": "silu",
        "max_position_embeddings": tiny.max_positions,
        "rms_norm_eps": tiny.eps,
        "tie_word_embeddings": tiny.tied,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if tiny.head_dim is not None:
        config["head_dim"] = tiny.head_dim
    if model_type == "qwen3":
        config["attention_bias"] = tiny.attention_bias
    if model_type.startswith("gemma"):
        config["attention_bias"] = tiny.attention_bias
        config["hidden_act" if model_type == "gemma" else "hidden_activation"] = "gelu_pytorch_tanh"
        if model_type != "gemma":
            del config["hidden_act"]
            config["sliding_window"] = tiny.window
    if model_type in ("llama", "granite"):
        config["attention_bias"] = tiny.attention_bias
        config["mlp_bias"] = tiny.mlp_bias
    if model_type in ("mistral", "phi3"):
        config["sliding_window"] = tiny.window
    if model_type in ("qwen2", "qwen3"):
        config["use_sliding_window"] = tiny.window is not None
        config["sliding_window"] = tiny.window
        config["max_window_layers"] = tiny.max_window_layers
    kind = LLAMA3_ROPE if tiny.llama3_rope else tiny.rope
    if tiny.spelling == 4:
        config["torch_dtype"] = tiny.dtype
        config["rope_theta"] = tiny.rope_theta
        config["rope_scaling"] = kind
        config["transformers_version"] = "4.57.1"
    else:
        config["dtype"] = tiny.dtype
        config["rope_parameters"] = {
            **(kind or {"rope_type": "default"}),
            "rope_theta": tiny.rope_theta,
        }
        config["transformers_version"] = "5.2.0"
    return {**config, **(tiny.extra or {})}


def make_tensors(tiny: TinyConfig) -> dict[str, NDArray[Any]]:
    """Random weights, large enough that logits spread over several units."""
    spec = parse_config(config_json(tiny))
    rng = np.random.default_rng(tiny.seed)
    tensors: dict[str, NDArray[Any]] = {}
    for name, shape in expected_tensors(spec).items():
        values = rng.standard_normal(shape, np.float32)
        if name.endswith("norm.weight"):
            values = (1.0 - spec.norm_offset) + 0.2 * values
        elif name.endswith(".bias"):
            values = 0.3 * values
        elif "embed_tokens" not in name:
            values = values * np.float32(1.5 / np.sqrt(shape[1]))
        tensors[name] = np.ascontiguousarray(values.astype(_DTYPES[tiny.dtype]))
    return tensors


def make_checkpoint(folder: Path, tiny: TinyConfig) -> Path:
    """Writes a checkpoint folder and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(tiny), indent=2) + "\n")
    tensors = make_tensors(tiny)
    if tiny.shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        _write_shards(folder, tensors, tiny.shards)
    if tiny.tokenizer:
        write_tokenizer(folder, tiny.vocab)
    return folder


def _write_shards(folder: Path, tensors: dict[str, NDArray[Any]], shards: int) -> None:
    names = list(tensors)
    weight_map = {}
    for i in range(shards):
        part = {name: tensors[name] for name in names[i::shards]}
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(t.nbytes for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level BPE, in byte order."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in kept}
    extra = 256
    for b in range(256):
        if b not in table:
            table[b] = chr(extra)
            extra += 1
    return [table[b] for b in range(256)]


def write_tokenizer(folder: Path, vocab: int) -> None:
    """A byte-level BPE of 3 special tokens, 256 bytes and a few merges; needs vocab >= 259."""
    if vocab < 259:
        raise ValueError(f"a byte-level vocabulary needs 259 entries, got {vocab}")
    specials = ["<pad>", "<s>", "</s>"]
    alphabet = byte_alphabet()
    entries = [*specials, *alphabet]
    space = alphabet[32]
    wanted = [("t", "h"), ("th", "e"), (space, "the"), ("i", "n"), (space, "a"), ("e", "r")]
    merges = wanted[: vocab - len(entries)]
    entries += ["".join(m) for m in merges]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, token in enumerate(specials)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(entries)},
            "merges": [list(m) for m in merges],
        },
    }
    text = json.dumps(tokenizer, ensure_ascii=False, indent=2)
    (folder / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _factors(rng: np.random.Generator, count: int) -> list[float]:
    return [round(float(v), 3) for v in np.sort(rng.uniform(1.0, 20.0, count))]


def random_phi3(seed: int) -> TinyConfig:
    """A drawn Phi-3: fused projections, partly rotated heads, longrope under each of its names."""
    rng = np.random.default_rng(2000 + seed)
    kv_heads = int(rng.choice([1, 2]))
    heads = kv_heads * int(rng.choice([1, 2, 3]))
    head_dim = int(rng.choice([8, 16]))
    part = float(rng.choice([1.0, 0.75, 0.5]))
    count = int(head_dim * part) // 2
    kind = ("default", "longrope", "su", "yarn")[seed % 4]
    rope: dict[str, Any] | None = None
    if kind != "default":
        rope = {"type": kind, "short_factor": _factors(rng, count)}
        rope["long_factor"] = _factors(rng, count)
        rope["original_max_position_embeddings"] = 32
    return TinyConfig(
        seed=seed,
        architecture="Phi3ForCausalLM",
        vocab=int(rng.choice([97, 160])),
        hidden=heads * head_dim,
        intermediate=int(rng.choice([17, 43, 64])),
        layers=int(rng.choice([1, 2])),
        heads=heads,
        kv_heads=kv_heads,
        tied=bool(rng.choice([True, False])),
        rope=rope,
        window=[None, 9][int(rng.integers(2))],
        max_positions=128,
        extra={
            "partial_rotary_factor": part,
            "original_max_position_embeddings": 32,
            "attention_bias": False,
            "embd_pdrop": 0.0,
            "pad_token_id": 0,
        },
    )


def random_qwen3(seed: int) -> TinyConfig:
    """A drawn Qwen3: norms over the heads of q and k, head_dim apart from the hidden size."""
    rng = np.random.default_rng(3000 + seed)
    kv_heads = int(rng.choice([1, 2, 3]))
    heads = kv_heads * int(rng.choice([1, 2]))
    return TinyConfig(
        seed=seed,
        architecture="Qwen3ForCausalLM",
        vocab=int(rng.choice([97, 160])),
        hidden=heads * int(rng.choice([5, 8])),
        intermediate=int(rng.choice([17, 43, 64])),
        layers=int(rng.choice([2, 3])),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=int(rng.choice([6, 16, 22])),
        attention_bias=bool(rng.choice([True, False])),
        tied=bool(rng.choice([True, False])),
        window=[None, 7][int(rng.integers(2))],
        spelling=4 + seed % 2,
    )


def random_gemma(seed: int) -> TinyConfig:
    """A drawn Gemma 1, 2 or 3: two or more layers with and without a window, heads apart from the
    hidden size."""
    rng = np.random.default_rng(4000 + seed)
    kv_heads = int(rng.choice([1, 2]))
    heads = kv_heads * int(rng.choice([1, 2, 3]))
    head_dim = int(rng.choice([6, 16, 22]))
    number = (2, 3, 2, 3, 1)[seed % 5]
    extra: dict[str, Any] = {"head_dim": head_dim}
    rope = None
    if number != 1:
        extra["query_pre_attn_scalar"] = int(rng.choice([head_dim, 24]))
    if number == 2:
        # Small enough to bend the scores and logits of tiny models.
        extra["attn_logit_softcapping"] = float(rng.choice([2.0, 50.0]))
        extra["final_logit_softcapping"] = float(rng.choice([3.0, 30.0]))
    spelling = 4 + seed % 2
    if number == 3:
        extra["sliding_window_pattern"] = pattern = int(rng.choice([2, 3]))
        theta = {"rope_theta": 50000.0}
        linear = {"rope_type": "linear", "factor": 8.0}
        if spelling == 4:
            rope = linear
            extra["rope_local_base_freq"] = 5000.0
        else:
            extra["rope_parameters"] = {
                "full_attention": {**linear, **theta},
                "sliding_attention": {"rope_type": "default", "rope_theta": 3000.0},
            }
            kinds = ("full_attention", "sliding_attention")
            extra["layer_types"] = [kinds[(i + 1) % pattern != 0] for i in range(4)]
    return TinyConfig(
        seed=seed,
        architecture={1: "GemmaForCausalLM", 2: "Gemma2ForCausalLM", 3: "Gemma3ForCausalLM"}[
            number
        ],
        vocab=int(rng.choice([97, 160])),
        hidden=heads * int(rng.choice([5, 8])),
        intermediate=int(rng.choice([17, 43, 64])),
        layers=4 if number == 3 else int(rng.choice([2, 3])),
        heads=heads,
        kv_heads=kv_heads,
        attention_bias=bool(rng.choice([True, False])),
        # Gemma's heads are tied unless the config says otherwise.
        tied=bool(rng.choice([True, True, False])),
        window=None if number == 1 else int(rng.choice([7, 33])),
        rope=rope,
        eps=1e-6,
        spelling=spelling,
        extra=extra,
    )


def random_granite(seed: int) -> TinyConfig:
    """A drawn Granite: multipliers of embedding, residual, scores and logits."""
    rng = np.random.default_rng(5000 + seed)
    kv_heads = int(rng.choice([1, 2]))
    heads = kv_heads * int(rng.choice([1, 2, 3]))
    return TinyConfig(
        seed=seed,
        architecture="GraniteForCausalLM",
        vocab=int(rng.choice([97, 160])),
        hidden=heads * int(rng.choice([6, 10])),
        intermediate=int(rng.choice([17, 43, 64])),
        layers=int(rng.choice([1, 2, 3])),
        heads=heads,
        kv_heads=kv_heads,
        attention_bias=bool(rng.choice([True, False])),
        mlp_bias=bool(rng.choice([True, False])),
        tied=bool(rng.choice([True, False])),
        spelling=4 + seed % 2,
        extra={
            "embedding_multiplier": float(rng.choice([12.0, 1.0])),
            "residual_multiplier": float(rng.choice([0.22, 1.0])),
            "attention_multiplier": 0.0625,
            "logits_scaling": [8, 1, 3.5][int(rng.integers(3))],
        },
    )


def random_config(seed: int) -> TinyConfig:
    """A drawn member of the families: odd sizes, all head groupings, biases, RoPE kinds, windows
    and both spellings."""
    rng = np.random.default_rng(1000 + seed)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    kv_heads = pick(1, 2, 3)
    heads = kv_heads * pick(1, 2, 4)
    head_dim = pick(4, 6, 10, 16)
    explicit = pick(True, False)
    # Hugging Face wants hidden_size to divide by the heads even where head_dim is given.
    hidden = heads * pick(3, 5, 7, 12) if explicit else heads * head_dim
    architecture = pick("LlamaForCausalLM", "LlamaForCausalLM", "MistralForCausalLM",
                        "Qwen2ForCausalLM")  # fmt: skip
    tiny = TinyConfig(
        seed=seed,
        architecture=architecture,
        vocab=pick(97, 131, 160, 259),
        hidden=hidden,
        intermediate=pick(17, 43, 64, 90),
        layers=pick(1, 2, 3),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim if explicit else None,
        tied=pick(True, False),
        llama3_rope=pick(True, False),
        rope_theta=pick(10000.0, 100000.0, 500000.0),
        eps=pick(1e-5, 1e-6),
        spelling=pick(4, 5),
    )
    if architecture == "LlamaForCausalLM":
        return replace(tiny, attention_bias=pick(True, False), mlp_bias=pick(True, False))
    return replace(tiny, window=pick(None, 5, 9), max_window_layers=pick(0, 1, 2))
