"""A fused graph -> the CPU plan: steps over values at static offsets, and the tensors they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.builder.errors import InternalError
from slipstream.builder.formats import BLOCK_ROWS, NUMERICS
from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.types import Rows
from slipstream.builder.plan.kv_groups import KvGroup
from slipstream.builder.plan.memory import ALIGN, Buffer, MemoryPlan, plan_memory
from slipstream.builder.plan.program import CompileOptions
from slipstream.builder.plan.tensors import TensorPlan, pad_rows
from slipstream.builder.plan.weights import WeightPlanner

PLAN_VERSION = 1
_STEP_INPUTS = frozenset({"token_ids", "positions", "output_rows"})


@dataclass(frozen=True)
class LoweredPlan:
    plan_json: dict[str, Any]
    tensors: list[TensorPlan]
    memory: MemoryPlan
    log: list[str]


def lower(graph: Graph, groups: Sequence[KvGroup], options: CompileOptions) -> LoweredPlan:
    """Makes the `plan.cpu` JSON value (docs/design/engine-file.md) and the list of tensors."""
    return _Lowering(graph, groups, options).run()


class _Lowering:
    def __init__(self, graph: Graph, groups: Sequence[KvGroup], options: CompileOptions) -> None:
        self._graph = graph
        self._options = options
        self._weights = WeightPlanner(graph, options.weights)
        self._layers = {
            layer: (group, index)
            for group, item in enumerate(groups)
            for index, layer in enumerate(item.layers)
        }
        heads = {s.weight for n in graph.nodes for s in n.segments}
        self._tied = heads & {n.weights.get("table", "") for n in graph.nodes}
        self._index: dict[str, int] = {}
        self._values: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []

    def run(self) -> LoweredPlan:
        for node in self._graph.nodes:
            self._step(node)
        memory = self._assign_offsets()
        results = {role: self._index[value] for role, value in self._graph.results.items()}
        plan = {
            "version": PLAN_VERSION,
            "numerics": NUMERICS,
            "arena_bytes": memory.arena_bytes,
            "max_tokens": self._options.max_num_tokens,
            "max_outputs": self._options.max_batch_size,
            "values": self._values,
            "steps": self._steps,
            "results": results,
        }
        bound = memory.lower_bound_bytes
        over = 100.0 * (memory.arena_bytes - bound) / bound if bound else 0.0
        log = [
            f"lowering: {len(self._steps)} steps over {len(self._values)} values, "
            f"{len(self._weights.tensors)} tensors",
            f"memory: arena of {memory.arena_bytes} bytes, {over:.1f}% above the lower bound of "
            f"{bound}",
        ]
        if self._tied:
            log.append("weights: the head shares the embedding's tensor (tied)")
        return LoweredPlan(plan, self._weights.tensors, memory, log)

    def _value(self, name: str, cols: int) -> int:
        rows = self._graph.values[name].rows
        if not isinstance(rows, Rows):
            raise InternalError(f"value {name} has a fixed number of rows")
        self._index[name] = len(self._values)
        self._values.append(
            {
                "name": name,
                "rows": rows.value,
                "cols": cols,
                "stride": -(-cols // BLOCK_ROWS) * BLOCK_ROWS,
                "offset": 0,
            }
        )
        return self._index[name]

    def _step(self, node: Node) -> None:
        op, weights, attrs = _OPS[node.op](self, node)
        cols = [self._graph.values[out].cols for out in node.outputs]
        if op == "linear":
            # A linear writes its padding rows too: zeros, since their weights are zero.
            cols = [sum(pad_rows(s.rows) for s in node.segments)]
        elif op == "linear_glu":
            cols = [pad_rows(node.segments[0].rows)]
        inputs = [self._index[i] for i in node.inputs if i not in _STEP_INPUTS]
        outputs = [self._value(out, c) for out, c in zip(node.outputs, cols, strict=True)]
        self._steps.append(
            {"op": op, "inputs": inputs, "outputs": outputs, "weights": weights, "attrs": attrs}
        )

    def _assign_offsets(self) -> MemoryPlan:
        """Lifetimes in steps; results live to the end, so that they can be read after the step."""
        end = len(self._steps)
        first = [0] * len(self._values)
        last = [0] * len(self._values)
        for number, step in enumerate(self._steps):
            for value in step["outputs"]:
                first[value] = last[value] = number
            for value in step["inputs"]:
                last[value] = number
        for result in self._graph.results.values():
            last[self._index[result]] = end
        rows = {
            Rows.TOKENS.value: self._options.max_num_tokens,
            Rows.OUTPUTS.value: self._options.max_batch_size,
        }
        buffers = [
            Buffer(rows[v["rows"]] * v["stride"] * 4, first[i], last[i])
            for i, v in enumerate(self._values)
        ]
        memory = plan_memory(buffers)
        for value, offset in zip(self._values, memory.offsets, strict=True):
            if offset % ALIGN:
                raise InternalError(f"value {value['name']} is at the unaligned offset {offset}")
            value["offset"] = offset
        return memory

    # One method per operator: (name in the plan, weights by role, attributes).

    def _embedding(self, node: Node) -> _Lowered:
        constant = node.weights["table"]
        table = self._weights.table("embed", constant, tied=constant in self._tied)
        return "embedding", {"table": table}, {}

    def _rope_table(self, node: Node) -> _Lowered:
        constant = node.weights["inv_freq"]
        weights = {"inv_freq": self._weights.vector(constant, constant)}
        return "rope_table", weights, {"attention_factor": node.attrs["attention_factor"]}

    def _norm(self, node: Node) -> _Lowered:
        gain = self._weights.vector(f"{_tensor_name(node)}.gain", node.weights["gain"])
        return node.op, {"gain": gain}, {"eps": node.attrs["eps"]}

    def _plain(self, node: Node) -> _Lowered:
        return node.op, {}, dict(node.attrs)

    def _linear_weights(self, node: Node) -> dict[str, str]:
        name = _tensor_name(node)
        weights = {"w": self._weights.matrix(name, node.segments)}
        bias = self._weights.bias(name, node.segments)
        if bias is not None:
            weights["bias"] = bias
        return weights

    def _linear(self, node: Node) -> _Lowered:
        return "linear", self._linear_weights(node), {}

    def _linear_glu(self, node: Node) -> _Lowered:
        gate_row, up_row = self._weights.packed_offsets(node.segments)
        attrs = {"activation": node.attrs["activation"], "gate_row": gate_row, "up_row": up_row}
        return "linear_glu", self._linear_weights(node), attrs

    def _layer_attrs(self, node: Node) -> dict[str, Any]:
        group, index = self._layers[node.layer]
        attrs: dict[str, Any] = {"group": group, "layer": index}
        for key in ("heads", "kv_heads", "head_dim"):
            attrs[key] = node.attrs[key]
        return attrs

    def _rope_kv_write(self, node: Node) -> _Lowered:
        producer = self._graph.producers()[node.inputs[0]]
        columns = self._weights.packed_offsets(producer.segments)
        attrs = {
            **self._layer_attrs(node),
            "rotary_dim": node.attrs["rotary_dim"],
            **dict(zip(("q_col", "k_col", "v_col"), columns, strict=True)),
        }
        weights = {
            role: self._weights.vector(f"layers.{node.layer}.{role}", node.weights[role])
            for role in ("q_gain", "k_gain")
            if role in node.weights
        }
        if weights:
            attrs["eps"] = node.attrs["eps"]
        return "rope_kv_write", weights, attrs

    def _attention(self, node: Node) -> _Lowered:
        attrs = {**self._layer_attrs(node), "scale": node.attrs["scale"]}
        if "softcap" in node.attrs:
            attrs["softcap"] = node.attrs["softcap"]
        weights = {}
        if "sinks" in node.weights:
            name = f"layers.{node.layer}.sinks"
            weights["sinks"] = self._weights.vector(name, node.weights["sinks"])
        return "attention", weights, attrs


_Lowered = tuple[str, dict[str, str], dict[str, Any]]

_OPS = {
    "embedding": _Lowering._embedding,
    "rope_table": _Lowering._rope_table,
    "rms_norm": _Lowering._norm,
    "add_rms_norm": _Lowering._norm,
    "add": _Lowering._plain,
    "scale": _Lowering._plain,
    "softcap": _Lowering._plain,
    "select_rows": _Lowering._plain,
    "linear": _Lowering._linear,
    "linear_glu": _Lowering._linear_glu,
    "rope_kv_write": _Lowering._rope_kv_write,
    "attention_kv": _Lowering._attention,
}


def _tensor_name(node: Node) -> str:
    return {"logits": "head", "hidden": "final_norm"}.get(node.name, node.name)
