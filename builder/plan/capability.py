"""What the CPU target can run: operator by format, and the errors that say what it cannot."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.builder.errors import UnsupportedError
from slipstream.builder.formats import KV_FORMATS, WEIGHT_FORMATS
from slipstream.builder.ir.graph import Graph, Node
from slipstream.builder.plan.program import CompileOptions

# Plan operators that read weights in a chosen format, and those formats.
_WEIGHTS: Mapping[str, tuple[str, ...]] = {
    "embedding": WEIGHT_FORMATS,
    "linear": WEIGHT_FORMATS,
    "linear_glu": WEIGHT_FORMATS,
}
# Plan operators that read or write the cache, and the formats of its elements.
_CACHES: Mapping[str, tuple[str, ...]] = {
    "rope_kv_write": KV_FORMATS,
    "attention_kv": KV_FORMATS,
}
# Operators of the plan that work on f32 values only.
PLAIN = frozenset(
    {"rope_table", "rms_norm", "add", "add_rms_norm", "scale", "softcap", "select_rows"}
)

MAX_HEAD_DIM = 1024

# Portable operators that only a fusion turns into something the plan has.
_NEEDS: Mapping[str, str] = {
    "slice": "fuse_rope_kv (after fuse_qkv)",
    "rope": "fuse_rope_kv (after fuse_qkv)",
    "head_rms_norm": "fuse_rope_kv (after fuse_qkv)",
    "attention": "fuse_rope_kv (after fuse_qkv)",
    "silu": "fuse_gate_up",
    "gelu_tanh": "fuse_gate_up",
    "mul": "fuse_gate_up",
}


def place(node: Node) -> str:
    """Where a node is, for messages."""
    return f"layer {node.layer}" if node.layer >= 0 else f"'{node.name}'"


def check_options(graph: Graph, options: CompileOptions) -> None:
    """Checks formats before any work. UnsupportedError names the layer, the flag and the fix."""
    for node in graph.nodes:
        weights = _WEIGHTS.get(node.op)
        if weights is not None and options.weights not in weights:
            raise UnsupportedError(
                f"{place(node)}: operator '{node.op}' has no CPU kernel for --weights "
                f"{options.weights}; use one of: {', '.join(weights)}"
            )
        kv = _CACHES["attention_kv"] if node.op == "attention" else _CACHES.get(node.op)
        if kv is not None and options.kv_cache not in kv:
            raise UnsupportedError(
                f"{place(node)}: operator 'attention' has no CPU kernel for --kv-cache "
                f"{options.kv_cache}; use one of: {', '.join(kv)}"
            )
        if node.op in ("attention", "attention_kv") and node.int_attr("head_dim") > MAX_HEAD_DIM:
            raise UnsupportedError(
                f"{place(node)}: head_dim = {node.attrs['head_dim']} is above the CPU kernel's "
                f"limit of {MAX_HEAD_DIM}; choose another --target"
            )


def check_lowered(graph: Graph) -> None:
    """Checks that every operator left after the passes is one of the plan's."""
    for node in graph.nodes:
        if node.op in PLAIN or node.op in _WEIGHTS or node.op in _CACHES:
            continue
        hint = _NEEDS.get(node.op)
        reason = (
            f"it runs only as part of what the pass {hint} makes, whose pattern the model does "
            "not have here (for instance because only some projections have a bias)"
            if hint
            else "it is unknown to this target"
        )
        raise UnsupportedError(
            f"{place(node)}: operator '{node.op}' ('{node.name}') has no CPU kernel: {reason}; "
            "choose another --target or convert the model"
        )
