"""Writes tests/data/reference_logits.json: logits of Hugging Face transformers on tiny random
models, so that parity is tested where torch is not installed.

    python tests/tools/make_reference_logits.py [--check]

Needs torch and transformers. `--check` compares with the stored file instead of writing it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "python"))

from tiny_models import (  # noqa: E402
    TinyConfig,
    config_json,
    make_checkpoint,
    random_config,
    random_gemma,
    random_granite,
    random_phi3,
    random_qwen3,
)

from slipstream.builder.models import ModelSpec, RopeSpec, fix_length, parse_config  # noqa: E402

REFERENCE = TESTS / "data" / "reference_logits.json"
SEEDS = (0, 4, 9, 14, 20, 22)
# Models beyond the first families: who draws them, and the seeds.
DRAWN = {
    "gemma": random_gemma,
    "granite": random_granite,
    "phi3": random_phi3,
    "qwen3": random_qwen3,
}
DRAWN_SEEDS = {"gemma": (0, 1, 3, 4), "granite": (0, 1), "phi3": (1, 2), "qwen3": (0, 3)}
LENGTH = 40
POSITIONS = (0, 13, 39)


def tokens_of(tiny: TinyConfig, length: int = LENGTH) -> list[int]:
    """The prompt that belongs to a tiny model."""
    rng = np.random.default_rng(10_000 + tiny.seed)
    ids: list[int] = rng.integers(0, tiny.vocab, length).tolist()
    return ids


def force_rope(model: Any, rope: RopeSpec) -> None:
    """Gives a model of transformers fixed RoPE frequencies instead of those that follow the length
    of the sequence. Its own attention factor must be ours already."""
    import torch

    rotary = model.model.rotary_emb
    if not hasattr(rotary, "inv_freq"):
        return  # One RoPE for each kind of layer; the drawn ones do not follow the length.
    assert abs(float(rotary.attention_scaling) - rope.attention_factor) < 1e-6
    values = torch.tensor(rope.inv_freq, dtype=torch.float32)
    rotary.inv_freq = values
    rotary.original_inv_freq = values.clone()
    rotary.long_inv_freq = values.clone()
    rotary.rope_type = "default"  # Keeps `dynamic_rope_update` from computing them again.


def reference_logits(
    tiny: TinyConfig, tokens: list[int], rope: RopeSpec | None = None
) -> NDArray[Any]:
    """[len(tokens), vocabulary] f32 from transformers' eager attention, with the frequencies of
    `rope` where given."""
    import torch
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        path = make_checkpoint(Path(folder) / "model", tiny)
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )
        if rope is not None:
            force_rope(model, rope)
        with torch.no_grad():
            logits: NDArray[Any] = model(torch.tensor([tokens])).logits[0].numpy()
    return logits


def spec_of(tiny: TinyConfig) -> ModelSpec:
    """The model as an engine for its whole context computes it."""
    return fix_length(parse_config(config_json(tiny)), tiny.max_positions)[0]


def stored_model(seed: int, tiny: TinyConfig, rope: RopeSpec | None = None) -> dict[str, Any]:
    logits = reference_logits(tiny, tokens_of(tiny), rope)
    return {
        "seed": seed,
        "architecture": tiny.architecture,
        "range": float(np.ptp(logits)),
        # Seven digits: well below the tolerance of the comparison.
        "rows": {str(p): [float(f"{v:.7g}") for v in logits[p].tolist()] for p in POSITIONS},
    }


def make() -> dict[str, Any]:
    import transformers

    drawn = {
        f"{name}-{seed}": stored_model(seed, draw(seed), spec_of(draw(seed)).rope)
        for name, draw in DRAWN.items()
        for seed in DRAWN_SEEDS[name]
    }
    return {
        "transformers": transformers.__version__,
        "length": LENGTH,
        "models": [stored_model(seed, random_config(seed)) for seed in SEEDS],
        "drawn": drawn,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    args = parser.parse_args()
    made = make()
    if not args.check:
        REFERENCE.parent.mkdir(parents=True, exist_ok=True)
        REFERENCE.write_text(json.dumps(made, separators=(",", ":"), sort_keys=True) + "\n")
        print(f"wrote {REFERENCE} ({REFERENCE.stat().st_size} bytes)")
        return 0
    stored = json.loads(REFERENCE.read_text())
    assert stored["drawn"].keys() == made["drawn"].keys()
    pairs = [*zip(stored["models"], made["models"], strict=True)]
    pairs += [(stored["drawn"][name], model) for name, model in made["drawn"].items()]
    for old, new in pairs:
        for position, row in new["rows"].items():
            gap = np.abs(np.subtract(old["rows"][position], row)).max()
            if gap > 1e-5 * new["range"]:
                where = f"seed {new['seed']}, position {position}"
                print(f"{where}: differs by {gap:g}; rerun without --check to store it")
                return 1
    print(f"{len(pairs)} models agree with {REFERENCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
