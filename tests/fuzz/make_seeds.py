"""Writes the first inputs of the fuzzers: the parts of the engine file of a tiny random model,
small random tokenizers, and the chat templates of the tests.

python tests/fuzz/make_seeds.py FOLDER      ->  FOLDER/NAME/seed..., one NAME a fuzz target
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.layout import canonical_json
from slipstream.builder.engine.reader import EngineReader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from chat_cases import CONVERSATIONS
from test_chat_template import SMOLLM2, SNIPPETS
from tiny_models import TinyConfig, make_checkpoint
from tokenizer_cases import random_pattern, random_tokenizer


def chat_seeds() -> list[bytes]:
    """Templates, each with one of the conversations behind a line of hyphens."""
    conversations = [json.dumps(c) for c in CONVERSATIONS.values()]
    whole = [f"{SMOLLM2}\n----\n{c}" for c in conversations]
    parts = [
        f"{snippet}\n----\n{conversations[index % len(conversations)]}"
        for index, snippet in enumerate(SNIPPETS)
    ]
    return [text.encode() for text in (*whole, *parts)]


def tokenizer_seeds() -> list[bytes]:
    """Small tokenizers with all kinds of components and patterns."""
    rng = random.Random(0)
    seeds = []
    for _ in range(40):
        tree = random_tokenizer(rng)
        split = {"type": "Split", "pattern": {"Regex": random_pattern(rng)}}
        split |= {"behavior": "Isolated", "invert": False}
        tree["pre_tokenizer"]["pretokenizers"].insert(0, split)
        seeds.append(json.dumps(tree, ensure_ascii=False).encode())
    return seeds


def main() -> int:
    target = Path(sys.argv[1])
    # Small, so that mutations hit structure and not weights.
    tiny = TinyConfig(
        vocab=264, hidden=4, intermediate=4, heads=2, kv_heads=1, layers=1, tokenizer=True
    )
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = make_checkpoint(Path(folder) / "checkpoint", tiny)
        engine = Path(folder) / "seed.engine"
        build(checkpoint, engine, BuildConfig(max_seq_len=32, max_batch_size=1, max_num_tokens=1))
        reader = EngineReader(engine)
        manifest = canonical_json(reader.manifest)
        seeds = {
            "manifest": [manifest],
            "plan": [manifest + b"\n----\n" + bytes(reader.section("plan.cpu"))],
            "tokenizer": [bytes(reader.section("tokenizer")), *tokenizer_seeds()],
            "engine_file": [engine.read_bytes()],
            "chat_template": chat_seeds(),
        }
        for name, contents in seeds.items():
            (target / name).mkdir(parents=True, exist_ok=True)
            for index, data in enumerate(contents):
                (target / name / f"seed-{index}").write_bytes(data)
            print(f"{target / name}: {len(contents)} seeds, {sum(map(len, contents))} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
