#!/usr/bin/env python3
"""A checkpoint with the shape of Llama-3.2-1B and random weights (bf16, 2.5 GB): for measurements
of builds and speed, where the text does not matter. The same seed gives the same bytes.

    slipstream fetch smollm2-135m-instruct -o smollm2
    python benchmarks/make_1b.py smollm2 OUT_DIR [--layers 16] [--seed 0]

The tokenizer is SmolLM2's; its 49152 ids are the first of the model's 128256. Memory stays below
200 MB: tensors are drawn and written in blocks.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path
from typing import BinaryIO

import numpy as np

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, VOCAB = 2048, 32, 8, 64, 8192, 128_256
SCALE = 0.02
BLOCK = 1 << 22  # elements drawn at once
TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape, in the order of the file."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}
    for layer in range(layers):
        matrices = {
            "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
            "mlp.gate_proj": (MLP, HIDDEN),
            "mlp.up_proj": (MLP, HIDDEN),
            "mlp.down_proj": (HIDDEN, MLP),
        }
        vectors = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (HIDDEN,))
        for name, shape in {**matrices, **vectors}.items():
            found[f"model.layers.{layer}.{name}.weight"] = shape
    found["model.norm.weight"] = (HIDDEN,)
    return found


def write_weights(path: Path, layers: int, seed: int) -> None:
    """One safetensors file: matrices are normal with a standard deviation of 0.02, norms are 1."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    tensors = shapes(layers)
    end = 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(seed)
    with path.open("wb") as sink:
        sink.write(len(text).to_bytes(8, "little") + text)
        for shape in tensors.values():
            if len(shape) == 1:
                write_bf16(sink, np.ones(shape, np.float32))
                continue
            left = math.prod(shape)
            while left:
                values = random.standard_normal(min(left, BLOCK), np.float32) * np.float32(SCALE)
                write_bf16(sink, values)
                left -= len(values)


def write_bf16(sink: BinaryIO, values: np.ndarray) -> None:
    """Rounds by dropping bits, which random weights need no better than."""
    sink.write((values.view(np.uint32) >> 16).astype("<u2").data)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path, metavar="SMOLLM2_DIR")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--layers", type=int, default=16, help="default: 16, as the model has")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    missing = [name for name in TEXT_FILES if not (args.tokenizer / name).is_file()]
    if missing:
        parser.error(f"{args.tokenizer} has no {', '.join(missing)}; fetch the model first")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in TEXT_FILES:
        shutil.copyfile(args.tokenizer / name, args.out / name)
    config = {**CONFIG, "num_hidden_layers": args.layers}
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(args.out / "model.safetensors", args.layers, args.seed)
    print(args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
