"""ModelSpec -> portable graph: a decoder, one node per operator of the architecture."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.builder.ir.graph import Attr, Constant, Graph, Node, Segment
from slipstream.builder.ir.types import DType, Rows, vector
from slipstream.builder.ir.verify import verify
from slipstream.builder.models.spec import ModelSpec
from slipstream.builder.models.tensors import EMBEDDING, HEAD, NORM, expected_tensors, layer_norms

INV_FREQ = "rope.inv_freq"
LOCAL_INV_FREQ = "rope.local_inv_freq"


class _Builder:
    """Adds nodes under unique names; each value is named after the node that makes it."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.shapes = expected_tensors(spec)
        self.graph = Graph(spec.family)
        self.layer = -1

    def weight(self, name: str, addend: float = 0.0) -> str:
        constant = Constant(name, self.shapes[name], checkpoint_name=name, addend=addend)
        return self.graph.add_constant(constant)

    def gain(self, name: str) -> str:
        return self.weight(name, self.spec.norm_offset)

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
            weights={"gain": self.gain(gain)},
            attrs={"head_dim": self.spec.head_dim, "eps": self.spec.norm_eps},
        )

    def norm(self, name: str, x: str, gain: str) -> str:
        return self.add(
            "rms_norm",
            name,
            x,
            weights={"gain": self.gain(gain)},
            attrs={"eps": self.spec.norm_eps},
        )

    def rope(self, name: str, x: str, heads: int) -> str:
        constant, rope = INV_FREQ, self.spec.rope
        if self.spec.local_rope is not None and self.spec.windows[self.layer]:
            constant, rope = LOCAL_INV_FREQ, self.spec.local_rope
        values = Constant(constant, (len(rope.inv_freq),), values=rope.inv_freq)
        return self.add(
            "rope",
            name,
            x,
            "positions",
            weights={"inv_freq": self.graph.add_constant(values)},
            attrs={
                "heads": heads,
                "head_dim": self.spec.head_dim,
                "rotary_dim": rope.rotary_dim,
                "attention_factor": rope.attention_factor,
            },
        )

    def scale(self, name: str, x: str, factor: float) -> str:
        return x if factor == 1.0 else self.add("scale", name, x, attrs={"factor": factor})

    def softcap(self, name: str, x: str, cap: float) -> str:
        return self.add("softcap", name, x, attrs={"cap": cap}) if cap else x

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
        scale = spec.head_dim**-0.5 if spec.attention_scale is None else spec.attention_scale
        attrs: dict[str, Attr] = {
            "heads": spec.num_heads,
            "kv_heads": spec.num_kv_heads,
            "head_dim": spec.head_dim,
            "scale": float(scale),
            "window": spec.windows[self.layer],
        }
        if spec.attention_softcap:
            attrs["softcap"] = spec.attention_softcap
        out = self.add(
            "attention",
            "attention",
            self.rope("q_rope", q, spec.num_heads),
            self.rope("k_rope", k, spec.num_kv_heads),
            v,
            attrs=attrs,
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

    def decoder_layer(self, x: str) -> str:
        """x + attention(norm(x)), then x + mlp(norm(x)), with their norms and scales after."""
        prefix = f"model.layers.{self.layer}"
        norms = layer_norms(self.spec)
        for name, part in (("attn", self.attention), ("mlp", self.mlp)):
            normed = self.norm(f"{name}_norm", x, f"{prefix}.{norms[f'{name}_norm']}.weight")
            delta = part(normed, prefix)
            post = f"{name}_post_norm"
            if post in norms:
                delta = self.norm(post, delta, f"{prefix}.{norms[post]}.weight")
            delta = self.scale(f"{name}_scale", delta, self.spec.residual_scale)
            x = self.add("add", f"{name}_add", x, delta)
        return x


def build_graph(spec: ModelSpec) -> Graph:
    """The portable graph of a decoder, verified.

    Inputs `token_ids` and `positions` i32[tokens], `output_rows` i32[outputs]; results `logits`
    [outputs, vocabulary] and `hidden` [outputs, hidden] after the last norm.
    """
    b = _Builder(spec)
    b.graph.add_input("token_ids", vector(Rows.TOKENS, DType.I32))
    b.graph.add_input("positions", vector(Rows.TOKENS, DType.I32))
    b.graph.add_input("output_rows", vector(Rows.OUTPUTS, DType.I32))
    x = b.add("embedding", "embed", "token_ids", weights={"table": b.weight(EMBEDDING)})
    x = b.scale("embed_scale", x, spec.embedding_scale)
    for layer in range(spec.num_layers):
        b.layer = layer
        x = b.decoder_layer(x)
    b.layer = -1
    rows = b.add("select_rows", "selected", x, "output_rows")
    hidden = b.norm("hidden", rows, NORM)
    head = b.weight(EMBEDDING if spec.tied_embeddings else HEAD)
    logits = b.add("linear", "logits", hidden, segments=(Segment("vocab", spec.vocab_size, head),))
    logits = b.scale("logits_scale", logits, spec.logit_scale)
    logits = b.softcap("logits_softcap", logits, spec.logit_softcap)
    b.graph.results = {"hidden": hidden, "logits": logits}
    verify(b.graph, portable=True)
    return b.graph
