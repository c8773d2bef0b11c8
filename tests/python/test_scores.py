"""Capped scores and attention sinks: against the functions of transformers, through the passes and
the plan, and on the runtime. No family of the builder uses them by itself here, so graphs are
edited."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plan_runner import PlanRunner
from test_passes import assert_equal_numbers
from test_plan import Options, compile_cpu
from tiny_models import TinyConfig, config_json, make_checkpoint, make_tensors, write_tokenizer

from slipstream.builder import build as build_module
from slipstream.builder import native
from slipstream.builder.config import BuildConfig
from slipstream.builder.errors import UnsupportedError
from slipstream.builder.ir import Constant, Graph, Node
from slipstream.builder.ir.interpret import Interpreter, KvCache, _Step
from slipstream.builder.ir.ops import ShapeError
from slipstream.builder.models import ModelSpec, build_graph, parse_config
from slipstream.builder.passes import PassManager
from slipstream.builder.passes.fuse_qkv import FuseQkv
from slipstream.builder.passes.fuse_rope_kv import FuseRopeKv
from slipstream.builder.targets.tensorrt.compile import check_operators

LIVE = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_torch = pytest.mark.skipif(not LIVE, reason="torch and transformers are not installed")
needs_native = pytest.mark.skipif(not native.available(), reason="needs the C++ library")
TINY = TinyConfig(seed=8, architecture="MistralForCausalLM", heads=4, kv_heads=2, window=9)
SINKS = (0.7, -1.5, 3.0, 0.0)
CAP = 2.5
CASES = [(CAP, None), (None, SINKS), (CAP, SINKS)]


def with_extras(graph: Graph, softcap: float | None, sinks: tuple[float, ...] | None) -> Graph:
    """The graph with a cap and sinks on every attention."""
    if sinks is not None:
        graph.add_constant(Constant("sinks", (len(sinks),), values=sinks))
    nodes = []
    for node in graph.nodes:
        if node.op == "attention":
            attrs = node.attrs if softcap is None else {**node.attrs, "softcap": softcap}
            weights = {} if sinks is None else {"sinks": "sinks"}
            node = replace(node, attrs=attrs, weights=weights)
        nodes.append(node)
    return graph.with_nodes(nodes)


def spec() -> ModelSpec:
    return parse_config(config_json(TINY))


@needs_torch
@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("kind", ["softcap", "sinks"])
def test_attention_equals_the_function_of_transformers(kind: str, window: int) -> None:
    import torch
    from transformers.models.gemma2 import modeling_gemma2
    from transformers.models.gpt_oss import modeling_gpt_oss

    rng = np.random.default_rng(4)
    heads, kv_heads, dim, rows = 4, 2, 8, 13
    q = rng.standard_normal((rows, heads, dim), np.float32) * 2
    k, v = (rng.standard_normal((rows, kv_heads, dim), np.float32) for _ in range(2))
    attrs: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "head_dim": dim}
    attrs |= {"window": window, "scale": 0.4}
    graph = Graph("one")
    if kind == "softcap":
        node = Node("attention", "a", (), (), attrs={**attrs, "softcap": CAP}, layer=0)
    else:
        graph.add_constant(Constant("sinks", (heads,), values=SINKS))
        node = Node("attention", "a", (), (), weights={"sinks": "sinks"}, attrs=attrs, layer=0)
    interpreter = Interpreter(graph, {}.__getitem__)
    step = _Step(KvCache(), [(0, 0, rows)], {0: 0})
    flat = [x.reshape(rows, -1) for x in (q, k, v)]
    ours: NDArray[Any] = interpreter._op_attention(node, flat, step)

    at = np.arange(rows)
    hidden = at[None] > at[:, None]
    if window:
        hidden |= at[None] <= at[:, None] - window
    mask = torch.tensor(np.where(hidden, -np.inf, 0.0).astype(np.float32))[None, None]
    module = SimpleNamespace(
        num_key_value_groups=heads // kv_heads, training=False, sinks=torch.tensor(SINKS)
    )
    args = [torch.tensor(x.transpose(1, 0, 2)[None]) for x in (q, k, v)]
    if kind == "softcap":
        theirs, _ = modeling_gemma2.eager_attention_forward(
            module, *args, mask, scaling=0.4, softcap=CAP
        )
    else:
        theirs, _ = modeling_gpt_oss.eager_attention_forward(module, *args, mask, scaling=0.4)
    reference = theirs[0].reshape(rows, -1).numpy()
    assert np.abs(ours - reference).max() < 1e-5 * np.ptp(reference)
    plain = replace(node, attrs=attrs, weights={})
    other = interpreter._op_attention(plain, flat, _Step(KvCache(), [(0, 0, rows)], {0: 0}))
    assert np.abs(other - reference).max() > 1e-2 * np.ptp(reference)


@pytest.mark.parametrize(("softcap", "sinks"), CASES)
def test_passes_and_plan_keep_the_numbers(
    softcap: float | None, sinks: tuple[float, ...] | None
) -> None:
    graph, weights = with_extras(build_graph(spec()), softcap, sinks), make_tensors(TINY)
    fused, _ = PassManager((FuseQkv(), FuseRopeKv())).run(graph)
    assert_equal_numbers(graph, fused, weights)
    tokens = np.random.default_rng(2).integers(0, TINY.vocab, 16).tolist()
    want = Interpreter(graph, weights.__getitem__).run([tokens])[0]
    runner = PlanRunner(compile_cpu(graph, spec(), Options()), weights.__getitem__)
    logits, _ = runner.step([(0, tokens)], range(16))
    assert np.abs(logits[:, : TINY.vocab] - want).max() < 1e-4 * np.ptp(want)


@needs_native
@pytest.mark.parametrize(("softcap", "sinks"), CASES)
def test_the_runtime_computes_them(
    softcap: float | None,
    sinks: tuple[float, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", TINY)
    write_tokenizer(checkpoint, 259)
    edited = with_extras(build_graph(spec()), softcap, sinks)
    monkeypatch.setattr(build_module, "build_graph", lambda _: edited)
    config = BuildConfig(weights="f32", kv_cache="f32")
    build_module.build(checkpoint, tmp_path / "m.engine", config)
    tokens = np.random.default_rng(3).integers(0, TINY.vocab, 40).tolist()
    weights = make_tensors(TINY)
    want = Interpreter(edited, weights.__getitem__).run([tokens])[0]
    plain = Interpreter(build_graph(spec()), weights.__getitem__).run([tokens])[0]
    scalar = native.TeacherForcing(tmp_path / "m.engine", cpu_path="scalar").logits(tokens, 40)
    fast = native.TeacherForcing(tmp_path / "m.engine", threads=2).logits(tokens, 7)
    assert np.abs(fast - want).max() < 1e-4 * np.ptp(want) < np.abs(plain - want).max()
    np.testing.assert_array_equal(fast, scalar)


@pytest.mark.parametrize(("softcap", "sinks"), [(0.0, None), (-1.0, None), (None, (1.0, 2.0))])
def test_wrong_extras_are_refused(softcap: float | None, sinks: tuple[float, ...] | None) -> None:
    with pytest.raises(ShapeError, match=r"softcap|sinks"):
        with_extras(build_graph(spec()), softcap, sinks)


@pytest.mark.parametrize(("softcap", "sinks"), CASES)
def test_tensorrt_says_that_it_has_neither(
    softcap: float | None, sinks: tuple[float, ...] | None
) -> None:
    with pytest.raises(UnsupportedError, match=r"no attention with .*build for --target cpu"):
        check_operators(with_extras(build_graph(spec()), softcap, sinks))
