"""Stable text of a graph, for people and for diffs: the same graph always prints the same."""

from __future__ import annotations

from slipstream.builder.ir.graph import Attr, Constant, Graph, Node, Segment


def _attr(value: Attr) -> str:
    return repr(value) if isinstance(value, (float, str)) else str(value)


def _segment(segment: Segment) -> str:
    bias = f" + {segment.bias}" if segment.bias is not None else ""
    return f"{segment.name}[{segment.rows}]: {segment.weight}{bias}"


def _constant(constant: Constant) -> str:
    shape = ", ".join(str(d) for d in constant.shape)
    if constant.checkpoint_name is not None:
        part = f" rows {constant.rows[0]}:{constant.rows[1]}" if constant.rows else ""
        return f"  const {constant.name}: [{shape}] = checkpoint {constant.checkpoint_name}{part}"
    values = constant.values or ()
    head = ", ".join(repr(v) for v in values[:3])
    more = f", ... {len(values)} values" if len(values) > 3 else ""
    return f"  const {constant.name}: [{shape}] = values ({head}{more})"


def _node(node: Node, graph: Graph) -> str:
    outs = ", ".join(f"%{o}: {graph.values[o]}" for o in node.outputs)
    args = [f"%{i}" for i in node.inputs]
    args += [f"{role}={node.weights[role]}" for role in sorted(node.weights)]
    args += [_segment(s) for s in node.segments]
    attrs = ", ".join(f"{k}={_attr(node.attrs[k])}" for k in sorted(node.attrs))
    text = f"  {outs} = {node.op}({', '.join(args)})"
    return f"{text} {{{attrs}}}" if attrs else text


def print_graph(graph: Graph) -> str:
    """One line per input, constant (sorted by name), node (in order) and result."""
    lines = [f"graph {graph.name} {{"]
    lines += [f"  input %{name}: {graph.values[name]}" for name in graph.inputs]
    lines += [_constant(graph.constants[name]) for name in sorted(graph.constants)]
    layer: int | None = None
    for node in graph.nodes:
        if node.layer != layer:
            layer = node.layer
            lines.append(f"  # layer {layer}" if layer >= 0 else "  # outside of the layers")
        lines.append(_node(node, graph))
    lines += [f"  result {role} = %{graph.results[role]}" for role in sorted(graph.results)]
    lines.append("}")
    return "\n".join(lines) + "\n"
