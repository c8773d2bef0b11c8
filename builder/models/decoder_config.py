"""What the families of decoders read alike from a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.models.config_reader import ConfigReader, short
from slipstream.builder.models.rope import RopeRules, read_layer_ropes, read_rope
from slipstream.builder.models.spec import ModelSpec

MAX_VOCAB = 1 << 22
MAX_WIDTH = 1 << 18
MAX_HIDDEN = 1 << 16
MAX_LAYERS = 1024
MAX_HEADS = 1024
MAX_HEAD_DIM = 1024
MAX_POSITIONS = 1 << 24
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Variant:
    """What differs between the architectures beyond values: defaults of absent keys.

    `layer_thetas` are given where layers with full attention and those with a window have a RoPE of
    their own. `extras` are fields of ModelSpec that the family decides."""

    architecture: str
    max_positions: int
    kv_heads: int | None = None
    head_dim: int | None = None
    eps: float = 1e-6
    rope: RopeRules | None = None
    fused_projections: bool = False
    qk_norm: bool = False
    tied_embeddings: bool = False
    layer_thetas: tuple[float, float] | None = None
    activation_key: str = "hidden_act"
    activation: str = "silu"
    extras: Mapping[str, Any] = field(default_factory=dict)


def num_layers(reader: ConfigReader) -> int:
    return reader.integer("num_hidden_layers", 1, MAX_LAYERS)


def window_of(reader: ConfigReader) -> int:
    if reader.raw("sliding_window") is None:
        return 0
    return reader.integer("sliding_window", 1, MAX_POSITIONS)


def windows_of_types(reader: ConfigReader, types: Any, layers: int, window: int) -> tuple[int, ...]:
    if not isinstance(types, list) or len(types) != layers:
        raise reader.bad("layer_types", types, f"must be a list of {layers} names")
    out = []
    for i, name in enumerate(types):
        if name not in ("full_attention", "sliding_attention"):
            raise UnsupportedError(
                f"{reader.where}: config key 'layer_types[{i}]' = {short(name)} changes the "
                "computation and is not supported; supported: full_attention, sliding_attention"
            )
        if name == "sliding_attention" and window == 0:
            raise InputError(
                f"{reader.where}: 'layer_types[{i}]' is sliding_attention but the config sets no "
                "sliding window; set 'sliding_window' (and 'use_sliding_window': true)"
            )
        out.append(window if name == "sliding_attention" else 0)
    return tuple(out)


def check_layer_types(reader: ConfigReader, windows: tuple[int, ...]) -> None:
    """Llama and Mistral take their windows from elsewhere: the list may only repeat it."""
    types = reader.raw("layer_types")
    if types is None:
        return
    found = windows_of_types(reader, types, len(windows), max(windows, default=0))
    if found != windows:
        raise UnsupportedError(
            f"{reader.where}: config key 'layer_types' = {short(types)} differs from what this "
            "architecture computes, and is not supported; supported: "
            + ("sliding_attention everywhere" if windows[0] else "full_attention everywhere")
        )


def _heads(reader: ConfigReader, variant: Variant, hidden: int) -> tuple[int, int, int]:
    heads = reader.integer("num_attention_heads", 1, MAX_HEADS)
    default_kv = heads
    if variant.kv_heads is not None and not reader.has("num_key_value_heads"):
        default_kv = variant.kv_heads
    kv_heads = reader.integer("num_key_value_heads", 1, MAX_HEADS, default_kv)
    if heads % kv_heads:
        raise InputError(
            f"{reader.where}: 'num_attention_heads' = {heads} is not a multiple of "
            f"'num_key_value_heads' = {kv_heads}; correct the checkpoint's config.json"
        )
    default_dim = variant.head_dim
    if reader.raw("head_dim") is None and hidden % heads and default_dim is None:
        raise InputError(
            f"{reader.where}: 'hidden_size' = {hidden} is not a multiple of "
            f"'num_attention_heads' = {heads}, and 'head_dim' is not given; set 'head_dim'"
        )
    default_dim = default_dim or max(hidden // heads, 1)
    head_dim = reader.integer("head_dim", 2, MAX_HEAD_DIM, default_dim)
    if head_dim % 2:
        raise reader.bad("head_dim", head_dim, "is odd, but RoPE rotates pairs and needs it even")
    return heads, kv_heads, head_dim


def _token_ids(reader: ConfigReader, key: str, vocab: int) -> tuple[int, ...]:
    value = reader.raw(key)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int):
            raise reader.bad(key, value, "must be a token id or a list of them")
    # Ids past the vocabulary (also -1 for none) can never be produced: they end nothing.
    return tuple(i for i in ids if 0 <= i < vocab)


def parse_decoder(
    reader: ConfigReader,
    variant: Variant,
    windows: tuple[int, ...],
    qkv_bias: bool,
    o_bias: bool,
    mlp_bias: bool,
) -> ModelSpec:
    vocab = reader.integer("vocab_size", 2, MAX_VOCAB)
    hidden = reader.integer("hidden_size", 2, MAX_HIDDEN)
    intermediate = reader.integer("intermediate_size", 1, MAX_WIDTH)
    heads, kv_heads, head_dim = _heads(reader, variant, hidden)
    max_positions = reader.integer(
        "max_position_embeddings", 1, MAX_POSITIONS, variant.max_positions
    )
    dtype = reader.raw("dtype") or reader.raw("torch_dtype")
    bos = _token_ids(reader, "bos_token_id", vocab)
    local_rope = None
    if variant.layer_thetas is None:
        rope = read_rope(reader, head_dim, max_positions, variant.rope)
    else:
        rope, local_rope = read_layer_ropes(reader, head_dim, max_positions, *variant.layer_thetas)
    spec = ModelSpec(
        architecture=variant.architecture,
        family="llama",
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_layers=len(windows),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=reader.number("rms_norm_eps", 1e-12, 0.1, variant.eps),
        activation=_ACTIVATIONS[
            reader.choice(variant.activation_key, _ACTIVATIONS, variant.activation)
        ],
        rope=rope,
        local_rope=local_rope,
        max_position_embeddings=max_positions,
        tied_embeddings=reader.boolean("tie_word_embeddings", variant.tied_embeddings),
        qkv_bias=qkv_bias,
        o_bias=o_bias,
        mlp_bias=mlp_bias,
        windows=windows,
        checkpoint_dtype=_DTYPES.get(dtype) if isinstance(dtype, str) else None,
        bos_token_id=bos[0] if bos else -1,
        eos_token_ids=_token_ids(reader, "eos_token_id", vocab),
        fused_projections=variant.fused_projections,
        qk_norm=variant.qk_norm,
        **variant.extras,
    )
    reader.finish()
    return spec
