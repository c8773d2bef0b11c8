"""`slipstream inspect FILE`: what an engine file holds. Imports neither numpy nor the compiler."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from slipstream.builder import strict_json
from slipstream.builder.engine.reader import EngineReader
from slipstream.errors import CorruptFileError, SlipstreamError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 2 when the file or the arguments are wrong, 1 when reading failed."""
    try:
        args = make_parser().parse_args(argv)
    except SystemExit as end:  # argparse has printed its message.
        return int(end.code or 0)
    try:
        with EngineReader(args.file) as engine:
            if args.verify == "full":
                engine.verify_full()
            print(_text(engine, args))
    except SlipstreamError as error:
        print(f"slipstream inspect: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream inspect", description="Check an engine file and print what it holds."
    )
    parser.add_argument("file", metavar="FILE", help="an .engine file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="the whole manifest as JSON")
    what.add_argument("--plan", action="store_true", help="the CPU plan as JSON")
    what.add_argument("--tensors", action="store_true", help="a line for each tensor")
    what.add_argument("--config", action="store_true", help="the model's config.json")
    parser.add_argument(
        "--verify",
        choices=("default", "full"),
        default="default",
        help="full also checks every byte of the weights",
    )
    return parser


def _text(engine: EngineReader, args: argparse.Namespace) -> str:
    manifest = engine.manifest
    if args.json:
        return _json(manifest)
    if args.config:
        return _json(manifest["model"]["config"])
    if args.plan:
        return _json(_section(engine, "plan.cpu"))
    if args.tensors:
        return "\n".join(_tensor(tensor) for tensor in manifest["tensors"])
    return "\n".join(_summary(engine, args.verify == "full"))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _tensor(tensor: dict[str, Any]) -> str:
    shape = "x".join(map(str, tensor["logical_shape"]))
    sources = ", ".join(
        f"{source['segment']}={source['checkpoint_name']}"
        if source["segment"]
        else source["checkpoint_name"]
        for source in tensor["sources"]
    )
    return (
        f"{tensor['name']}  {tensor['format']} {tensor['layout']} {shape}  at {tensor['offset']}, "
        f"{tensor['size']} bytes  from {sources or tensor['updatable_reason'] or 'the builder'}"
    )


def _summary(engine: EngineReader, verified: bool) -> list[str]:
    m = engine.manifest
    limits, memory, form = m["limits"], m["memory"], m["format"]
    checked = "everything" if verified else "everything but the weights' bytes"
    lines = [
        f"{engine.path}: engine format {form['major']}.{form['minor']}, {engine.size} bytes, "
        f"sound ({checked} checked)",
        f"model       {m['model']['name']} ({m['model']['architecture']})",
        f"build       {m['build_id']} by {m['producer']['name']} {m['producer']['version']}",
        f"formats     weights {m['quantization']['weights']}, KV cache "
        f"{m['quantization']['kv_cache']}, numerics {m['numerics']}",
        f"limits      {limits['max_seq_len']} tokens a sequence, {limits['max_batch_size']} "
        f"sequences and {limits['max_num_tokens']} tokens a step, vocabulary "
        f"{limits['vocab_size']}",
        f"memory      weights {memory['weights_bytes']}, arena {memory['arena_bytes']} (lower "
        f"bound {memory['arena_lower_bound_bytes']}), KV {memory['kv_bytes_per_token']} bytes a "
        "token",
    ]
    lines += ["", "targets", *(_target(engine, target) for target in m["targets"])]
    lines += ["", "configuration (requested -> resolved)"]
    lines += _configuration(m["config"])
    lines += ["", "KV groups"]
    for group in m["kv"]["groups"]:
        window = f" of {group['window']}" if group["window"] else ""
        scales = group["scale_granularity"].replace("_", " and ")
        scales = "" if scales == "none" else f" with a scale for each {scales}"
        lines.append(
            f"  {group['kind']}{window}: {len(group['layers'])} layers, {group['kv_heads']} heads "
            f"x {group['head_dim']}, {group['dtype']}{scales}, {group['bytes_per_block']} bytes "
            f"a block of {group['block_tokens']} tokens"
        )
    lines += ["", "plan", *_plan(engine)]
    lines += ["", "sections"]
    width = max(len(section["name"]) for section in m["sections"])
    for section in m["sections"]:
        lines.append(
            f"  {section['name']:<{width}} {section['size']:>14} bytes at {section['offset']}"
        )
    lines.append(f"  {len(m['tensors'])} tensors in weights")
    return lines


def _target(engine: EngineReader, target: dict[str, Any]) -> str:
    plans = target.get("segments", [target])
    size = sum(engine.sections[plan["section"]]["size"] for plan in plans)
    count = f"{len(plans)} plan{'' if len(plans) == 1 else 's'}"
    if target["name"] == "cpu":
        return f"  cpu: {count}, {size} bytes"
    where = f" sm_{target['sm']}" if "sm" in target else ""
    line = f"  {target['name']}{where}: {count}, {size} bytes"
    if "duplicated_weight_bytes" in target:
        line += f", of which {target['duplicated_weight_bytes']} are copies of weights"
    return f"{line}; built, not run"


def _configuration(config: dict[str, Any]) -> list[str]:
    reasons = {change["field"]: change["reason"] for change in config["changes"]}
    lines = []
    resolved, requested = config["resolved"], config["requested"]
    if not isinstance(resolved, dict) or not isinstance(requested, dict):
        return ["  (not an object)"]
    for key, value in sorted(resolved.items()):
        asked = requested.get(key)
        if asked == value:
            lines.append(f"  {key} = {value}")
        else:
            shown = "-" if asked is None else asked
            lines.append(f"  {key} = {shown} -> {value} ({reasons.get(key, 'no reason given')})")
    # What is decided without being a field of the configuration, like fixed RoPE frequencies.
    for change in config["changes"]:
        if change["field"] not in resolved:
            shown = f"{change['field']} = {change['from']} -> {change['to']}"
            lines.append(f"  {shown} ({change['reason']})")
    return lines


def _plan(engine: EngineReader) -> list[str]:
    steps, nodes = _list(engine, "plan.cpu", "steps"), _list(engine, "graph", "nodes")
    ops = Counter(str(step.get("op")) for step in steps)
    names = ", ".join(f"{count} {op}" for op, count in sorted(ops.items()))
    return [
        f"  {len(nodes)} operators of the graph became {len(steps)} steps",
        f"  {names}",
    ]


def _list(engine: EngineReader, section: str, key: str) -> list[dict[str, Any]]:
    """A list of objects in a section. Its hash is right, but who wrote it need not be."""
    value = _section(engine, section)
    items = value.get(key) if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise CorruptFileError(
            f"{engine.path} was not written by a working builder: the section {section} holds no "
            f"list of objects '{key}'. Rebuild it."
        )
    return items


def _section(engine: EngineReader, name: str) -> Any:
    try:
        return strict_json.loads(engine.section(name))
    except strict_json.JsonError as error:
        raise CorruptFileError(
            f"{engine.path} was not written by a working builder: the section {name} {error}. "
            "Rebuild it."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
