"""The CPU target: passes, lowering and memory plan for the embedded runtime."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.builder.ir.graph import Graph
from slipstream.builder.ir.serialize import graph_to_json
from slipstream.builder.models.spec import ModelSpec
from slipstream.builder.passes.base import Pass
from slipstream.builder.passes.fuse_gate_up import FuseGateUp
from slipstream.builder.passes.fuse_qkv import FuseQkv
from slipstream.builder.passes.fuse_residual_norm import FuseResidualNorm
from slipstream.builder.passes.fuse_rope_kv import FuseRopeKv
from slipstream.builder.passes.manager import IrDumper, PassManager
from slipstream.builder.passes.sink_select_rows import SinkSelectRows
from slipstream.builder.plan.capability import check_lowered, check_options
from slipstream.builder.plan.kv_groups import plan_kv_groups
from slipstream.builder.plan.lowering import lower
from slipstream.builder.plan.program import CompileOptions, CpuProgram


class CpuTarget:
    """Plans for x86-64 CPUs (docs/design/engine-file.md, "CPU plan")."""

    name = "cpu"

    def check(self, graph: Graph, options: CompileOptions) -> None:
        check_options(graph, options)

    def passes(self) -> Sequence[Pass]:
        return (SinkSelectRows(), FuseQkv(), FuseGateUp(), FuseResidualNorm(), FuseRopeKv())

    def compile(
        self,
        graph: Graph,
        spec: ModelSpec,
        options: CompileOptions,
        dumper: IrDumper | None = None,
    ) -> CpuProgram:
        self.check(graph, options)
        fused, log = PassManager(self.passes(), dumper).run(graph)
        check_lowered(fused)
        groups = plan_kv_groups(fused, options.kv_cache)
        lowered = lower(fused, groups, options)
        kv_per_token = sum(g.bytes_per_block // g.block_tokens for g in groups)
        memory = {
            "weights_bytes": sum(t.size_bytes for t in lowered.tensors),
            "arena_bytes": lowered.memory.arena_bytes,
            "arena_lower_bound_bytes": lowered.memory.lower_bound_bytes,
            "kv_bytes_per_token": kv_per_token,
        }
        return CpuProgram(
            plan_json=lowered.plan_json,
            tensors=lowered.tensors,
            kv_groups=[g.to_json() for g in groups],
            memory=memory,
            log=[_header(spec, options), *log, *lowered.log],
            graph_json=graph_to_json(graph),
        )


def _header(spec: ModelSpec, options: CompileOptions) -> str:
    return (
        f"cpu: {spec.architecture}, {spec.num_layers} layers, weights in {options.weights}, "
        f"KV cache in {options.kv_cache}"
    )
