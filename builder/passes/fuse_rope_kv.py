"""RoPE of q and k and the write of k and v into the cache become one step per layer, over cos and
sin tables that all layers share."""

from __future__ import annotations

from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.passes.base import PassResult, Uses, layer_list, remove_dead

_Match = tuple[Node, Node]  # the qkv linear, the RoPE of q
_TableKey = tuple[str, int, float]


class FuseRopeKv:
    """attention(rope(q), rope(k), v) over slices of one qkv ->
    attention_kv(rope_kv_write(qkv, cos, sin)). Needs fuse_qkv before it."""

    name = "fuse_rope_kv"
    portable = False

    def run(self, graph: Graph) -> PassResult:
        uses = Uses(graph)
        matches: dict[str, _Match] = {}
        for node in graph.nodes:
            match = _match(node, uses) if node.op == "attention" else None
            if match is not None:
                matches[node.name] = match
        if not matches:
            return PassResult(graph)
        tables: dict[_TableKey, Node] = {}
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.name not in matches:
                nodes.append(node)
                continue
            qkv, q_rope = matches[node.name]
            table = tables.setdefault(_table_key(q_rope), _table(q_rope, len(tables)))
            nodes += _fused(node, qkv, q_rope, table)
        layers = [n.layer for n in graph.nodes if n.name in matches]
        log = (
            f"RoPE and KV write of {layer_list(layers)} into rope_kv_write",
            f"cos and sin tables shared by all layers: {len(tables)}",
        )
        fused, _ = remove_dead(graph.with_nodes([*tables.values(), *nodes]))
        return PassResult(fused, log)


def _table_key(rope: Node) -> _TableKey:
    return (
        rope.weights["inv_freq"],
        rope.int_attr("rotary_dim"),
        rope.float_attr("attention_factor"),
    )


def _match(attention: Node, uses: Uses) -> _Match | None:
    q_rope, k_rope = (uses.made_by(value, "rope") for value in attention.inputs[:2])
    v = uses.made_by(attention.inputs[2], "slice")
    if q_rope is None or k_rope is None or v is None or _table_key(q_rope) != _table_key(k_rope):
        return None
    q, k = uses.made_by(q_rope.inputs[0], "slice"), uses.made_by(k_rope.inputs[0], "slice")
    if q is None or k is None or q_rope.inputs[1] != k_rope.inputs[1]:
        return None
    qkv = uses.made_by(q.inputs[0], "linear")
    if qkv is None or {k.inputs[0], v.inputs[0]} != {q.inputs[0]}:
        return None
    rows = [s.rows for s in qkv.segments]
    starts = [0, rows[0], rows[0] + rows[1]] if len(rows) == 3 else []
    if [s.int_attr("start") for s in (q, k, v)] != starts:
        return None
    return (qkv, q_rope) if [s.int_attr("size") for s in (q, k, v)] == rows else None


def _table(rope: Node, index: int) -> Node:
    name = "rope_table" if index == 0 else f"rope_table.{index}"
    attrs = {k: rope.attrs[k] for k in ("rotary_dim", "attention_factor")}
    return Node(
        "rope_table",
        name,
        (rope.inputs[1],),
        (f"{name}.cos", f"{name}.sin"),
        weights=rope.weights,
        attrs=attrs,
    )


def _fused(attention: Node, qkv: Node, q_rope: Node, table: Node) -> list[Node]:
    shape = {k: attention.attrs[k] for k in ("heads", "kv_heads", "head_dim", "window")}
    name = f"layers.{attention.layer}.rope_kv"
    write = Node(
        "rope_kv_write",
        name,
        (qkv.outputs[0], *table.outputs),
        (name,),
        attrs={**shape, "rotary_dim": q_rope.attrs["rotary_dim"]},
        layer=attention.layer,
    )
    read = Node(
        "attention_kv",
        attention.name,
        (name,),
        attention.outputs,
        attrs={**shape, "scale": attention.attrs["scale"]},
        layer=attention.layer,
    )
    return [write, read]
