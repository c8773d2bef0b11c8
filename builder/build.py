"""From a checkpoint folder to an engine file.

`prepare` does everything that can be refused: configuration, tensors, text files, compilation. It
reads no weights. `build` then streams them into the file.

    report = build("SmolLM2-135M-Instruct", "smollm2.engine", BuildConfig(weights="f32"))
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder import native
from slipstream.builder.checkpoint import Checkpoint, TextFiles, read_text_files
from slipstream.builder.config import BuildConfig, ResolvedConfig
from slipstream.builder.engine import layout
from slipstream.builder.engine.writer import EngineWriter, check_output
from slipstream.builder.errors import InputError
from slipstream.builder.ir.graph import Graph
from slipstream.builder.manifest import make_manifest, model_name, tensor_entry
from slipstream.builder.models import (
    ModelSpec,
    TensorReport,
    build_graph,
    check_tensors,
    fix_length,
)
from slipstream.builder.models import parse_config as parse_model_config
from slipstream.builder.passes.manager import IrDumper
from slipstream.builder.plan.program import CpuProgram
from slipstream.builder.resolve import Change, resolve, rope_change
from slipstream.builder.targets.base import ExtraProgram, Weights
from slipstream.builder.targets.cpu import CpuTarget
from slipstream.builder.targets.portable import run_portable_passes
from slipstream.builder.targets.registry import extra_target
from slipstream.builder.weights import Progress, check_equal, read_f32, write_weights


@dataclass(frozen=True)
class Prepared:
    """A build that is known to succeed, but for the weights' values and the disk."""

    checkpoint: Checkpoint
    spec: ModelSpec
    tensors: TensorReport
    text: TextFiles
    requested: BuildConfig
    resolved: ResolvedConfig
    changes: list[Change]
    graph: Graph
    program: CpuProgram
    extra: ExtraProgram | None = None
    name: str = ""
    """The model's name in the file."""
    log: list[str] = field(default_factory=list)

    @property
    def file_bytes(self) -> int:
        """Upper estimate of the engine file's size."""
        tensors = self.program.tensors
        weights = sum(layout.align(t.size_bytes, layout.TENSOR_ALIGN) for t in tensors)
        hashes = layout.HASH_BYTES * (weights // layout.CHUNK_BYTES + 1)
        sections = sum(map(len, self.sections().values()))
        manifest = 1024 * len(tensors) + len(layout.canonical_json(self.checkpoint.config))
        extra = 0 if self.extra is None else self.extra.plan_bytes
        return weights + hashes + sections + manifest + extra + 16 * layout.SECTION_ALIGN

    def sections(self) -> dict[str, bytes]:
        """All sections but the weights and their hashes, in the order of the file."""
        out = {
            "graph": layout.canonical_json(self.program.graph_json),
            "plan.cpu": layout.canonical_json(self.program.plan_json),
            "tokenizer": self.text.tokenizer,
            "tokenizer_config": self.text.tokenizer_config,
        }
        if self.text.chat_template is not None:
            out["chat_template"] = self.text.chat_template
        out["generation_config"] = self.text.generation_config
        return out


@dataclass(frozen=True)
class BuildReport:
    """What a build made. Bytes and seconds."""

    path: Path
    build_id: str
    file_bytes: int
    seconds: float
    prepared: Prepared
    log: list[str]
    """What was fused, chosen and made, one line for each decision."""


def prepare(
    checkpoint: str | os.PathLike[str],
    config: BuildConfig | None = None,
    *,
    name: str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
) -> Prepared:
    """Checks a build and compiles its plan without reading a weight.

    `name` is the model's name in the file; None takes what the checkpoint calls itself.
    `dump_ir` gets the graph after every pass as numbered text files. SlipstreamError subclasses
    say what is wrong and the fix.
    """
    requested = config or BuildConfig()
    opened = Checkpoint(checkpoint)
    spec = parse_model_config(opened.config)
    shown_name = model_name(opened.config, name)
    resolved, changes = resolve(requested, spec.max_position_embeddings, spec.rope.context_limit)
    spec, fixed = fix_length(spec, resolved.max_seq_len)
    if fixed:
        changes.append(rope_change(fixed, resolved.max_seq_len))
    report = check_tensors(spec, opened.shapes)
    text = read_text_files(opened.folder, spec.vocab_size)
    native.check_tokenizer(text.tokenizer, str(opened.folder / "tokenizer.json"))
    dumper = IrDumper(Path(dump_ir)) if dump_ir is not None else None
    graph, portable_log = run_portable_passes(build_graph(spec), dumper)
    target = extra_target(resolved.target)
    extra = None if target is None else target.prepare(graph, resolved)
    program = CpuTarget().compile(graph, spec, resolved, dumper)
    for plan in program.tensors:
        for source in plan.sources:
            opened.tensor(source.checkpoint_name)  # Refuses a dtype that cannot be converted.
    for left_out, _ in report.must_equal:
        opened.tensor(left_out)
    ignored = [f"checkpoint: '{name}' is left out" for name in report.ignored]
    log = [*(f"{c.field} = {c.value}: {c.reason}" for c in changes), *ignored]
    log += [*text.log, *portable_log, *program.log]
    return Prepared(
        opened,
        spec,
        report,
        text,
        requested,
        resolved,
        changes,
        graph,
        program,
        extra,
        shown_name,
        log,
    )


def build(
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: BuildConfig | None = None,
    progress: Progress | None = None,
    *,
    name: str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
) -> BuildReport:
    """Builds one engine file. An existing `out` is replaced only when the new file is complete.

    `progress` gets (bytes done, bytes in all) of the weights. The same checkpoint and
    configuration give the same bytes. SlipstreamError subclasses say what is wrong and the fix;
    nothing is left behind then.
    """
    started = time.monotonic()
    path = Path(out)
    check_output(path, 0)
    prepared = prepare(checkpoint, config, name=name, dump_ir=dump_ir)
    check_output(path, prepared.file_bytes)
    _check_not_input(prepared.checkpoint, path)
    with EngineWriter(path) as writer:
        for left_out, kept in prepared.tensors.must_equal:
            check_equal(prepared.checkpoint, left_out, kept)
        for name, data in prepared.sections().items():
            writer.section(name, data)
        targets, log = [{"name": "cpu", "section": "plan.cpu"}], list(prepared.log)
        if prepared.extra is not None:
            # Before the weights: what the other compiler refuses is found early.
            added, line = prepared.extra.compile(_constants(prepared), writer.section)
            targets += added
            log.append(line)
        plans = prepared.program.tensors
        weights = writer.begin_weights()
        offsets = write_weights(weights, plans, prepared.checkpoint, progress)
        writer.end_weights(weights)
        tensors = [tensor_entry(p, o) for p, o in zip(plans, offsets, strict=True)]
        manifest = _finish(writer, prepared, targets, tensors)
        writer.finish(manifest)
    seconds = time.monotonic() - started
    return BuildReport(path, manifest["build_id"], path.stat().st_size, seconds, prepared, log)


def _constants(prepared: Prepared) -> Weights:
    """The constants of the portable graph, as the checkpoint holds them."""

    def read(name: str) -> NDArray[np.float32]:
        constant = prepared.graph.constants[name]
        if constant.checkpoint_name is None:
            return np.asarray(constant.values, np.float32).reshape(constant.shape)
        values = read_f32(prepared.checkpoint, constant.checkpoint_name)
        if constant.addend:
            values = values + np.float32(constant.addend)
        return values if constant.rows is None else values[slice(*constant.rows)]

    return read


def _finish(
    writer: EngineWriter,
    prepared: Prepared,
    targets: list[dict[str, Any]],
    tensors: list[dict[str, Any]],
) -> dict[str, Any]:
    """The whole manifest, once every section is written."""
    spec, resolved = prepared.spec, prepared.resolved
    bos, eos = end_ids(prepared)
    return make_manifest(
        model={
            "name": prepared.name,
            "architecture": spec.architecture,
            "family": spec.family,
            "config": prepared.checkpoint.config,
        },
        config={
            "requested": prepared.requested.to_json(),
            "resolved": resolved.to_json(),
            "changes": [change.to_json() for change in prepared.changes],
        },
        limits={
            "max_seq_len": resolved.max_seq_len,
            "max_batch_size": resolved.max_batch_size,
            "max_num_tokens": resolved.max_num_tokens,
            "vocab_size": spec.vocab_size,
        },
        quantization={"weights": resolved.weights, "kv_cache": resolved.kv_cache},
        program=prepared.program,
        targets=targets,
        tokenizer={"section": "tokenizer", "bos_token_id": bos, "eos_token_ids": list(eos)},
        sections=writer.sections,
        tensors=tensors,
    )


def end_ids(prepared: Prepared) -> tuple[int, tuple[int, ...]]:
    """(bos or -1, end ids): generation_config.json decides the ends, config.json is second."""
    spec, text = prepared.spec, prepared.text
    bos = spec.bos_token_id
    if bos < 0 and text.bos_token_id is not None:
        bos = text.bos_token_id
    return bos, spec.eos_token_ids if text.eos_token_ids is None else text.eos_token_ids


def _check_not_input(checkpoint: Checkpoint, path: Path) -> None:
    """The output must not replace a file that the build still reads."""
    if not path.exists():
        return
    for source in (*checkpoint.files, *checkpoint.folder.glob("*.json")):
        if source.exists() and path.samefile(source):
            raise InputError(f"{path} is part of the checkpoint; give another name with -o")
