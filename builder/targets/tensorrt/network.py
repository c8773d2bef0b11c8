"""Portable ops as layers of one strongly typed TensorRT network. Values are BF16; reductions and
RoPE angles are f32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.errors import BuildError
from slipstream.builder.targets.tensorrt.provider import Provider

Tensor = Any


class BuildLog:
    """Collects TensorRT's own messages: errors to explain a failure, facts to prove what was
    built."""

    def __init__(self, trt: Any) -> None:
        rows: list[tuple[int, str]] = []

        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, message: str) -> None:
                rows.append((int(severity), message))

        self.rows = rows
        self.logger = Logger()
        self._error_level = int(trt.ILogger.ERROR)

    def errors(self) -> str:
        return "; ".join(m for level, m in self.rows if level <= self._error_level)

    def number(self, label: str) -> int:
        """The bytes of a line such as "Total Weights Memory: 5974528 bytes"; 0 if it was not
        said."""
        for _, message in reversed(self.rows):
            if message.startswith(label + ": "):
                return int(message.split(": ", 1)[1].split()[0])
        return 0


class Network:
    """One TensorRT network under construction; each method adds the layers of one portable op.

    Token-row tensors have shape [rows, cols] with rows dynamic. Not reusable after `build`.
    """

    def __init__(self, provider: Provider) -> None:
        self._trt = provider.trt
        self.log = BuildLog(self._trt)
        self._builder = self._trt.Builder(self.log.logger)
        flag = 1 << int(self._trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        self._network = self._builder.create_network(flag)
        # TensorRT reads constants at build time: their memory must live until then.
        self._keep: list[NDArray[Any]] = []
        self._inputs: list[str] = []

    # --- inputs, outputs, constants

    def rows_input(self, name: str, cols: int) -> Tensor:
        """BF16 [rows, cols]."""
        self._inputs.append(name)
        return self._network.add_input(name, self._trt.DataType.BF16, (-1, cols))

    def index_input(self, name: str) -> Tensor:
        """Int32 [rows]: token ids, positions or row numbers."""
        self._inputs.append(name)
        return self._network.add_input(name, self._trt.DataType.INT32, (-1,))

    def output(self, name: str, tensor: Tensor) -> None:
        tensor = self._out(self._network.add_identity(tensor))
        tensor.name = name
        self._network.mark_output(tensor)

    def weight(self, bits: NDArray[np.uint16]) -> Tensor:
        """A BF16 constant from its bit patterns."""
        bits = np.ascontiguousarray(bits)
        self._keep.append(bits)
        weights = self._trt.Weights(self._trt.DataType.BF16, bits.ctypes.data, bits.size)
        return self._out(self._network.add_constant(bits.shape, weights))

    def constant(self, values: NDArray[np.float32]) -> Tensor:
        values = np.ascontiguousarray(values, np.float32)
        self._keep.append(values)
        return self._out(self._network.add_constant(values.shape, self._trt.Weights(values)))

    # --- portable ops

    def embedding(self, ids: Tensor, table: Tensor) -> Tensor:
        return self._out(self._network.add_gather(table, ids, 0))

    def select_rows(self, x: Tensor, rows: Tensor) -> Tensor:
        return self._out(self._network.add_gather(x, rows, 0))

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x [rows, K], weight [N, K], bias [1, N] -> [rows, N]."""
        op = self._trt.MatrixOperation
        y = self._out(self._network.add_matrix_multiply(x, op.NONE, weight, op.TRANSPOSE))
        return y if bias is None else self.add(y, bias)

    def rms_norm(self, x: Tensor, gain: NDArray[np.float32], eps: float) -> Tensor:
        """From primitives on purpose: TensorRT fuses them into one kernel."""
        trt = self._trt
        wide = self._cast(x, trt.DataType.FLOAT)
        square = self._elementwise(wide, wide, "PROD")
        reduce = self._network.add_reduce(square, trt.ReduceOperation.AVG, 1 << 1, True)
        shifted = self._elementwise(
            self._out(reduce), self.constant(np.full((1, 1), eps, np.float32)), "SUM"
        )
        inverse = self._unary(self._unary(shifted, "SQRT"), "RECIP")
        scaled = self._elementwise(wide, inverse, "PROD")
        gained = self._elementwise(scaled, self.constant(gain.reshape(1, -1)), "PROD")
        return self._cast(gained, trt.DataType.BF16)

    def rope_table(
        self, positions: Tensor, inv_freq: NDArray[np.float32], attention_factor: float
    ) -> tuple[Tensor, Tensor]:
        """positions [rows] -> cos, sin [rows, 1, rotary_dim / 2] in BF16."""
        trt = self._trt
        angle_rows = self._reshape(self._cast(positions, trt.DataType.FLOAT), (-1, 1))
        angle = self._elementwise(angle_rows, self.constant(inv_freq.reshape(1, -1)), "PROD")
        factor = self.constant(np.full((1, 1), attention_factor, np.float32))
        table = []
        for function in ("COS", "SIN"):
            value = self._elementwise(self._unary(angle, function), factor, "PROD")
            value = self._cast(value, trt.DataType.BF16)
            table.append(self._reshape(value, (-1, 1, inv_freq.size)))
        return table[0], table[1]

    def rope(
        self, x: Tensor, cos: Tensor, sin: Tensor, heads: int, head_dim: int, rotary_dim: int
    ) -> Tensor:
        """Rotate the pairs (i, i + rotary_dim / 2) of each head of x [rows, heads * head_dim]."""
        half = rotary_dim // 2
        per_head = self._reshape(x, (-1, heads, head_dim))
        a, b = self._slice_last(per_head, 0, half), self._slice_last(per_head, half, half)
        parts = [
            self._elementwise(
                self._elementwise(a, cos, "PROD"), self._elementwise(b, sin, "PROD"), "SUB"
            ),
            self._elementwise(
                self._elementwise(b, cos, "PROD"), self._elementwise(a, sin, "PROD"), "SUM"
            ),
        ]
        if rotary_dim < head_dim:
            parts.append(self._slice_last(per_head, rotary_dim, head_dim - rotary_dim))
        joined = self._network.add_concatenation(parts)
        joined.axis = 2
        return self._reshape(self._out(joined), (-1, heads * head_dim))

    def silu(self, x: Tensor) -> Tensor:
        kind = self._trt.ActivationType.SIGMOID
        return self.mul(x, self._out(self._network.add_activation(x, kind)))

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._elementwise(a, b, "PROD")

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self._elementwise(a, b, "SUM")

    # --- build

    def build(self, sm: int, max_rows: dict[str, int], cols: dict[str, int]) -> bytes:
        """Compile for one compute capability.

        `max_rows` and `cols` give, per input, the largest number of rows and the columns (0 for an
        index input). Raises BuildError with TensorRT's own text underneath.
        """
        trt = self._trt
        config = self._builder.create_builder_config()
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(trt.ComputeCapability, f"SM{sm}"), 0)
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        profile = self._builder.create_optimization_profile()
        for name in self._inputs:
            tail = (cols[name],) if cols[name] else ()
            most = max_rows[name]
            profile.set_shape(name, (1, *tail), (min(most, 64), *tail), (most, *tail))
        config.add_optimization_profile(profile)
        plan = self._builder.build_serialized_network(self._network, config)
        if plan is None:
            raise BuildError(f"TensorRT did not build the network for sm_{sm}: {self.log.errors()}")
        return bytes(plan)

    # --- primitives

    @staticmethod
    def _out(layer: Any) -> Tensor:
        return layer.get_output(0)

    def _elementwise(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        kind = getattr(self._trt.ElementWiseOperation, op)
        return self._out(self._network.add_elementwise(a, b, kind))

    def _unary(self, x: Tensor, op: str) -> Tensor:
        return self._out(self._network.add_unary(x, getattr(self._trt.UnaryOperation, op)))

    def _cast(self, x: Tensor, dtype: Any) -> Tensor:
        return self._out(self._network.add_cast(x, dtype))

    def _reshape(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        layer = self._network.add_shuffle(x)
        layer.reshape_dims = shape
        return self._out(layer)

    def _slice_last(self, x: Tensor, start: int, size: int) -> Tensor:
        """x [rows, heads, dim] -> [rows, heads, size]; rows is dynamic, so the size is computed in
        the network."""
        trt = self._trt
        rows_heads = self._network.add_slice(
            self._out(self._network.add_shape(x)), (0,), (2,), (1,)
        )
        last = self._int64_constant([size])
        size_tensor = self._network.add_concatenation([self._out(rows_heads), last])
        layer = self._network.add_slice(x, (0, 0, start), (0, 0, 0), (1, 1, 1))
        layer.set_input(2, self._out(size_tensor))
        layer.mode = trt.SampleMode.STRICT_BOUNDS
        return self._out(layer)

    def _int64_constant(self, values: list[int]) -> Tensor:
        array = np.asarray(values, np.int64)
        self._keep.append(array)
        return self._out(self._network.add_constant(array.shape, self._trt.Weights(array)))
