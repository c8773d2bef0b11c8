"""RoPE of q and k and the write of k and v into the cache become one step per layer, over cos and
sin tables that all layers share."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.builder.ir.graph import Attr, Graph, Node
from slipstream.builder.passes.base import PassResult, Uses, layer_list, remove_dead

_TableKey = tuple[str, int, float]


@dataclass(frozen=True)
class _Match:
    """The linear that makes q, k and v, the RoPE of q, and the norms of q and k, if any."""

    qkv: Node
    q_rope: Node
    norms: tuple[Node, Node] | None


class FuseRopeKv:
    """attention(rope(q), rope(k), v) over slices of one qkv ->
    attention_kv(rope_kv_write(qkv, cos, sin)), with the norms of the heads of q and k before RoPE.
    Needs fuse_qkv before it."""

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
            match = matches[node.name]
            key = _table_key(match.q_rope)
            table = tables.setdefault(key, _table(match.q_rope, len(tables)))
            nodes += _fused(node, match, table)
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
    q_norm, k_norm = (uses.made_by(r.inputs[0], "head_rms_norm") for r in (q_rope, k_rope))
    norms = None
    if q_norm is not None and k_norm is not None and q_norm.attrs == k_norm.attrs:
        norms = (q_norm, k_norm)
    q_source, k_source = norms or (q_rope, k_rope)
    q, k = uses.made_by(q_source.inputs[0], "slice"), uses.made_by(k_source.inputs[0], "slice")
    if q is None or k is None or q_rope.inputs[1] != k_rope.inputs[1]:
        return None
    if norms is not None and norms[0].int_attr("head_dim") != attention.int_attr("head_dim"):
        return None
    qkv = uses.made_by(q.inputs[0], "linear")
    if qkv is None or {k.inputs[0], v.inputs[0]} != {q.inputs[0]}:
        return None
    rows = [s.rows for s in qkv.segments]
    starts = [0, rows[0], rows[0] + rows[1]] if len(rows) == 3 else []
    if [s.int_attr("start") for s in (q, k, v)] != starts:
        return None
    if [s.int_attr("size") for s in (q, k, v)] != rows:
        return None
    return _Match(qkv, q_rope, norms)


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


def _fused(attention: Node, match: _Match, table: Node) -> list[Node]:
    shape = {k: attention.attrs[k] for k in ("heads", "kv_heads", "head_dim", "window")}
    name = f"layers.{attention.layer}.rope_kv"
    weights: dict[str, str] = {}
    attrs: dict[str, Attr] = {**shape, "rotary_dim": match.q_rope.attrs["rotary_dim"]}
    if match.norms is not None:
        q_norm, k_norm = match.norms
        weights = {"q_gain": q_norm.weights["gain"], "k_gain": k_norm.weights["gain"]}
        attrs["eps"] = q_norm.attrs["eps"]
    write = Node(
        "rope_kv_write",
        name,
        (match.qkv.outputs[0], *table.outputs),
        (name,),
        weights=weights,
        attrs=attrs,
        layer=attention.layer,
    )
    read = Node(
        "attention_kv",
        attention.name,
        (name,),
        attention.outputs,
        weights=attention.weights,
        attrs=attention.attrs,
        layer=attention.layer,
    )
    return [write, read]
