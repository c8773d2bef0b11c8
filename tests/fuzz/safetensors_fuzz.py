"""Mutates the header of a safetensors file for a while: only a SlipstreamError may come of it.

    python tests/fuzz/safetensors_fuzz.py SECONDS [SEED]

The reader of checkpoints is Python, so libFuzzer does not reach it; the mutations are of bytes and
of JSON values. Prints the seed; writes the input that failed to safetensors-crash.bin.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from slipstream.builder.checkpoint.safetensors import SafetensorsFile
from slipstream.errors import SlipstreamError

ODD_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 1e308, "", "F32", "BF16", "X", [], {}, [0], [0, 0],
    [1, 0], [0, 2**62], [[]], "\ud800", "a" * 300,
]  # fmt: skip


def mutate_json(value: Any, rng: random.Random) -> Any:
    """`value` with one node somewhere replaced, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        changed = dict(value)
        action = rng.random()
        if action < 0.1:
            del changed[key]
        elif action < 0.2:
            changed[rng.choice(["", "__metadata__", "x"])] = changed[key]
        else:
            changed[key] = mutate_json(changed[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.6:
        index = rng.randrange(len(value))
        return [*value[:index], mutate_json(value[index], rng), *value[index + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 4, -4, 2**32])
    return rng.choice(ODD_VALUES)


def mutate(good: bytes, rng: random.Random) -> bytes:
    size = int.from_bytes(good[:8], "little")
    if rng.random() < 0.7:
        header = json.loads(good[8 : 8 + size])
        for _ in range(rng.randrange(1, 4)):
            header = mutate_json(header, rng)
        text = json.dumps(header, ensure_ascii=True).encode()
        return len(text).to_bytes(8, "little") + text + good[8 + size :]
    changed = bytearray(good)
    for _ in range(rng.randrange(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.3 else changed)


def main() -> int:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    tensors = {"a": np.zeros((3, 4), np.float32), "b": np.ones(5, np.float16)}
    good = save(tensors)
    runs = refused = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        while time.monotonic() < end:
            data = mutate(good, rng)
            path.write_bytes(data)
            runs += 1
            try:
                SafetensorsFile(path)
            except SlipstreamError:
                refused += 1
            except BaseException:
                Path("safetensors-crash.bin").write_bytes(data)
                print(f"seed {seed}, run {runs}: see safetensors-crash.bin", file=sys.stderr)
                raise
    print(f"seed {seed}: {runs} files, {refused} refused, {runs - refused} sound")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
