"""What a decoder computes, free of any checkpoint's spelling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RopeSpec:
    """Rotary embedding with its frequencies worked out.

    `inv_freq` holds exact f32 values, one per rotated pair; cos and sin are multiplied by
    `attention_factor`. The first `rotary_dim` elements of a head are rotated.

    Kinds whose frequencies depend on the sequence length hold those of sequences of up to
    `trained_length` tokens, and what `fix_length` needs for longer ones. `context_limit` is the
    longest sequence that may be asked for (0: the model's `max_position_embeddings`).
    """

    kind: str
    theta: float
    rotary_dim: int
    inv_freq: tuple[float, ...]
    attention_factor: float = 1.0
    factor: float = 1.0
    trained_length: int = 0
    long_inv_freq: tuple[float, ...] = ()
    context_limit: int = 0


@dataclass(frozen=True)
class ModelSpec:
    """A pre-norm decoder with RMSNorm, RoPE, grouped-query attention and a gated MLP.

    `windows` holds one entry per layer: 0 attends to all earlier positions, W to the last W
    (the position itself included). With `fused_projections` the checkpoint holds q, k and v in one
    tensor, and gate and up in another; `qk_norm` is an RMSNorm over each head of q and k before
    RoPE. Token ids of `eos_token_ids` end a generation.

    `norm_offset` is added to the weights of every norm. With `post_norms`, what attention and MLP
    give is normalized before it joins the residual. `local_rope` is the RoPE of the layers with a
    window, where it differs. `attention_scale` multiplies the scores (None: 1 / sqrt(head_dim)),
    the other scales what their name says. A softcap c > 0 turns x into c * tanh(x / c); 0 is none.
    """

    architecture: str
    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    activation: str
    rope: RopeSpec
    max_position_embeddings: int
    tied_embeddings: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    windows: tuple[int, ...]
    checkpoint_dtype: str | None
    bos_token_id: int
    eos_token_ids: tuple[int, ...]
    fused_projections: bool = False
    qk_norm: bool = False
    norm_offset: float = 0.0
    post_norms: bool = False
    local_rope: RopeSpec | None = None
    attention_scale: float | None = None
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
