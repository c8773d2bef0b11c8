"""A graph as a JSON value and back: the `graph` section of an engine file.

Types of values that nodes define are not stored: they are inferred again on loading, so that a
file cannot contradict itself.
"""

from __future__ import annotations

from typing import Any

from slipstream.builder.errors import InputError, InternalError
from slipstream.builder.ir.graph import Constant, Graph, Node, Segment
from slipstream.builder.ir.types import Dim, DType, Rows, TensorType, dim_text
from slipstream.builder.ir.verify import verify

VERSION = 1


def _constant(constant: Constant) -> dict[str, Any]:
    out: dict[str, Any] = {"name": constant.name, "shape": list(constant.shape)}
    if constant.checkpoint_name is not None:
        out["checkpoint_name"] = constant.checkpoint_name
        if constant.checkpoint_rows:
            out["first_row"] = constant.first_row
            out["checkpoint_rows"] = constant.checkpoint_rows
        if constant.addend:
            out["addend"] = constant.addend
    else:
        out["values"] = list(constant.values or ())
    return out


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "name": segment.name,
        "rows": segment.rows,
        "weight": segment.weight,
        "bias": segment.bias,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "op": node.op,
        "name": node.name,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "weights": dict(node.weights),
        "segments": [_segment(s) for s in node.segments],
        "attrs": dict(node.attrs),
        "layer": node.layer,
    }


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """The graph as plain JSON values."""
    return {
        "version": VERSION,
        "name": graph.name,
        "inputs": [
            {
                "name": name,
                "dtype": graph.values[name].dtype.value,
                "shape": [dim_text(d) for d in graph.values[name].shape],
            }
            for name in graph.inputs
        ],
        "constants": [_constant(graph.constants[name]) for name in sorted(graph.constants)],
        "nodes": [_node(node) for node in graph.nodes],
        "results": dict(graph.results),
    }


def _dim(text: str) -> Dim:
    return Rows(text) if text in {r.value for r in Rows} else int(text)


def graph_from_json(data: dict[str, Any]) -> Graph:
    """Rebuilds and verifies a graph. InputError if the value is not a graph of this version."""
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        raise InputError(
            f"graph section: version {version!r} cannot be read, this program reads {VERSION}; "
            "rebuild the engine with this version"
        )
    try:
        graph = Graph(str(data["name"]))
        for item in data["inputs"]:
            shape = tuple(_dim(d) for d in item["shape"])
            graph.add_input(item["name"], TensorType(DType(item["dtype"]), shape))
        for item in data["constants"]:
            values = item.get("values")
            graph.add_constant(
                Constant(
                    item["name"],
                    tuple(item["shape"]),
                    item.get("checkpoint_name"),
                    tuple(float(v) for v in values) if values is not None else None,
                    int(item.get("first_row", 0)),
                    int(item.get("checkpoint_rows", 0)),
                    float(item.get("addend", 0.0)),
                )
            )
        for item in data["nodes"]:
            graph.add_node(
                Node(
                    op=item["op"],
                    name=item["name"],
                    inputs=tuple(item["inputs"]),
                    outputs=tuple(item["outputs"]),
                    weights=dict(item["weights"]),
                    segments=tuple(Segment(**s) for s in item["segments"]),
                    attrs=dict(item["attrs"]),
                    layer=item["layer"],
                )
            )
        graph.results = dict(data["results"])
        verify(graph)
    except (KeyError, TypeError, ValueError, AttributeError, InternalError) as error:
        raise InputError(
            f"graph section: not a valid graph ({type(error).__name__}: {error}); "
            "the file is damaged or was not made by build-engine"
        ) from error
    return graph
