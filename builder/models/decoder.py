"""ModelSpec -> portable graph: a pre-norm decoder, one node per operator of the architecture."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.builder.ir.graph import Attr, Constant, Graph, Node, Segment
from slipstream.builder.ir.types import DType, Rows, vector
from slipstream.builder.ir.verify import verify
from slipstream.builder.models.spec import ModelSpec
from slipstream.builder.models.tensors import EMBEDDING, HEAD, NORM, expected_tensors

INV_FREQ = "rope.inv_freq"


class _Builder:
    """Adds nodes under unique names; each value is named after the node that makes it."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.shapes = expected_tensors(spec)
        self.graph = Graph(spec.family)
        self.layer = -1

    def weight(self, name: str) -> str:
        return self.graph.add_constant(Constant(name, self.shapes[name], checkpoint_name=name))

    def add(
        self,
        op: str,
        name: str,
        *inputs: str,
        weights: Mapping[str, str] | None = None,
        segments: tuple[Segment, ...] = (),
        attrs: Mapping[str, Attr] | None = None,
    ) -> str:
        full = f"layers.{self.layer}.{name}" if self.layer >= 0 else name
        node = Node(
            op, full, inputs, (full,), dict(weights or {}), segments, dict(attrs or {}), self.layer
        )
        return self.graph.add_node(node)[0]

    def linear(self, name: str, x: str, path: str, segment: str, bias: bool) -> str:
        weight = self.weight(f"{path}.weight")
        bias_name = self.weight(f"{path}.bias") if bias else None
        rows = self.shapes[weight][0]
        return self.add("linear", name, x, segments=(Segment(segment, rows, weight, bias_name),))

    def linears(
        self, x: str, parts: Mapping[str, tuple[str, int]], fused: str, bias: bool
    ) -> list[str]:
        """Linears of one input, by name: (path of the tensor, rows). Where the checkpoint holds
        them one after the other in a single tensor, that is `fused`."""
        if not self.spec.fused_projections:
            return [self.linear(n, x, path, n, bias) for n, (path, _) in parts.items()]
        out, first = [], 0
        for name, (_, rows) in parts.items():
            weight = self.part(f"{fused}.weight", name, first, rows)
            bias_name = self.part(f"{fused}.bias", name, first, rows) if bias else None
            out.append(
                self.add("linear", name, x, segments=(Segment(name, rows, weight, bias_name),))
            )
            first += rows
        return out

    def part(self, tensor: str, name: str, first: int, rows: int) -> str:
        """Rows of a checkpoint tensor as a constant of their own."""
        whole = self.shapes[tensor]
        constant = Constant(
            f"{tensor}.{name}",
            (rows, *whole[1:]),
            checkpoint_name=tensor,
            first_row=first,
            checkpoint_rows=whole[0],
        )
        return self.graph.add_constant(constant)

    def head_norm(self, name: str, x: str, gain: str) -> str:
        if not self.spec.qk_norm:
            return x
        return self.add(
            "head_rms_norm",
            name,
            x,
            weights={"gain": self.weight(gain)},
            attrs={"head_dim": self.spec.head_dim, "eps": self.spec.norm_eps},
        )

    def norm(self, name: str, x: str, gain: str) -> str:
        return self.add(
            "rms_norm",
            name,
            x,
            weights={"gain": self.weight(gain)},
            attrs={"eps": self.spec.norm_eps},
        )

    def rope(self, name: str, x: str, heads: int) -> str:
        return self.add(
            "rope",
            name,
            x,
            "positions",
            weights={"inv_freq": INV_FREQ},
            attrs={
                "heads": heads,
                "head_dim": self.spec.head_dim,
                "rotary_dim": self.spec.rope.rotary_dim,
                "attention_factor": self.spec.rope.attention_factor,
            },
        )

    def attention(self, x: str, prefix: str) -> str:
        spec = self.spec
        path = f"{prefix}.self_attn"
        kv_rows = spec.num_kv_heads * spec.head_dim
        parts = {
            "q": (f"{path}.q_proj", spec.num_heads * spec.head_dim),
            "k": (f"{path}.k_proj", kv_rows),
            "v": (f"{path}.v_proj", kv_rows),
        }
        q, k, v = self.linears(x, parts, f"{path}.qkv_proj", spec.qkv_bias)
        q = self.head_norm("q_norm", q, f"{path}.q_norm.weight")
        k = self.head_norm("k_norm", k, f"{path}.k_norm.weight")
        out = self.add(
            "attention",
            "attention",
            self.rope("q_rope", q, spec.num_heads),
            self.rope("k_rope", k, spec.num_kv_heads),
            v,
            attrs={
                "heads": spec.num_heads,
                "kv_heads": spec.num_kv_heads,
                "head_dim": spec.head_dim,
                "scale": float(spec.head_dim**-0.5),
                "window": spec.windows[self.layer],
            },
        )
        return self.linear("o", out, f"{path}.o_proj", "o", spec.o_bias)

    def mlp(self, x: str, prefix: str) -> str:
        path = f"{prefix}.mlp"
        rows = self.spec.intermediate_size
        parts = {"gate": (f"{path}.gate_proj", rows), "up": (f"{path}.up_proj", rows)}
        gate, up = self.linears(x, parts, f"{path}.gate_up_proj", self.spec.mlp_bias)
        act = self.add(self.spec.activation, "act", gate)
        product = self.add("mul", "gated", act, up)
        return self.linear("down", product, f"{path}.down_proj", "down", self.spec.mlp_bias)


def build_graph(spec: ModelSpec) -> Graph:
    """The portable graph of a decoder, verified.

    Inputs `token_ids` and `positions` i32[tokens], `output_rows` i32[outputs]; results `logits`
    [outputs, vocabulary] and `hidden` [outputs, hidden] after the last norm.
    """
    b = _Builder(spec)
    b.graph.add_input("token_ids", vector(Rows.TOKENS, DType.I32))
    b.graph.add_input("positions", vector(Rows.TOKENS, DType.I32))
    b.graph.add_input("output_rows", vector(Rows.OUTPUTS, DType.I32))
    b.graph.add_constant(Constant(INV_FREQ, (len(spec.rope.inv_freq),), values=spec.rope.inv_freq))
    x = b.add("embedding", "embed", "token_ids", weights={"table": b.weight(EMBEDDING)})
    for layer in range(spec.num_layers):
        b.layer = layer
        prefix = f"model.layers.{layer}"
        normed = b.norm("attn_norm", x, f"{prefix}.input_layernorm.weight")
        x = b.add("add", "attn_add", x, b.attention(normed, prefix))
        normed = b.norm("mlp_norm", x, f"{prefix}.post_attention_layernorm.weight")
        x = b.add("add", "mlp_add", x, b.mlp(normed, prefix))
    b.layer = -1
    rows = b.add("select_rows", "selected", x, "output_rows")
    hidden = b.norm("hidden", rows, NORM)
    head = b.weight(EMBEDDING if spec.tied_embeddings else HEAD)
    logits = b.add("linear", "logits", hidden, segments=(Segment("vocab", spec.vocab_size, head),))
    b.graph.results = {"hidden": hidden, "logits": logits}
    verify(b.graph, portable=True)
    return b.graph
