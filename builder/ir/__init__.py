"""The intermediate representation: an SSA graph of tensor operators with symbolic row counts.

`from slipstream.builder.ir import Graph, Node, ...`. Nothing here imports the rest of the builder
except its error types.
"""

from __future__ import annotations

from slipstream.builder.ir.graph import Attr, Constant, Graph, Node, Segment
from slipstream.builder.ir.printer import print_graph
from slipstream.builder.ir.serialize import graph_from_json, graph_to_json
from slipstream.builder.ir.types import DType, Rows, TensorType
from slipstream.builder.ir.verify import VerifyError, verify

__all__ = [
    "Attr",
    "Constant",
    "DType",
    "Graph",
    "Node",
    "Rows",
    "Segment",
    "TensorType",
    "VerifyError",
    "graph_from_json",
    "graph_to_json",
    "print_graph",
    "verify",
]
