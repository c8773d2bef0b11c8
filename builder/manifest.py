"""The manifest of an engine file (docs/design/engine-file.md)."""

from __future__ import annotations

from typing import Any

import xxhash

from slipstream.builder.engine.layout import (
    CHUNK_BYTES,
    HASH_ALGORITHM,
    MAJOR,
    MINOR,
    canonical_json,
)
from slipstream.builder.errors import InputError
from slipstream.builder.formats import NUMERICS
from slipstream.builder.plan.program import CpuProgram
from slipstream.builder.plan.tensors import TensorPlan
from slipstream.version import __version__

MAX_NAME = 200
# What of a target's entry was decided before it was compiled.
_TARGET_INPUTS = ("name", "section", "sm", "precision", "strategy", "provider_version")


def tensor_entry(plan: TensorPlan, offset: int) -> dict[str, Any]:
    return {
        "name": plan.name,
        "format": plan.format,
        "layout": plan.layout,
        "logical_shape": list(plan.logical_shape),
        "offset": offset,
        "size": plan.size_bytes,
        "scales": [],
        "shard": None,
        "updatable": plan.updatable,
        "updatable_reason": plan.updatable_reason,
        "sources": [
            {
                "checkpoint_name": source.checkpoint_name,
                "dims": list(source.dims),
                "segment": source.segment,
                "offset": source.offset,
                "transforms": list(source.transforms),
            }
            for source in plan.sources
        ],
    }


def make_manifest(
    *,
    model: dict[str, Any],
    config: dict[str, Any],
    limits: dict[str, int],
    quantization: dict[str, str],
    program: CpuProgram,
    targets: list[dict[str, Any]],
    tokenizer: dict[str, Any],
    sections: list[dict[str, Any]],
    tensors: list[dict[str, Any]],
) -> dict[str, Any]:
    """All keys in their places. `build_id` is a hash of everything that went in. GPU plans and what
    was measured of them are left out, since their compilers are not reproducible; their compiler's
    version stands for them."""
    manifest: dict[str, Any] = {
        "format": {"major": MAJOR, "minor": MINOR},
        "producer": {"name": "slipstream", "version": __version__},
        "required_features": [],
        "optional_features": [],
        "model": model,
        "config": config,
        "limits": limits,
        "numerics": NUMERICS,
        "quantization": quantization,
        "kv": {"groups": program.kv_groups},
        "memory": program.memory,
        "targets": targets,
        "parallel": {"tp": 1, "rank": 0},
        "tokenizer": tokenizer,
        "verification": {
            "algorithm": HASH_ALGORITHM,
            "chunk_bytes": CHUNK_BYTES,
            "section": "weight_hashes",
        },
        "weights_version": 0,
        "tensors": tensors,
    }
    own = {t["section"] for t in targets if "section" in t}
    foreign = {s["section"] for t in targets for s in t.get("segments", ())} - own
    identity = {
        **manifest,
        "targets": [{k: t[k] for k in _TARGET_INPUTS if k in t} for t in targets],
        "contents": {s["name"]: s["hash"] for s in sections if s["name"] not in foreign},
    }
    manifest["build_id"] = xxhash.xxh3_128_hexdigest(canonical_json(identity))
    manifest["sections"] = sections
    return manifest


def model_name(config: dict[str, Any], given: str | None = None) -> str:
    """The name that was given, else the checkpoint's own for itself, else its architecture: never
    the folder, so that the same checkpoint gives the same file wherever it lies."""
    if given is not None:
        if not 0 < len(given) <= MAX_NAME or not given.isprintable() or given != given.strip():
            raise InputError(
                f"--name is {given[:40]!r}; give 1 to {MAX_NAME} printable characters, without "
                "spaces at the ends"
            )
        return given
    name = config.get("_name_or_path")
    if isinstance(name, str) and name and not name.startswith(("/", ".", "~")):
        return name
    return str(config["architectures"][0])
