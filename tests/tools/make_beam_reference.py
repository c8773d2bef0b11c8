"""Writes tests/data/beam_reference.json: what Hugging Face's beam search finds in random tables of
log-probabilities, which tests/cpp/decode_beam_search_test.cc makes by the same formula.

    python tests/tools/make_beam_reference.py

Needs torch and transformers. The model itself has no part in it: a logits processor puts a row of
the table, which is chosen by the last two tokens, in place of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList

REFERENCE = Path(__file__).resolve().parent.parent / "data" / "beam_reference.json"
PROMPT = [5, 6]
EARLY = {"no": False, "yes": True, "never": "never"}


def row(seed: int, vocab: int, before: int, last: int, ends: list[int]) -> NDArray[np.float32]:
    """Logits of the token after (before, last); ends are made likelier, so that they come."""
    ids = np.arange(vocab, dtype=np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    x = ids * 2246822519 + np.uint64(
        (last * 2654435761 + before * 668265263 + seed * 3266489917) % 2**32
    )
    x &= mask
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(2246822519)) & mask
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(3266489917)) & mask
    x ^= x >> np.uint64(16)
    logits = (x >> np.uint64(16)).astype(np.float32) / np.float32(16384)
    logits[ends] += np.float32(1.5)
    return logits


class Table(LogitsProcessor):
    def __init__(self, seed: int, vocab: int, ends: list[int]) -> None:
        self.arguments = (seed, vocab, ends)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seed, vocab, ends = self.arguments
        rows = [row(seed, vocab, int(ids[-2]), int(ids[-1]), ends) for ids in input_ids]
        return torch.log_softmax(torch.tensor(np.stack(rows)), -1)


def cases() -> list[dict[str, Any]]:
    made = []
    for seed in range(72):
        made.append(
            {
                "seed": seed,
                "vocab": 20 + seed % 3 * 30,
                "num_beams": (2, 3, 4, 5)[seed % 4],
                "max_tokens": (3, 8, 20)[seed // 4 % 3],
                "length_penalty": (1.0, 0.0, 2.0, -1.0, 0.6)[seed % 5],
                "early_stopping": ("no", "yes", "never")[seed // 2 % 3],
                "end_ids": ([2], [2, 7], [1, 2, 3])[seed // 3 % 3],
            }
        )
    return made


def answer(case: dict[str, Any]) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=case["vocab"],
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
        )
    ).eval()
    found = model.generate(
        torch.tensor([PROMPT]),
        num_beams=case["num_beams"],
        num_return_sequences=case["num_beams"],
        max_new_tokens=case["max_tokens"],
        length_penalty=case["length_penalty"],
        early_stopping=EARLY[case["early_stopping"]],
        eos_token_id=case["end_ids"],
        pad_token_id=0,
        do_sample=False,
        logits_processor=LogitsProcessorList([Table(case["seed"], case["vocab"], case["end_ids"])]),
        return_dict_in_generate=True,
        output_scores=True,
    )
    answers = []
    for ids, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        tokens = ids[len(PROMPT) :]
        end = next((i for i, t in enumerate(tokens) if t in case["end_ids"]), len(tokens) - 1)
        # Below this lie the places that no answer has taken.
        if score > -1e8:
            answers.append({"tokens": tokens[: end + 1], "score": round(score, 6)})
    return answers


def main() -> None:
    found = [{**case, "answers": answer(case)} for case in cases()]
    REFERENCE.write_text(json.dumps({"prompt": PROMPT, "cases": found}) + "\n")


if __name__ == "__main__":
    main()
