"""The verifier: every rule of the representation, checked after each pass and on loading."""

from __future__ import annotations

import math

from slipstream.builder.errors import InternalError
from slipstream.builder.ir.graph import Constant, Graph
from slipstream.builder.ir.ops import OPS, ShapeError, infer
from slipstream.builder.ir.types import TensorType

RESULTS = ("hidden", "logits")
MAX_LITERAL = 65536


class VerifyError(InternalError):
    """The graph breaks a rule. The message names the node and the rule."""


def _check_constant(constant: Constant) -> None:
    where = f"constant {constant.name}"
    if not constant.shape or any(d <= 0 for d in constant.shape):
        raise VerifyError(f"{where}: shape {constant.shape} has a dimension below 1")
    if (constant.checkpoint_name is None) == (constant.values is None):
        raise VerifyError(f"{where}: needs either a checkpoint tensor or values")
    if constant.values is not None:
        count = math.prod(constant.shape)
        if len(constant.values) != count or count > MAX_LITERAL:
            raise VerifyError(
                f"{where}: {len(constant.values)} values for shape {constant.shape}, "
                f"at most {MAX_LITERAL}"
            )
        if not all(math.isfinite(v) for v in constant.values):
            raise VerifyError(f"{where}: a value is not finite")


def verify(graph: Graph, *, portable: bool = False) -> None:
    """Raises VerifyError unless the graph is well formed: SSA in execution order, types as
    inferred, unique names, finite attributes, known results, no unused constant.

    `portable` also refuses operators that belong to one target.
    """
    for constant_name, constant in graph.constants.items():
        if constant_name != constant.name:
            raise VerifyError(f"constant {constant.name} is filed under {constant_name}")
        _check_constant(constant)
    seen = Graph(graph.name, constants=graph.constants)
    for name in graph.inputs:
        if name not in graph.values or name in seen.values:
            raise VerifyError(f"input {name} has no type or appears twice")
        seen.add_input(name, graph.values[name])
    names: set[str] = set()
    used: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise VerifyError(f"two nodes are named {node.name}")
        names.add(node.name)
        try:
            types = infer(node, seen)
        except ShapeError as error:
            raise VerifyError(str(error)) from error
        if portable and not OPS[node.op].portable:
            raise VerifyError(f"node {node.name}: '{node.op}' belongs to one target")
        for attr, value in node.attrs.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise VerifyError(f"node {node.name}: attribute {attr} = {value} is not finite")
        for out, type_ in zip(node.outputs, types, strict=True):
            _define(seen, graph, node.name, out, type_)
        used.update(node.constants())
    if set(seen.values) != set(graph.values):
        extra = sorted(set(graph.values) - set(seen.values))
        raise VerifyError(f"values without a producer: {extra}")
    if used != set(graph.constants):
        raise VerifyError(f"constants that nothing reads: {sorted(set(graph.constants) - used)}")
    if tuple(sorted(graph.results)) != RESULTS:
        raise VerifyError(f"results are {sorted(graph.results)}, expected {list(RESULTS)}")
    for role, name in graph.results.items():
        if name not in graph.values:
            raise VerifyError(f"result {role} names an unknown value {name}")


def _define(seen: Graph, graph: Graph, node: str, out: str, type_: TensorType) -> None:
    if out in seen.values:
        raise VerifyError(f"node {node}: value {out} is defined twice")
    if graph.values.get(out) != type_:
        raise VerifyError(f"node {node}: {out} is {graph.values.get(out)}, inferred {type_}")
    seen.values[out] = type_
