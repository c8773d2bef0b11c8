"""The interpreter itself: against loops written out by hand, and incremental against full runs."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import TinyConfig, config_json, make_tensors, random_config

from slipstream.builder.ir.interpret import Chunk, Interpreter, KvCache
from slipstream.builder.ir.rounding import round_to
from slipstream.builder.models import ModelSpec, build_graph, parse_config

Array = NDArray[Any]


def interpreter(tiny: TinyConfig, **options: Any) -> Interpreter:
    graph = build_graph(parse_config(config_json(tiny)))
    return Interpreter(graph, make_tensors(tiny).__getitem__, **options)


def by_hand(spec: ModelSpec, w: dict[str, Array], tokens: list[int]) -> Array:
    """A decoder in scalar-minded f64 loops, straight from the definitions."""

    def norm(x: Array, gain: Array) -> Array:
        out = np.empty_like(x)
        for t in range(len(x)):
            mean = sum(float(v) * float(v) for v in x[t]) / len(x[t])
            out[t] = x[t] / math.sqrt(mean + spec.norm_eps) * gain
        return out

    def linear(x: Array, path: str) -> Array:
        y: Array = np.einsum("tk,nk->tn", x, w[f"{path}.weight"])
        return y + w[f"{path}.bias"] if f"{path}.bias" in w else y

    def rotate(head: Array, position: int) -> Array:
        out = head.copy()
        half = spec.rope.rotary_dim // 2
        for i in range(half):
            angle = float(np.float32(position) * np.float32(spec.rope.inv_freq[i]))
            a, b = head[i], head[i + half]
            out[i] = a * math.cos(angle) - b * math.sin(angle)
            out[i + half] = b * math.cos(angle) + a * math.sin(angle)
        return out

    w = {k: v.astype(np.float64) for k, v in w.items()}
    dim, group = spec.head_dim, spec.num_heads // spec.num_kv_heads
    x = w["model.embed_tokens.weight"][tokens]
    for layer, window in enumerate(spec.windows):
        p = f"model.layers.{layer}"
        n = norm(x, w[f"{p}.input_layernorm.weight"])
        q, k, v = (linear(n, f"{p}.self_attn.{c}_proj") for c in "qkv")
        out = np.zeros((len(tokens), spec.num_heads * dim))
        for t in range(len(tokens)):
            for h in range(spec.num_heads):
                mine = slice(h * dim, (h + 1) * dim)
                theirs = slice(h // group * dim, (h // group + 1) * dim)
                seen = [s for s in range(t + 1) if not window or s > t - window]
                query = rotate(q[t, mine], t)
                scores = [query @ rotate(k[s, theirs], s) / math.sqrt(dim) for s in seen]
                weights = [math.exp(s - max(scores)) for s in scores]
                for s, weight in zip(seen, weights, strict=True):
                    out[t, mine] += weight / sum(weights) * v[s, theirs]
        x = x + linear(out, f"{p}.self_attn.o_proj")
        n = norm(x, w[f"{p}.post_attention_layernorm.weight"])
        gate, up = linear(n, f"{p}.mlp.gate_proj"), linear(n, f"{p}.mlp.up_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * up, f"{p}.mlp.down_proj")
    head = "model.embed_tokens" if spec.tied_embeddings else "lm_head"
    return linear(norm(x, w["model.norm.weight"]), head)


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_loops_written_by_hand(seed: int) -> None:
    tiny = random_config(seed)
    tokens = np.random.default_rng(seed).integers(0, tiny.vocab, 14).tolist()
    want = by_hand(parse_config(config_json(tiny)), make_tensors(tiny), tokens)
    got = interpreter(tiny, dtype=np.float64).run([tokens])[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * np.ptp(want))
    f32 = interpreter(tiny).run([tokens])[0]
    assert f32.dtype == np.float32
    assert np.abs(f32 - want).max() < 1e-4 * np.ptp(want)


@pytest.mark.parametrize("seed", range(20))
def test_any_chunking_equals_the_full_run(seed: int) -> None:
    tiny = random_config(seed)
    run = interpreter(tiny, dtype=np.float64)
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 21, int(rng.integers(1, 4))).tolist()
    sequences = [rng.integers(0, tiny.vocab, n).tolist() for n in lengths]
    expected = [run.run([s])[0] for s in sequences]
    together = run.run(sequences)
    for want, got in zip(expected, together, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * np.abs(want).max())
    cache, done = KvCache(), [0] * len(sequences)
    while any(d < len(s) for d, s in zip(done, sequences, strict=True)):
        chunks, want_rows = [], []
        for slot, sequence in enumerate(sequences):
            count = int(rng.integers(0, len(sequence) - done[slot] + 1))
            if count:
                chunks.append(Chunk(slot, sequence[done[slot] : done[slot] + count]))
                done[slot] += count
                want_rows.append(expected[slot][done[slot] - 1])
        if chunks:
            logits = run.step(cache, chunks).logits
            want = np.stack(want_rows)
            np.testing.assert_allclose(logits, want, rtol=0, atol=1e-10 * np.abs(want).max())
    assert [cache.lengths[i] for i in range(len(sequences))] == [len(s) for s in sequences]


def test_a_window_forgets_and_full_attention_does_not() -> None:
    for window, forgets in ((4, True), (None, False)):
        tiny = TinyConfig(architecture="MistralForCausalLM", layers=1, window=window)
        run = interpreter(tiny, dtype=np.float64)
        tokens = list(range(10, 22))
        other = [99, *tokens[1:]]
        a, b = run.run([tokens])[0], run.run([other])[0]
        same = np.abs(a - b).max(axis=1) < 1e-12
        assert not same[:4].any()
        assert same[4:].all() == forgets


def test_no_output_rows_still_advance_the_cache() -> None:
    tiny = TinyConfig()
    run = interpreter(tiny)
    cache = KvCache()
    result = run.step(cache, [Chunk(0, [1, 2, 3])], [])
    assert result.logits.shape == (0, tiny.vocab) and cache.lengths == {0: 3}
    after = run.step(cache, [Chunk(0, [4])]).logits[0]
    np.testing.assert_allclose(after, run.run([[1, 2, 3, 4]])[0][3], atol=1e-5)


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_the_cache_is_rounded_to_its_format(fmt: str) -> None:
    tiny = TinyConfig()
    cache = KvCache()
    interpreter(tiny, kv_format=fmt).step(cache, [Chunk(0, list(range(30)))])
    exact = KvCache()
    interpreter(tiny).step(exact, [Chunk(0, list(range(30)))])
    # Only the first layer sees the same inputs in both runs.
    for mine, full in ((cache.keys, exact.keys), (cache.values, exact.values)):
        np.testing.assert_array_equal(mine[0, 0], round_to(full[0, 0], fmt))
        assert (mine[0, 0] != full[0, 0]).any()


@pytest.mark.parametrize(("fmt", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_rounding_agrees_with_the_reference_types(fmt: str, dtype: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint64)
    values = bits.astype(np.uint32).view(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 65504.0, 65520.0, 1.00390625]
    values = np.concatenate([values, np.asarray(special, np.float32)])
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(
            round_to(values, fmt), values.astype(dtype).astype(np.float32)
        )
    with pytest.raises(ValueError, match="known: f32, f16, bf16"):
        round_to(values, "f8")


def test_steps_that_make_no_sense_are_refused() -> None:
    run = interpreter(TinyConfig())
    for chunks in ([], [Chunk(0, [])], [Chunk(0, [1]), Chunk(0, [2])]):
        with pytest.raises(ValueError):
            run.step(KvCache(), chunks)


def test_weights_of_the_wrong_shape_are_refused() -> None:
    tiny = TinyConfig()
    graph = build_graph(parse_config(config_json(tiny)))
    run = Interpreter(graph, lambda name: make_tensors(tiny)[name][..., :-1])
    with pytest.raises(ValueError, match=r"got shape \(131, 39\), expected \(131, 40\)"):
        run.run([[1]])
