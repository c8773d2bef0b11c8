"""TensorRT plans as sections of an engine file, and what the manifest says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.builder.ir.graph import Graph
from slipstream.builder.targets.base import Weights, WriteSection
from slipstream.builder.targets.tensorrt.compile import (
    SegmentPlan,
    compile_segments,
    embedded_bytes,
)
from slipstream.builder.targets.tensorrt.provider import Provider
from slipstream.builder.targets.tensorrt.segments import cut

# What a plan holds beside its weights: code, gains, tables, descriptions. Seen: up to 0.9 MiB.
_PLAN_OVERHEAD_BYTES = 2 << 20


@dataclass(frozen=True)
class RtxProgram:
    """The plans of a portable graph for some compute capabilities."""

    graph: Graph
    provider: Provider
    sms: tuple[int, ...]
    max_tokens: int
    max_outputs: int

    @property
    def weight_bytes(self) -> int:
        return len(self.sms) * sum(embedded_bytes(self.graph, s) for s in cut(self.graph))

    @property
    def plan_bytes(self) -> int:
        plans = len(self.sms) * len(cut(self.graph))
        return self.weight_bytes + plans * _PLAN_OVERHEAD_BYTES

    def compile(self, weights: Weights, write: WriteSection) -> tuple[list[dict[str, Any]], str]:
        targets, lines = [], []
        for sm in self.sms:
            target, line = self._compile_for(sm, weights, write)
            targets.append(target)
            lines.append(line)
        return targets, "\n".join(lines)

    def _compile_for(
        self, sm: int, weights: Weights, write: WriteSection
    ) -> tuple[dict[str, Any], str]:
        entries, embedded, size = [], 0, 0
        for plan in compile_segments(
            self.graph,
            weights,
            self.provider,
            sm,
            max_tokens=self.max_tokens,
            max_outputs=self.max_outputs,
        ):
            section = f"plan.{self.provider.name}.sm{sm}.{plan.index}"
            write(section, plan.plan)
            entries.append(_entry(section, plan))
            embedded += plan.weights_bytes
            size += len(plan.plan)
        target = {
            "name": self.provider.name,
            "provider_version": self.provider.version,
            "sm": sm,
            "precision": "bf16",
            "strategy": "segmented",
            "segments": entries,
            # The plans hold their own copy of the weights, beside the weights section.
            "duplicated_weight_bytes": embedded,
        }
        line = (
            f"{self.provider.name} sm_{sm}: {len(entries)} plans between attention calls, {size} "
            f"bytes, of which {embedded} are a second copy of the weights; built, not run"
        )
        return target, line


def _entry(section: str, plan: SegmentPlan) -> dict[str, Any]:
    return {
        "section": section,
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "attention_layer": plan.attention_layer,
        "activation_bytes": plan.activation_bytes,
    }
