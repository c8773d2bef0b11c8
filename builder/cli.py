"""`build-engine CHECKPOINT -o FILE.engine`: compile a checkpoint into one engine file."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from slipstream._streams import discard_stdout, prepare_streams
from slipstream.builder.config import TARGETS, BuildConfig, parse_sm
from slipstream.builder.formats import KV_FORMATS, WEIGHT_FORMATS
from slipstream.errors import InternalError, SlipstreamError
from slipstream.version import __version__

if TYPE_CHECKING:
    from slipstream.builder.build import BuildReport, Prepared


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, as an exception, so that the partial file is removed on the way out."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 the work failed, 2 the input was wrong, 128 + N ended by signal N."""
    prepare_streams()
    try:
        args = make_parser().parse_args(argv)
    except SystemExit as end:  # argparse has printed its message.
        return int(end.code or 0)
    previous = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number in previous:
            signal.signal(number, _terminate)
        code = _dry_run(args) if args.dry_run else _build(args)
        sys.stdout.flush()
        return code
    except InternalError as error:
        return _fail(f"{error}. This is a defect of Slipstream; please report it.", 1)
    except SlipstreamError as error:
        return _fail(str(error), error.exit_code)
    except MemoryError:
        return _fail("out of memory; close other programs or build on a larger machine", 1)
    except BrokenPipeError:  # The reader of the report has gone, as in `| head`.
        discard_stdout()
        return 1
    except OSError as error:
        discard_stdout()
        place = f"{error.filename}: " if error.filename else "the report cannot be printed: "
        return _fail(f"{place}{error.strerror or error}", 1)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was written", 130)
    except _Terminated as end:
        return _fail("terminated; nothing was written", end.exit_code)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated(number)


def _fail(message: str, code: int) -> int:
    print(f"build-engine: error: {message}", file=sys.stderr)
    return code


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build-engine",
        description="Compile a Hugging Face checkpoint folder into one .engine file.",
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="folder with config.json")
    parser.add_argument("-o", "--output", metavar="FILE", help="the engine file to write")
    parser.add_argument(
        "--weights",
        choices=WEIGHT_FORMATS,
        default="bf16",
        help="format of the weights (default: bf16)",
    )
    parser.add_argument(
        "--kv-cache", choices=KV_FORMATS, default="bf16", help="format of the cache (default: bf16)"
    )
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="cpu",
        help="what to compile for beside the CPU, which every engine runs on (default: cpu alone)",
    )
    parser.add_argument(
        "--sm", metavar="N[,N]", help="compute capabilities of the GPUs to compile for, e.g. 89,120"
    )
    parser.add_argument(
        "--max-seq-len",
        type=int,
        metavar="N",
        help="tokens of the longest sequence (default: the model's context, at most 8192)",
    )
    parser.add_argument(
        "--max-batch-size", type=int, metavar="N", help="sequences of one step (default: 64)"
    )
    parser.add_argument(
        "--max-num-tokens", type=int, metavar="N", help="tokens of one step (default: 512)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check and report, write nothing")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")
    parser.add_argument(
        "--name",
        metavar="TEXT",
        help="name of the model in the file (default: what the checkpoint says, else its kind)",
    )
    parser.add_argument("--dump-ir", metavar="DIR", help="write the graph after every pass to DIR")
    parser.add_argument("--version", action="version", version=f"build-engine {__version__}")
    return parser


def _config(args: argparse.Namespace) -> BuildConfig:
    return BuildConfig(
        weights=args.weights,
        kv_cache=args.kv_cache,
        target=args.target,
        sm=() if args.sm is None else parse_sm(args.sm),
        max_seq_len=args.max_seq_len,
        max_batch_size=args.max_batch_size,
        max_num_tokens=args.max_num_tokens,
    )


def _build(args: argparse.Namespace) -> int:
    from slipstream._progress import ProgressBar
    from slipstream.builder.build import build

    if args.output is None:
        return _fail("give the engine file to write with -o FILE.engine, or use --dry-run", 2)
    with ProgressBar("weights") as bar:
        report = build(
            args.checkpoint,
            args.output,
            _config(args),
            bar.update,
            name=args.name,
            dump_ir=args.dump_ir,
        )
    if args.json:
        print(_json(build_facts(report)))
        return 0
    for line in report.log:
        print(line)
    print(
        f"{report.path}: {_size(report.file_bytes)}, build {report.build_id}, in "
        f"{report.seconds:.1f} s, peak memory {_size(_peak_bytes())}"
    )
    return 0


def _dry_run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from slipstream.builder.build import prepare
    from slipstream.builder.engine.writer import check_output

    prepared = prepare(args.checkpoint, _config(args), name=args.name, dump_ir=args.dump_ir)
    if args.output is not None:
        check_output(Path(args.output), prepared.file_bytes)
    facts = dry_run_facts(prepared)
    if args.json:
        print(_json(facts))
        return 0
    for line in prepared.log:
        print(line)
    memory, pool = facts["memory"], facts["default_kv_pool"]
    print(f"engine file   about {_size(facts['file_bytes'])}")
    print(f"weights       {_size(memory['weights_bytes'])}")
    plans = facts["extra_plans"]
    if plans is not None:
        names = ", ".join(f"sm_{sm}" for sm in plans["sm"])
        print(
            f"GPU plans     about {_size(plans['bytes'])} for {names}: they hold copies of the "
            f"weights, {_size(plans['weights_bytes'])} in all; built without a GPU, not run"
        )
    print(
        f"arena         {_size(memory['arena_bytes'])} (lower bound "
        f"{_size(memory['arena_lower_bound_bytes'])})"
    )
    print(f"KV per token  {memory['kv_bytes_per_token']} bytes ({_caches(prepared)})")
    print(
        f"default pool  {_size(pool['bytes'])} on this machine now: {pool['tokens']} tokens, "
        f"{pool['full_sequences']} sequences of {facts['resolved']['max_seq_len']}"
    )
    return 0


def dry_run_facts(prepared: Prepared) -> dict[str, Any]:
    """What a build would make, as a JSON value. Sizes in bytes; docs/cli.md lists the keys."""
    resolved = prepared.resolved
    # The runtime's default: a quarter of the free memory, at most what the limits can use.
    blocks_per_sequence = -(-resolved.max_seq_len // _block_tokens(prepared))
    per_block = sum(group["bytes_per_block"] for group in prepared.program.kv_groups)
    most = resolved.max_batch_size * blocks_per_sequence
    blocks = min(_available_bytes() // 4 // per_block, most)
    pool = {
        "bytes": blocks * per_block,
        "tokens": blocks * _block_tokens(prepared),
        "full_sequences": blocks // blocks_per_sequence,
    }
    return {
        **_compiled_facts(prepared),
        "file_bytes": prepared.file_bytes,
        "default_kv_pool": pool,
        "log": prepared.log,
    }


def build_facts(report: BuildReport) -> dict[str, Any]:
    """What a build made, as a JSON value. Bytes and seconds; docs/cli.md lists the keys."""
    return {
        **_compiled_facts(report.prepared),
        "path": str(report.path),
        "build_id": report.build_id,
        "file_bytes": report.file_bytes,
        "seconds": report.seconds,
        "peak_memory_bytes": _peak_bytes(),
        "log": report.log,
    }


def _compiled_facts(prepared: Prepared) -> dict[str, Any]:
    return {
        "name": prepared.name,
        "architecture": prepared.spec.architecture,
        "requested": prepared.requested.to_json(),
        "resolved": prepared.resolved.to_json(),
        "changes": [change.to_json() for change in prepared.changes],
        "memory": dict(prepared.program.memory),
        "kv_groups": prepared.program.kv_groups,
        "extra_plans": _extra_plans(prepared),
    }


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True)


def _extra_plans(prepared: Prepared) -> dict[str, Any] | None:
    if prepared.extra is None:
        return None
    return {
        "target": prepared.resolved.target,
        "sm": list(prepared.resolved.sm),
        "bytes": prepared.extra.plan_bytes,
        "weights_bytes": prepared.extra.weight_bytes,
    }


def _caches(prepared: Prepared) -> str:
    """The formats of the KV groups, with the granularity of their scales."""
    found = {g["dtype"]: g["scale_granularity"] for g in prepared.program.kv_groups}
    return ", ".join(
        fmt if scales == "none" else f"{fmt}, a scale for each {scales.replace('_', ' and ')}"
        for fmt, scales in found.items()
    )


def _block_tokens(prepared: Prepared) -> int:
    return max(int(group["block_tokens"]) for group in prepared.program.kv_groups)


def _available_bytes() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _size(count: int) -> str:
    """Bytes for people, in powers of 1024."""
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


if __name__ == "__main__":
    sys.exit(main())
