"""Writes the fuzzers' first inputs: the parts of the engine file of a tiny random model.

python tests/fuzz/make_seeds.py FOLDER      ->  FOLDER/{manifest,plan,tokenizer,engine_file}/seed
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.layout import canonical_json
from slipstream.builder.engine.reader import EngineReader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from tiny_models import TinyConfig, make_checkpoint


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
            "manifest": manifest,
            "plan": manifest + b"\n----\n" + bytes(reader.section("plan.cpu")),
            "tokenizer": bytes(reader.section("tokenizer")),
            "engine_file": engine.read_bytes(),
        }
        for name, data in seeds.items():
            (target / name).mkdir(parents=True, exist_ok=True)
            (target / name / "seed").write_bytes(data)
            print(f"{target / name / 'seed'}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
