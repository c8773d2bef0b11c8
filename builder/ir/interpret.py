"""The numpy interpreter: the independent oracle for every pass, plan and kernel.

It runs portable and CPU graphs alike over a ragged step of several sequences, each with its own
KV cache, in f32 or f64. It is written for clarity; summation orders are numpy's, so results agree
with the runtime to rounding, not bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.ir.rounding import round_to

Array = NDArray[Any]
Weights = Callable[[str], Array]


@dataclass
class KvCache:
    """Keys (after RoPE) and values of every (sequence slot, layer), rows in position order."""

    keys: dict[tuple[int, int], Array] = field(default_factory=dict)
    values: dict[tuple[int, int], Array] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)

    def append(self, slot: int, layer: int, k: Array, v: Array) -> None:
        key = (slot, layer)
        old_k, old_v = self.keys.get(key), self.values.get(key)
        self.keys[key] = k if old_k is None else np.concatenate([old_k, k])
        self.values[key] = v if old_v is None else np.concatenate([old_v, v])


@dataclass(frozen=True)
class Chunk:
    """The next tokens of the sequence in `slot`, continuing at its cached length."""

    slot: int
    tokens: Sequence[int]


@dataclass(frozen=True)
class StepResult:
    """One row per requested output row, in order."""

    logits: Array
    hidden: Array


@dataclass
class _Step:
    cache: KvCache
    slices: list[tuple[int, int, int]]  # slot, first row, row count
    starts: dict[int, int]


class Interpreter:
    """Runs steps of one graph. `weights` maps a checkpoint tensor name to an array of its shape.

    `kv_format` rounds keys and values to f32, f16, bf16 or int8 as they enter the cache, like a
    runtime with that KV type. Not thread-safe.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        dtype: type[np.floating[Any]] = np.float32,
        kv_format: str = "f32",
    ) -> None:
        self._graph = graph
        self._load = weights
        self._dtype = dtype
        self._kv_format = kv_format
        self._constants: dict[str, Array] = {}

    def step(
        self, cache: KvCache, chunks: Sequence[Chunk], outputs: Sequence[int] | None = None
    ) -> StepResult:
        """Runs one ragged step and advances the cache.

        `outputs` are rows of the concatenated step (ascending); by default the last row of each
        chunk.
        """
        if not chunks or any(len(c.tokens) == 0 for c in chunks):
            raise ValueError("a step needs at least one chunk, and every chunk a token")
        if len({c.slot for c in chunks}) != len(chunks):
            raise ValueError("a slot appears twice in one step")
        tokens: list[int] = []
        positions: list[int] = []
        slices: list[tuple[int, int, int]] = []
        starts: dict[int, int] = {}
        for chunk in chunks:
            start = cache.lengths.get(chunk.slot, 0)
            starts[chunk.slot] = start
            slices.append((chunk.slot, len(tokens), len(chunk.tokens)))
            tokens += list(chunk.tokens)
            positions += range(start, start + len(chunk.tokens))
        rows = [first + n - 1 for _, first, n in slices] if outputs is None else list(outputs)
        env: dict[str, Array] = {
            "token_ids": np.asarray(tokens, np.int64),
            "positions": np.asarray(positions, np.int64),
            "output_rows": np.asarray(rows, np.int64),
        }
        step = _Step(cache, slices, starts)
        for node in self._graph.nodes:
            results = getattr(self, f"_op_{node.op}")(node, [env[i] for i in node.inputs], step)
            outs = results if isinstance(results, tuple) else (results,)
            env.update(zip(node.outputs, outs, strict=True))
        for slot, _, count in slices:
            cache.lengths[slot] = starts[slot] + count
        results_of = self._graph.results
        return StepResult(env[results_of["logits"]], env[results_of["hidden"]])

    def run(self, sequences: Sequence[Sequence[int]]) -> list[Array]:
        """Logits at every position of every sequence, each run whole in one step."""
        chunks = [Chunk(i, s) for i, s in enumerate(sequences)]
        total = sum(len(s) for s in sequences)
        logits = self.step(KvCache(), chunks, range(total)).logits
        cuts = np.cumsum([len(s) for s in sequences])[:-1]
        return np.split(logits, cuts)

    def _constant(self, name: str) -> Array:
        if name not in self._constants:
            constant = self._graph.constants[name]
            if constant.values is not None:
                array: Array = np.asarray(constant.values, np.float32).reshape(constant.shape)
            else:
                assert constant.checkpoint_name is not None
                array = np.asarray(self._load(constant.checkpoint_name))
                if array.shape != constant.checkpoint_shape:
                    raise ValueError(
                        f"{name}: got shape {array.shape}, expected {constant.checkpoint_shape}"
                    )
                if constant.rows is not None:
                    array = array[slice(*constant.rows)]
                if constant.addend:
                    array = array.astype(np.float32) + np.float32(constant.addend)
            self._constants[name] = array.astype(self._dtype)
        return self._constants[name]

    # Operators. Each takes the node, its input arrays and the step.

    def _op_embedding(self, node: Node, args: list[Array], step: _Step) -> Array:
        return self._constant(node.weights["table"])[args[0]]

    def _op_linear(self, node: Node, args: list[Array], step: _Step) -> Array:
        parts = []
        for segment in node.segments:
            part = args[0] @ self._constant(segment.weight).T
            if segment.bias is not None:
                part = part + self._constant(segment.bias)
            parts.append(part)
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def _op_linear_glu(self, node: Node, args: list[Array], step: _Step) -> Array:
        gate, up = np.split(self._op_linear(node, args, step), 2, axis=1)
        activation = {"silu": self._silu, "gelu_tanh": self._gelu_tanh}[
            str(node.attrs["activation"])
        ]
        out: Array = activation(gate) * up
        return out

    def _op_rms_norm(self, node: Node, args: list[Array], step: _Step) -> Array:
        x = args[0]
        eps = self._dtype(node.float_attr("eps"))
        variance = np.mean(x * x, axis=1, keepdims=True, dtype=self._dtype)
        out: Array = self._constant(node.weights["gain"]) * (x / np.sqrt(variance + eps))
        return out

    def _normed_heads(self, node: Node, x: Array, gain: str) -> Array:
        values = self._constant(node.weights[gain])
        heads = x.reshape(len(x), -1, len(values))
        eps = self._dtype(node.float_attr("eps"))
        variance = np.mean(heads * heads, axis=2, keepdims=True, dtype=self._dtype)
        out: Array = values * (heads / np.sqrt(variance + eps))
        return out.reshape(x.shape)

    def _op_head_rms_norm(self, node: Node, args: list[Array], step: _Step) -> Array:
        return self._normed_heads(node, args[0], "gain")

    def _op_add_rms_norm(self, node: Node, args: list[Array], step: _Step) -> tuple[Array, Array]:
        total = args[0] + args[1]
        return total, self._op_rms_norm(node, [total], step)

    def _silu(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            out: Array = x / (1 + np.exp(-x))
            return out

    def _gelu_tanh(self, x: Array) -> Array:
        inner = self._dtype(np.sqrt(2 / np.pi)) * (x + self._dtype(0.044715) * x**3)
        out: Array = self._dtype(0.5) * x * (1 + np.tanh(inner))
        return out

    def _op_gelu_tanh(self, node: Node, args: list[Array], step: _Step) -> Array:
        return self._gelu_tanh(args[0])

    def _op_softcap(self, node: Node, args: list[Array], step: _Step) -> Array:
        cap = self._dtype(node.float_attr("cap"))
        out: Array = np.tanh(args[0] / cap) * cap
        return out

    def _op_silu(self, node: Node, args: list[Array], step: _Step) -> Array:
        return self._silu(args[0])

    def _op_scale(self, node: Node, args: list[Array], step: _Step) -> Array:
        out: Array = args[0] * self._dtype(node.float_attr("factor"))
        return out

    def _op_mul(self, node: Node, args: list[Array], step: _Step) -> Array:
        out: Array = args[0] * args[1]
        return out

    def _op_add(self, node: Node, args: list[Array], step: _Step) -> Array:
        out: Array = args[0] + args[1]
        return out

    def _op_slice(self, node: Node, args: list[Array], step: _Step) -> Array:
        start = node.int_attr("start")
        return args[0][:, start : start + node.int_attr("size")]

    def _op_select_rows(self, node: Node, args: list[Array], step: _Step) -> Array:
        return args[0][args[1]]

    def _op_rope_table(self, node: Node, args: list[Array], step: _Step) -> tuple[Array, Array]:
        # The angle is an f32 product everywhere (also in f64 runs): that is what defines the model.
        inv_freq = self._constant(node.weights["inv_freq"]).astype(np.float32)
        angle = (args[0].astype(np.float32)[:, None] * inv_freq).astype(self._dtype)
        factor = self._dtype(node.float_attr("attention_factor"))
        return np.cos(angle) * factor, np.sin(angle) * factor

    def _rotate(self, x: Array, heads: int, cos: Array, sin: Array) -> Array:
        rows, half = x.shape[0], cos.shape[1]
        out: Array = x.reshape(rows, heads, -1).copy()
        a, b = out[:, :, :half].copy(), out[:, :, half : 2 * half].copy()
        c, s = cos[:, None, :], sin[:, None, :]
        out[:, :, :half] = a * c - b * s
        out[:, :, half : 2 * half] = b * c + a * s
        flat: Array = out.reshape(rows, -1)
        return flat

    def _op_rope(self, node: Node, args: list[Array], step: _Step) -> Array:
        cos, sin = self._op_rope_table(node, [args[1]], step)
        return self._rotate(args[0], node.int_attr("heads"), cos, sin)

    def _write_kv(self, node: Node, k: Array, v: Array, step: _Step) -> None:
        shape = (-1, node.int_attr("kv_heads"), node.int_attr("head_dim"))
        k = round_to(k.reshape(shape), self._kv_format).astype(self._dtype)
        v = round_to(v.reshape(shape), self._kv_format).astype(self._dtype)
        for slot, first, count in step.slices:
            rows = slice(first, first + count)
            step.cache.append(slot, node.layer, k[rows], v[rows])

    def _op_rope_kv_write(self, node: Node, args: list[Array], step: _Step) -> Array:
        qkv, cos, sin = args
        heads, kv_heads = node.int_attr("heads"), node.int_attr("kv_heads")
        q_cols = heads * node.int_attr("head_dim")
        kv_cols = kv_heads * node.int_attr("head_dim")
        q, k, v = np.split(qkv, [q_cols, q_cols + kv_cols], axis=1)
        if "q_gain" in node.weights:
            q = self._normed_heads(node, q, "q_gain")
            k = self._normed_heads(node, k, "k_gain")
        self._write_kv(node, self._rotate(k, kv_heads, cos, sin), v, step)
        return self._rotate(q, heads, cos, sin)

    def _op_attention(self, node: Node, args: list[Array], step: _Step) -> Array:
        self._write_kv(node, args[1], args[2], step)
        return self._op_attention_kv(node, args[:1], step)

    def _op_attention_kv(self, node: Node, args: list[Array], step: _Step) -> Array:
        heads, kv_heads = node.int_attr("heads"), node.int_attr("kv_heads")
        head_dim, window = node.int_attr("head_dim"), node.int_attr("window")
        scale = self._dtype(node.float_attr("scale"))
        cap = self._dtype(node.float_attr("softcap")) if "softcap" in node.attrs else None
        sinks = self._constant(node.weights["sinks"]) if "sinks" in node.weights else None
        q = args[0].reshape(-1, heads, head_dim)
        out = np.empty_like(q)
        for slot, first, count in step.slices:
            k = step.cache.keys[slot, node.layer]
            v = step.cache.values[slot, node.layer]
            query = step.starts[slot] + np.arange(count)[:, None]
            key = np.arange(len(k))[None, :]
            masked = key > query
            if window:
                masked |= key <= query - window
            for head in range(heads):
                kv = head // (heads // kv_heads)
                scores = (q[first : first + count, head] @ k[:, kv].T) * scale
                if cap is not None:
                    scores = np.tanh(scores / cap) * cap
                scores = np.where(masked, -np.inf, scores)
                # A sink takes part in the softmax like one more position without a value.
                top = scores.max(axis=1, keepdims=True)
                top = top if sinks is None else np.maximum(top, sinks[head])
                weights = np.exp(scores - top)
                total = weights.sum(axis=1, keepdims=True)
                weights /= total if sinks is None else total + np.exp(sinks[head] - top)
                out[first : first + count, head] = weights.astype(self._dtype) @ v[:, kv]
        return out.reshape(len(q), -1)
