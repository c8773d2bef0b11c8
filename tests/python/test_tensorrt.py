"""The TensorRT target without a GPU: the cut is checked by the interpreter's own rules, the plans
by TensorRT's builder."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import TinyConfig, config_json

from slipstream.builder.errors import BuildError, UnsupportedError
from slipstream.builder.ir.graph import Graph
from slipstream.builder.models import build_graph, parse_config
from slipstream.builder.targets.tensorrt import provider
from slipstream.builder.targets.tensorrt.compile import (
    bf16_bits,
    check_operators,
    compile_segments,
    embedded_bytes,
)
from slipstream.builder.targets.tensorrt.segments import cut
from slipstream.errors import IncompatibleError, InvalidArgumentError

needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None,
    reason="tensorrt_rtx_bindings is not installed (pip install 'slipstream[tensorrt-rtx]')",
)

SHAPES = [
    TinyConfig(vocab=1024, hidden=576, intermediate=1536, heads=9, kv_heads=3, tied=True),
    TinyConfig(vocab=515, hidden=96, intermediate=160, heads=4, kv_heads=1, attention_bias=True),
]


def graph_of(tiny: TinyConfig) -> Graph:
    return build_graph(parse_config(config_json(tiny)))


def random_weights(graph: Graph) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {
        name: (
            np.asarray(constant.values, np.float32)
            if constant.values is not None
            else (rng.standard_normal(constant.shape) * 0.02).astype(np.float32)
        )
        for name, constant in graph.constants.items()
    }


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_cut_is_a_partition_whose_interfaces_close(layers: int) -> None:
    graph = graph_of(TinyConfig(layers=layers))
    segments = cut(graph)
    assert len(segments) == layers + 1
    order = [n.name for s in segments for n in (*s.nodes, *([s.attention] if s.attention else []))]
    assert order == [n.name for n in graph.nodes]
    known = set(graph.inputs)
    for segment in segments:
        assert set(segment.inputs) <= known, "a segment reads what nothing before it gave out"
        known |= set(segment.outputs)
        if segment.attention is not None:
            assert set(segment.attention.inputs) <= known
            known |= set(segment.attention.outputs)
    assert set(graph.results.values()) <= known
    # Nothing leaves a segment that nobody reads.
    read = {i for s in segments for i in s.inputs} | set(graph.results.values())
    read |= {i for s in segments if s.attention for i in s.attention.inputs}
    assert {o for s in segments for o in s.outputs} <= read


def test_bf16_bits_round_to_nearest_even() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(1)
    random = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([random, np.float32([0.0, -0.0, np.inf, -np.inf, 1.00390625, 3.4e38])])
    with np.errstate(invalid="ignore"):
        want = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    got = bf16_bits(values)
    numbers = ~np.isnan(values)
    assert np.array_equal(got[numbers], want[numbers])
    assert np.isnan((got[~numbers].astype(np.uint32) << 16).view(np.float32)).all()


@pytest.mark.parametrize(
    ("sms", "message"),
    [((), "needs --sm"), ((75,), "no BF16"), ((90,), "classic TensorRT"), ((89, 1), "choose from")],
)
def test_compute_capabilities_that_cannot_be_built(sms: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        provider.check_sms(sms)


def test_an_operator_without_a_layer_is_refused_by_name() -> None:
    graph = graph_of(TinyConfig())
    check_operators(graph)
    node = graph.nodes[2]
    graph.nodes[2] = replace(node, op="tanh")
    with pytest.raises(UnsupportedError, match=f"{node.name}.*'tanh'.*--target cpu"):
        check_operators(graph)


def test_missing_bindings_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx_bindings", None)
    with pytest.raises(IncompatibleError, match=r"slipstream\[tensorrt-rtx\]"):
        provider.load_rtx()


@needs_rtx
@pytest.mark.parametrize("tiny", SHAPES, ids=["llama", "biases"])
def test_a_two_layer_bf16_model_becomes_plans_for_sm89(tiny: TinyConfig) -> None:
    graph = graph_of(tiny)
    weights = random_weights(graph)
    plans = list(
        compile_segments(
            graph, weights.__getitem__, provider.load_rtx(), 89, max_tokens=512, max_outputs=64
        )
    )
    assert [p.attention_layer for p in plans] == [0, 1, -1]
    for plan in plans:
        assert plan.plan[:4] == b"vtrt"
        assert int.from_bytes(plan.plan[16:24], "little") == len(plan.plan)
    matrices = sum(w.size * 2 for w in weights.values() if w.ndim == 2)
    # A tied head is a constant of two segments; norm gains and RoPE frequencies are small.
    duplicated = graph.constants["model.embed_tokens.weight"].shape if tiny.tied else (0, 0)
    expected = matrices + duplicated[0] * duplicated[1] * 2
    assert sum(embedded_bytes(graph, s) for s in cut(graph)) >= expected
    reported = sum(p.weights_bytes for p in plans)
    assert expected <= reported <= expected * 1.2 + 65536


@needs_rtx
def test_a_refused_network_shows_the_builders_own_text() -> None:
    from slipstream.builder.targets.tensorrt.network import Network

    network = Network(provider.load_rtx())
    x = network.rows_input("x", 16)
    # K of the weight is 8, the rows have 16 columns.
    network.output("y", network.linear(x, network.weight(np.zeros((4, 8), np.uint16)), None))
    with pytest.raises(BuildError, match=r"sm_89: .+"):
        network.build(89, {"x": 8}, {"x": 16})
