"""Which tensors a checkpoint of a ModelSpec must hold, and what is wrong with one that differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstream.builder.errors import InputError
from slipstream.builder.models.spec import ModelSpec

EMBEDDING = "model.embed_tokens.weight"
NORM = "model.norm.weight"
HEAD = "lm_head.weight"

# Buffers that older checkpoints saved; the builder computes them itself.
_LEFTOVER = re.compile(r"^model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$")
_QUANTIZED = re.compile(r"\.(qweight|qzeros|scales|g_idx|weight_scale|weight_packed|weight_shape)$")
_SHOWN = 8


@dataclass(frozen=True)
class TensorReport:
    """`ignored` tensors are left out of the engine. Each pair of `must_equal` has to hold the same
    values: (the tensor that is left out, the tensor that stands for it)."""

    ignored: tuple[str, ...]
    must_equal: tuple[tuple[str, str], ...]


def layer_norms(spec: ModelSpec) -> dict[str, str]:
    """The norms of a layer over the hidden size: the job of each -> its name in the checkpoint."""
    if not spec.post_norms:
        return {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
    return {
        "attn_norm": "input_layernorm",
        "attn_post_norm": "post_attention_layernorm",
        "mlp_norm": "pre_feedforward_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    }


def expected_tensors(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that the model reads, in the order of its layers."""
    hidden, mlp = spec.hidden_size, spec.intermediate_size
    q, kv = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    if spec.fused_projections:
        projections = [
            ("self_attn.qkv_proj", q + 2 * kv, hidden, spec.qkv_bias),
            ("self_attn.o_proj", hidden, q, spec.o_bias),
            ("mlp.gate_up_proj", 2 * mlp, hidden, spec.mlp_bias),
            ("mlp.down_proj", hidden, mlp, spec.mlp_bias),
        ]
    else:
        projections = [
            ("self_attn.q_proj", q, hidden, spec.qkv_bias),
            ("self_attn.k_proj", kv, hidden, spec.qkv_bias),
            ("self_attn.v_proj", kv, hidden, spec.qkv_bias),
            ("self_attn.o_proj", hidden, q, spec.o_bias),
            ("mlp.gate_proj", mlp, hidden, spec.mlp_bias),
            ("mlp.up_proj", mlp, hidden, spec.mlp_bias),
            ("mlp.down_proj", hidden, mlp, spec.mlp_bias),
        ]
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (spec.vocab_size, hidden)}
    for layer in range(spec.num_layers):
        prefix = f"model.layers.{layer}"
        for norm in layer_norms(spec).values():
            shapes[f"{prefix}.{norm}.weight"] = (hidden,)
        for path, rows, cols, bias in projections:
            shapes[f"{prefix}.{path}.weight"] = (rows, cols)
            if bias:
                shapes[f"{prefix}.{path}.bias"] = (rows,)
        if spec.qk_norm:
            shapes[f"{prefix}.self_attn.q_norm.weight"] = (spec.head_dim,)
            shapes[f"{prefix}.self_attn.k_norm.weight"] = (spec.head_dim,)
    shapes[NORM] = (hidden,)
    if not spec.tied_embeddings:
        shapes[HEAD] = (spec.vocab_size, hidden)
    return shapes


def check_tensors(spec: ModelSpec, found: Mapping[str, Sequence[int]]) -> TensorReport:
    """Compares a checkpoint's tensor names and shapes with what the model reads.

    Raises InputError that lists every difference (the first 8 in full).
    """
    expected = expected_tensors(spec)
    problems = []
    for name, shape in expected.items():
        if name not in found:
            problems.append(_missing(name, shape))
        elif tuple(found[name]) != shape:
            problems.append(
                f"tensor '{name}' has shape {list(found[name])}, expected {list(shape)} from "
                "config.json"
            )
    ignored, equal = [], []
    for name in sorted(set(found) - set(expected)):
        if _LEFTOVER.match(name):
            ignored.append(name)
        elif name == HEAD and tuple(found[name]) == expected[EMBEDDING]:
            ignored.append(name)
            equal.append((HEAD, EMBEDDING))
        else:
            problems.append(_unexpected(name, found[name], spec))
    if problems:
        more = len(problems) - _SHOWN
        tail = f"\n  ... and {more} more" if more > 0 else ""
        raise InputError(
            f"the checkpoint does not fit its config.json ({spec.architecture}, "
            f"{spec.num_layers} layers): {len(problems)} problem"
            f"{'s' if len(problems) != 1 else ''}:\n  "
            + "\n  ".join(problems[:_SHOWN])
            + tail
            + "\n  Check that config.json and the safetensors files belong together and are "
            "complete."
        )
    return TensorReport(tuple(ignored), tuple(equal))


def _missing(name: str, shape: tuple[int, ...]) -> str:
    hint = ""
    if name == HEAD:
        hint = "; if the head shares the embedding, set 'tie_word_embeddings': true"
    return f"tensor '{name}' is missing, expected with shape {list(shape)}{hint}"


def _unexpected(name: str, shape: Sequence[int], spec: ModelSpec) -> str:
    hint = "the model as config.json describes it does not read it"
    layer = re.match(r"^model\.layers\.(\d+)\.", name)
    if _QUANTIZED.search(name):
        hint = "quantized checkpoints are not supported; supported: f32, f16, bf16"
    elif layer and int(layer.group(1)) >= spec.num_layers:
        hint = f"'num_hidden_layers' is {spec.num_layers}"
    elif name.endswith(".bias") and spec.architecture == "LlamaForCausalLM":
        hint = "set 'attention_bias' or 'mlp_bias' to true if the model has biases"
    elif name == HEAD:
        hint = "the head is tied to the embedding, whose shape differs"
    return f"tensor '{name}' of shape {list(shape)} is unexpected: {hint}"
