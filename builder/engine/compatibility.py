"""What a sound file may ask for that this version cannot run: the list of the C++ loader, so that
the cache and `inspect` refuse what a runtime would. No numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slipstream._shown import excerpt, name_excerpt
from slipstream.builder.engine import layout
from slipstream.builder.formats import (
    KV_BLOCK_TOKENS,
    KV_FORMATS,
    NUMERICS,
    WEIGHT_FORMATS,
    kv_scale_granularity,
)

# A message lists so many things of a kind; a hostile file may have thousands.
_MOST_LISTED = 20
_NEWER = "use a newer version of Slipstream"
_RUNS = f"this version runs {', '.join(WEIGHT_FORMATS[:-1])} and {WEIGHT_FORMATS[-1]}"
_CACHES = f"this version runs {', '.join(KV_FORMATS[:-1])} and {KV_FORMATS[-1]}"


@dataclass(frozen=True)
class Mismatch:
    """A thing that does not fit, and what to do about it."""

    problem: str
    fix: str


def check_compatibility(manifest: dict[str, Any]) -> list[Mismatch]:
    """Everything in a checked manifest that this version cannot run; from the manifest alone."""
    found = [*_features(manifest), *_numbers(manifest), *_targets(manifest)]
    return [*found, *_kv(manifest), *_tensors(manifest["tensors"])]


def explain(path: object, mismatches: list[Mismatch]) -> str:
    lines = [f"- {m.problem}. Fix: {m.fix}." for m in mismatches[:_MOST_LISTED]]
    if len(mismatches) > _MOST_LISTED:
        lines.append(f"- and {len(mismatches) - _MOST_LISTED} more.")
    return "\n".join([f"{path} is sound, but cannot run here:", *lines])


def _features(m: dict[str, Any]) -> Iterator[Mismatch]:
    producer = m["producer"]
    by = f"(the file was built by {excerpt(producer['name'])} {excerpt(producer['version'])})"
    for feature in m["required_features"]:
        problem = f'it requires the feature "{excerpt(feature)}", which this version does not know'
        yield Mismatch(problem, f"{_NEWER} {by}")


def _numbers(m: dict[str, Any]) -> Iterator[Mismatch]:
    if m["numerics"] != NUMERICS:
        yield Mismatch(
            f'its numerics contract is "{excerpt(m["numerics"])}"; this version computes by '
            f'"{NUMERICS}"',
            f"rebuild the engine with this version, or {_NEWER}",
        )
    weights = m["quantization"]["weights"]
    if weights not in WEIGHT_FORMATS:
        yield Mismatch(
            f'its weights are "{excerpt(weights)}"; {_RUNS}',
            f"rebuild it with --weights bf16, or {_NEWER}",
        )
    if m["parallel"]["tp"] != 1:
        yield Mismatch(
            f"it is split over tp = {m['parallel']['tp']} ranks; this version runs tp = 1",
            "rebuild it without tensor parallelism",
        )
    algorithm = m["verification"]["algorithm"]
    if algorithm != layout.HASH_ALGORITHM:
        yield Mismatch(
            f'its weights are hashed by "{excerpt(algorithm)}"; this version checks '
            f"{layout.HASH_ALGORITHM}",
            _NEWER,
        )


def _targets(m: dict[str, Any]) -> Iterator[Mismatch]:
    cpu = next((t for t in m["targets"] if t["name"] == "cpu"), None)
    if cpu is None or "segments" in cpu:
        names = ", ".join(excerpt(t["name"]) for t in m["targets"][:_MOST_LISTED]) or "none"
        names += ", ..." if len(m["targets"]) > _MOST_LISTED else ""
        yield Mismatch(
            f"it holds no plan for the target cpu (its targets: {names})",
            "rebuild it with --target cpu",
        )


def _kv(m: dict[str, Any]) -> Iterator[Mismatch]:
    rebuild = f"rebuild it with --kv-cache bf16, or {_NEWER}"
    cache = m["quantization"]["kv_cache"]
    if cache not in KV_FORMATS:
        yield Mismatch(f'its KV cache is "{excerpt(cache)}"; {_CACHES}', rebuild)
    groups = m["kv"]["groups"]
    if not groups:
        yield Mismatch("it has no KV cache group", "rebuild it with this version")
    for i, group in enumerate(groups):
        where, kind, dtype = f"KV group {i}", group["kind"], group["dtype"]
        if kind not in ("full", "window"):
            yield Mismatch(
                f'{where} is of kind "{excerpt(kind)}"; this version runs full and window', _NEWER
            )
        if dtype not in KV_FORMATS:
            yield Mismatch(f'{where} holds "{excerpt(dtype)}"; {_CACHES}', rebuild)
        granularity = kv_scale_granularity(dtype)
        if group["scale_granularity"] != granularity:
            yield Mismatch(
                f'{where} has scales of granularity "{excerpt(group["scale_granularity"])}"; '
                f"this version runs {granularity} for {excerpt(dtype)}",
                rebuild,
            )
        if group["block_tokens"] != KV_BLOCK_TOKENS:
            yield Mismatch(
                f"{where} has blocks of {group['block_tokens']} tokens; this version runs "
                f"{KV_BLOCK_TOKENS}",
                "rebuild it with this version",
            )


def _tensors(tensors: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """One line for each kind of problem, with the first tensor as the example."""
    names: dict[str, list[str]] = {}
    for tensor in tensors:
        if tensor["format"] not in WEIGHT_FORMATS:
            names.setdefault(f'the format "{excerpt(tensor["format"])}"', []).append(tensor["name"])
        if tensor["layout"] not in layout.LAYOUTS:
            names.setdefault(f'the layout "{excerpt(tensor["layout"])}"', []).append(tensor["name"])
        if tensor["scales"]:
            names.setdefault("scales", []).append(tensor["name"])
        if tensor["shard"] is not None:
            names.setdefault("shards", []).append(tensor["name"])
    for problem, users in sorted(names.items()):
        yield Mismatch(
            f'{len(users)} tensors use {problem} (such as "{name_excerpt(users[0])}"), which this '
            "version does not know",
            _NEWER,
        )
