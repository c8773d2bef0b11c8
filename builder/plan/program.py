"""The result of compiling a graph for the CPU, and what the compiler reads of a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from slipstream.builder.plan.tensors import TensorPlan


class CompileOptions(Protocol):
    """The resolved fields of a build configuration that decide code and memory."""

    @property
    def weights(self) -> str: ...

    @property
    def kv_cache(self) -> str: ...

    @property
    def max_batch_size(self) -> int: ...

    @property
    def max_num_tokens(self) -> int: ...


@dataclass(frozen=True)
class CpuProgram:
    """Everything that the CPU target contributes to an engine file.

    `plan_json` is the `plan.cpu` section and `graph_json` the `graph` section, both as JSON values
    (docs/design/engine-file.md). `tensors` is the content of the weights section, in order.
    `kv_groups` is `kv.groups` of the manifest. `memory` is the manifest's `memory`:
    weights_bytes (without alignment padding), arena_bytes, arena_lower_bound_bytes and
    kv_bytes_per_token. `log` says what was fused and chosen, one line per decision.
    """

    plan_json: dict[str, Any]
    tensors: list[TensorPlan]
    kv_groups: list[dict[str, Any]]
    memory: dict[str, int]
    log: list[str] = field(default_factory=list)
    graph_json: dict[str, Any] = field(default_factory=dict)
