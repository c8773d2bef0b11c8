"""Runs a CPU plan in numpy exactly as its JSON says: one arena of bytes, values at their offsets
and strides, packed rows with their padding. An oracle for the lowering and the memory plan, apart
from the interpreter and from the C++ runtime.

One sequence per slot; each step runs a list of (slot, tokens). Weights stay in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.plan.program import CpuProgram
from slipstream.builder.plan.tensors import TensorPlan

Array = NDArray[Any]


def packed(plan: TensorPlan, weights: Callable[[str], Array]) -> Array:
    """Logical rows placed at their packed offsets, zeros between."""
    if plan.literal is not None:
        return np.frombuffer(plan.literal, "<f4").reshape(plan.logical_shape)
    out = np.zeros((plan.packed_rows, *plan.logical_shape[1:]), np.float32)
    for source in plan.sources:
        array = weights(source.checkpoint_name)
        assert array.shape == source.dims
        for transform in source.transforms:
            kind, *numbers = transform.split(":")
            if kind == "add":
                array = array.astype(np.float32) + np.float32(numbers[0])
                continue
            assert kind == "rows"
            array = array[int(numbers[0]) : int(numbers[1])]
        out[source.offset : source.offset + len(array)] = array
    return out


class PlanRunner:
    def __init__(self, program: CpuProgram, weights: Callable[[str], Array]) -> None:
        self.plan = program.plan_json
        self.groups = program.kv_groups
        self.tensors = {t.name: packed(t, weights) for t in program.tensors}
        self.arena = np.full(self.plan["arena_bytes"] // 4, np.nan, np.float32)
        self.cache: dict[tuple[int, int, int], tuple[Array, Array]] = {}
        self.lengths: dict[int, int] = {}

    def view(self, index: int) -> Array:
        """The live rows of a value inside the arena."""
        value = self.plan["values"][index]
        rows = self.rows[value["rows"]]
        assert value["offset"] % 64 == 0 and value["stride"] % 16 == 0
        start = value["offset"] // 4
        flat = self.arena[start : start + rows * value["stride"]]
        assert len(flat) == rows * value["stride"], "a value ends outside of the arena"
        return flat.reshape(rows, value["stride"])[:, : value["cols"]]

    def step(
        self, chunks: Sequence[tuple[int, Sequence[int]]], outputs: Sequence[int]
    ) -> tuple[Array, Array]:
        """Logits and hidden rows, as copies."""
        self.tokens = np.concatenate([np.asarray(t) for _, t in chunks])
        self.positions = np.concatenate(
            [np.arange(len(t)) + self.lengths.get(s, 0) for s, t in chunks]
        )
        self.chunks = chunks
        self.outputs = np.asarray(outputs, np.int64)
        self.rows = {"tokens": len(self.tokens), "outputs": len(outputs)}
        assert self.rows["tokens"] <= self.plan["max_tokens"]
        assert self.rows["outputs"] <= self.plan["max_outputs"]
        for step in self.plan["steps"]:
            args = [self.view(i).copy() for i in step["inputs"]]
            outs = [self.view(i) for i in step["outputs"]]
            getattr(self, step["op"])(step, args, outs)
        for slot, tokens in chunks:
            self.lengths[slot] = self.lengths.get(slot, 0) + len(tokens)
        results = self.plan["results"]
        return self.view(results["logits"]).copy(), self.view(results["hidden"]).copy()

    def weight(self, step: dict[str, Any], role: str) -> Array:
        return self.tensors[step["weights"][role]]

    def embedding(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        outs[0][:] = self.weight(step, "table")[self.tokens]

    def rope_table(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        angle = self.positions.astype(np.float32)[:, None] * self.weight(step, "inv_freq")
        factor = np.float32(step["attrs"]["attention_factor"])
        outs[0][:], outs[1][:] = np.cos(angle) * factor, np.sin(angle) * factor

    def _norm(self, step: dict[str, Any], x: Array) -> Array:
        gain = self.weight(step, "gain")
        x = x[:, : len(gain)]
        out: Array = gain * x / np.sqrt((x * x).mean(1, keepdims=True) + step["attrs"]["eps"])
        return out

    def rms_norm(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        outs[0][:] = self._norm(step, args[0])

    def add(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        cols = outs[0].shape[1]
        outs[0][:] = args[0][:, :cols] + args[1][:, :cols]

    def scale(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        outs[0][:] = args[0][:, : outs[0].shape[1]] * np.float32(step["attrs"]["factor"])

    def softcap(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        cap = step["attrs"]["cap"]
        outs[0][:] = cap * np.tanh(args[0][:, : outs[0].shape[1]] / cap)

    def add_rms_norm(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        self.add(step, args, outs)
        outs[1][:] = self._norm(step, outs[0])

    def _linear(self, step: dict[str, Any], x: Array) -> Array:
        w = self.weight(step, "w")
        y: Array = x[:, : w.shape[1]] @ w.T
        if "bias" in step["weights"]:
            y = y + self.weight(step, "bias")
        return y

    def linear(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        outs[0][:] = self._linear(step, args[0])

    def linear_glu(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        y = self._linear(step, args[0])
        attrs, cols = step["attrs"], outs[0].shape[1]
        gate = y[:, attrs["gate_row"] : attrs["gate_row"] + cols]
        up = y[:, attrs["up_row"] : attrs["up_row"] + cols]
        if attrs["activation"] == "silu":
            outs[0][:] = gate / (1 + np.exp(-gate)) * up
        else:
            assert attrs["activation"] == "gelu_tanh"
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            outs[0][:] = 0.5 * gate * (1 + np.tanh(inner)) * up

    def rope_kv_write(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        a, (qkv, cos, sin) = step["attrs"], args
        dim, rotary = a["head_dim"], a["rotary_dim"]

        def heads(col: int, count: int) -> Array:
            assert col % 16 == 0
            return qkv[:, col : col + count * dim].reshape(-1, count, dim).copy()

        def rotate(x: Array) -> Array:
            half = rotary // 2
            p, q = x[..., :half].copy(), x[..., half:rotary].copy()
            x[..., :half] = p * cos[:, None] - q * sin[:, None]
            x[..., half:rotary] = q * cos[:, None] + p * sin[:, None]
            return x

        def normed(x: Array, role: str) -> Array:
            if role not in step["weights"]:
                return x
            out: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + a["eps"])
            return out * self.weight(step, role)

        k = rotate(normed(heads(a["k_col"], a["kv_heads"]), "k_gain"))
        v = heads(a["v_col"], a["kv_heads"])
        first = 0
        for slot, tokens in self.chunks:
            key = (a["group"], a["layer"], slot)
            empty = np.zeros((0, a["kv_heads"], dim), np.float32)
            old_k, old_v = self.cache.get(key, (empty, empty))
            rows = slice(first, first + len(tokens))
            self.cache[key] = (np.concatenate([old_k, k[rows]]), np.concatenate([old_v, v[rows]]))
            first += len(tokens)
        outs[0][:] = rotate(normed(heads(a["q_col"], a["heads"]), "q_gain")).reshape(len(qkv), -1)

    def attention(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        a = step["attrs"]
        window = self.groups[a["group"]]["window"]
        q = args[0].reshape(-1, a["heads"], a["head_dim"])
        row = 0
        for slot, tokens in self.chunks:
            k, v = self.cache[a["group"], a["layer"], slot]
            for i in range(len(tokens)):
                position = self.lengths.get(slot, 0) + i
                low = max(0, position - window + 1) if window else 0
                for h in range(a["heads"]):
                    kv = h * a["kv_heads"] // a["heads"]
                    scores = k[low : position + 1, kv] @ q[row, h] * a["scale"]
                    if "softcap" in a:
                        scores = a["softcap"] * np.tanh(scores / a["softcap"])
                    p, extra = np.exp(scores - scores.max()), 0.0
                    if "sinks" in step["weights"]:
                        extra = np.exp(self.weight(step, "sinks")[h] - scores.max())
                    out = (p / (p.sum() + extra)) @ v[low : position + 1, kv]
                    outs[0][row, h * a["head_dim"] : (h + 1) * a["head_dim"]] = out
                row += 1

    def select_rows(self, step: dict[str, Any], args: list[Array], outs: list[Array]) -> None:
        outs[0][:] = args[0][self.outputs]
