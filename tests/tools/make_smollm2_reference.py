"""Writes tests/data/smollm2_reference.json: a sample of the f32 logits of Hugging Face on SmolLM2,
so that the parity of the real model is tested where torch is not installed.

    python tests/tools/make_smollm2_reference.py CHECKPOINT [--check]

Needs torch and transformers. `--check` compares with the stored file instead of writing it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

REFERENCE = Path(__file__).resolve().parent.parent / "data" / "smollm2_reference.json"
TEXT = (
    "Paris is the capital of France. The river Seine divides it in two, and the hills around it "
    "are low. In 1889 the tower of Gustave Eiffel, 330 metres high, was finished:\n"
    "def height(tower): return tower.height if tower else None  # naïve, but 100 % correct"
)
POSITIONS = (0, 5, 21, 47)
VOCABULARY_STEP = 97


def hugging_face_logits(checkpoint: Path, tokens: list[int]) -> NDArray[np.float32]:
    """[len(tokens), vocabulary] in f32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    with torch.no_grad():
        logits: NDArray[np.float32] = model(torch.tensor([tokens])).logits[0].numpy()
    return logits


def make(checkpoint: Path) -> dict[str, Any]:
    import transformers
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(checkpoint / "tokenizer.json")).encode(TEXT).ids
    logits = hugging_face_logits(checkpoint, tokens)
    return {
        "transformers": transformers.__version__,
        "tokens": tokens,
        "range": float(np.ptp(logits)),
        "argmax": logits.argmax(axis=1).tolist(),
        "vocabulary_step": VOCABULARY_STEP,
        "rows": {
            str(p): [float(f"{v:.7g}") for v in logits[p, ::VOCABULARY_STEP].tolist()]
            for p in POSITIONS
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    args = parser.parse_args()
    made = make(args.checkpoint)
    if not args.check:
        REFERENCE.write_text(json.dumps(made, separators=(",", ":"), sort_keys=True) + "\n")
        print(f"wrote {REFERENCE} ({REFERENCE.stat().st_size} bytes)")
        return 0
    stored = json.loads(REFERENCE.read_text())
    gap = max(np.abs(np.subtract(stored["rows"][p], made["rows"][p])).max() for p in made["rows"])
    same = stored["tokens"] == made["tokens"] and stored["argmax"] == made["argmax"]
    if not same or gap > 1e-5 * made["range"]:
        print(f"the stored reference differs (by {gap:g}); rerun without --check to store it")
        return 1
    print(f"agrees with {REFERENCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
