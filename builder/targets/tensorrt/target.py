"""The target tensorrt-rtx: a plan for each part between attention calls and compute capability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.builder.errors import UnsupportedError
from slipstream.builder.targets.tensorrt import provider

if TYPE_CHECKING:
    from slipstream.builder.ir.graph import Graph
    from slipstream.builder.targets.base import ExtraOptions, ExtraProgram


class RtxTarget:
    """Builds with TensorRT for RTX, without a GPU. Nothing here shows that a plan runs."""

    name = provider.RTX_NAME

    def check_sm(self, sm: tuple[int, ...]) -> None:
        provider.check_sms(sm)

    def prepare(self, graph: Graph, options: ExtraOptions) -> ExtraProgram:
        # Values between the plans and the attention kernels have one type, and so has the pool.
        for flag, value in (("--weights", options.weights), ("--kv-cache", options.kv_cache)):
            if value != "bf16":
                raise UnsupportedError(
                    f"{flag} is {value}, but the plans of --target {self.name} compute in bf16; "
                    f"use {flag} bf16 or --target cpu"
                )
        from slipstream.builder.targets.tensorrt.compile import check_operators
        from slipstream.builder.targets.tensorrt.engine_sections import RtxProgram

        check_operators(graph)
        return RtxProgram(
            graph,
            provider.load_rtx(),
            options.sm,
            max_tokens=options.max_num_tokens,
            max_outputs=options.max_batch_size,
        )


TARGET = RtxTarget()
