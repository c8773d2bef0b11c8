"""Rotary embedding: both config spellings to a RopeSpec with its inverse frequencies.

transformers 4 writes `rope_theta` beside an optional `rope_scaling`; transformers 5 writes
`rope_parameters` with everything inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.models.config_reader import ConfigReader, short
from slipstream.builder.models.rope_kinds import (
    F32,
    default_inv_freq,
    dynamic_inv_freq,
    linear_inv_freq,
    llama3_inv_freq,
    longrope_attention_factor,
    longrope_inv_freq,
    yarn_attention_factor,
    yarn_inv_freq,
)
from slipstream.builder.models.spec import ModelSpec, RopeSpec

_MAX_FACTOR = 1e4
# Sines and cosines of the numerics contract are good up to here.
_MAX_ANGLE = 1 << 20
_ORIGINAL = "original_max_position_embeddings"
_KEYS: Mapping[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "dynamic": frozenset({"factor"}),
    "yarn": frozenset(
        {
            "factor",
            _ORIGINAL,
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
        }
    ),
    "longrope": frozenset({"factor", _ORIGINAL, "attention_factor", "short_factor", "long_factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", _ORIGINAL}),
}
KINDS = tuple(_KEYS)
_COMMON = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})


@dataclass(frozen=True)
class RopeRules:
    """What an architecture allows: `kinds`, `aliases` of old names, and whether only a part of
    each head may be rotated. `original` is the trained length of configs that do not say it beside
    their RoPE keys; what those say is not read then, as in the reference implementation. `theta` is
    that of configs that give none."""

    kinds: tuple[str, ...] = KINDS
    aliases: Mapping[str, str] | None = None
    partial: bool = False
    original: int | None = None
    theta: float = 10000.0


@dataclass(frozen=True)
class _Shape:
    """What every kind needs beside its own keys."""

    theta: float
    dim: int
    max_positions: int
    original: int


def read_rope(
    reader: ConfigReader, head_dim: int, max_positions: int, rules: RopeRules | None = None
) -> RopeSpec:
    """Reads the RoPE keys of a config. Errors name the key as the config spells it."""
    where, params = _parameters(reader)
    return _read(reader, where, params, head_dim, max_positions, rules or RopeRules())


def read_layer_ropes(
    reader: ConfigReader, head_dim: int, max_positions: int, full_theta: float, local_theta: float
) -> tuple[RopeSpec, RopeSpec]:
    """The RoPE of layers with full attention and of those with a window, where they differ.

    transformers 4 writes `rope_theta` and `rope_scaling` for the first and `rope_local_base_freq`
    for the second, transformers 5 an object for each inside `rope_parameters`. The thetas are those
    of configs that give none.
    """
    scaling, parameters = reader.raw("rope_scaling"), reader.raw("rope_parameters")
    theta, local = reader.raw("rope_theta"), reader.raw("rope_local_base_freq")
    found: list[RopeSpec] = []
    for kind, base, default, old in (
        ("full_attention", theta, full_theta, scaling),
        ("sliding_attention", local, local_theta, None),
    ):
        where, params = "rope_scaling", _object(reader, "rope_scaling", old)
        if not params and parameters is not None:
            layers = _object(reader, "rope_parameters", parameters)
            unknown = sorted(set(layers) - {"full_attention", "sliding_attention"})
            if unknown:
                raise UnsupportedError(
                    f"{reader.where}: config key 'rope_parameters.{short(unknown[0])}' is not "
                    "known; supported: full_attention, sliding_attention"
                )
            where = f"rope_parameters.{kind}"
            params = _object(reader, where, layers.get(kind))
        outer = ConfigReader({"rope_theta": base}, reader.where)
        rules = RopeRules(theta=default)
        found.append(_read(outer, where, params, head_dim, max_positions, rules))
    return found[0], found[1]


def _read(
    reader: ConfigReader,
    where: str,
    params: Mapping[str, Any],
    head_dim: int,
    max_positions: int,
    rules: RopeRules,
) -> RopeSpec:
    """`params` is the object at the key `where`, `reader` reads the keys beside it."""
    inner = ConfigReader(params, f"{reader.where}: {where}")
    kind = _kind(params, where, reader, rules)
    source = inner if params.get("rope_theta") is not None else reader
    # Below 1 the frequencies grow with the pairs, so that angles leave the kernels' domain.
    theta = source.number("rope_theta", 1.0, 1e12, rules.theta)
    reader.raw("rope_theta")
    dim = _rotary_dim(reader, inner, head_dim, rules)
    for key in sorted(set(params) - _COMMON - _KEYS[kind]):
        if params[key] is not None:
            raise UnsupportedError(
                f"{inner.where}: config key '{key}' = {short(params[key])} is not used by RoPE of "
                f"kind '{kind}'; supported: {', '.join(sorted(_COMMON | _KEYS[kind]))}"
            )
    # The key beside `rope_scaling` wins over the one inside, as in the reference implementation.
    outside = reader.raw(_ORIGINAL) is not None or rules.original is not None
    source = reader if outside else inner
    original = source.integer(_ORIGINAL, 1, 1 << 24, rules.original or max_positions)
    shape = _Shape(theta, dim, max_positions, original)
    return _check_finite(inner, _SPECS[kind](inner, shape))


def fix_length(spec: ModelSpec, max_seq_len: int) -> tuple[ModelSpec, str]:
    """The model of an engine for sequences of up to `max_seq_len` tokens, and what was fixed.

    The reference implementation changes the frequencies of some kinds while a sequence grows; keys
    that are already in a cache would then be rotated by other frequencies than the queries. An
    engine uses those of its longest sequence from the first token on. The text is empty for kinds
    that know no length.
    """
    rope, fixed = _fixed(spec.rope, max_seq_len)
    local = None if spec.local_rope is None else _fixed(spec.local_rope, max_seq_len)
    fastest = max(rope.inv_freq + (() if local is None else local[0].inv_freq))
    if fastest * max_seq_len > _MAX_ANGLE:
        raise UnsupportedError(
            f"config.json: RoPE turns by {fastest:g} a position, so that {max_seq_len} tokens "
            f"reach an angle of {fastest * max_seq_len:g}; the kernels are exact up to "
            f"{_MAX_ANGLE}. Ask for --max-seq-len {int(_MAX_ANGLE / fastest)} or less"
        )
    if local is None:
        return replace(spec, rope=rope), fixed
    if local[1]:
        fixed = "; ".join(filter(None, (fixed, f"layers with a window: {local[1]}")))
    return replace(spec, rope=rope, local_rope=local[0]), fixed


def _fixed(rope: RopeSpec, max_seq_len: int) -> tuple[RopeSpec, str]:
    if rope.kind == "dynamic":
        length = max(max_seq_len, rope.trained_length)
        values = dynamic_inv_freq(
            rope.theta, rope.rotary_dim, rope.factor, length, rope.trained_length
        )
        return replace(rope, inv_freq=_floats(values)), f"dynamic, fixed for {length} tokens"
    if rope.kind == "longrope":
        if max_seq_len <= rope.trained_length:
            return rope, "longrope, short factors"
        return replace(rope, inv_freq=rope.long_inv_freq), "longrope, long factors"
    return rope, ""


def _rotary_dim(reader: ConfigReader, inner: ConfigReader, head_dim: int, rules: RopeRules) -> int:
    key = "partial_rotary_factor"
    if not rules.partial:
        value = inner.raw(key)
        if value not in (None, 1, 1.0):
            raise UnsupportedError(
                f"{inner.where}: config key '{key}' = {short(value)} changes the computation "
                "and is not supported; supported: 1.0"
            )
        return head_dim  # The key outside is refused by the reader unless it is neutral.
    outer = reader.raw(key)
    source = inner if inner.raw(key) is not None or outer is None else reader
    factor = source.number(key, 1e-3, 1.0, 1.0)
    dim = int(head_dim * factor)
    if dim < 2 or dim % 2:
        raise source.bad(
            key, factor, f"rotates {dim} of {head_dim} elements of a head; RoPE rotates pairs"
        )
    return dim


def _floats(values: F32) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _check_finite(inner: ConfigReader, spec: RopeSpec) -> RopeSpec:
    for values in (spec.inv_freq, spec.long_inv_freq):
        if not np.all(np.isfinite(values)) or any(v <= 0 for v in values):
            raise InputError(
                f"{inner.where}: the values give RoPE frequencies that are not positive numbers; "
                "correct the checkpoint's config.json"
            )
    return spec


def _default(inner: ConfigReader, s: _Shape) -> RopeSpec:
    return RopeSpec("default", s.theta, s.dim, _floats(default_inv_freq(s.theta, s.dim)))


def _linear(inner: ConfigReader, s: _Shape) -> RopeSpec:
    factor = inner.number("factor", 1e-3, _MAX_FACTOR)
    return RopeSpec("linear", s.theta, s.dim, _floats(linear_inv_freq(s.theta, s.dim, factor)))


def _dynamic(inner: ConfigReader, s: _Shape) -> RopeSpec:
    factor = inner.number("factor", 1.0, _MAX_FACTOR)
    if s.dim < 4:
        raise InputError(
            f"{inner.where}: RoPE of kind 'dynamic' rotates {s.dim} elements of a head, and needs "
            "at least 4; correct the checkpoint's config.json"
        )
    return RopeSpec(
        "dynamic",
        s.theta,
        s.dim,
        _floats(default_inv_freq(s.theta, s.dim)),
        factor=factor,
        trained_length=s.max_positions,
        context_limit=int(s.max_positions * factor),
    )


def _yarn(inner: ConfigReader, s: _Shape) -> RopeSpec:
    if s.theta <= 1.0:
        raise inner.bad("rope_theta", s.theta, "must be above 1 for RoPE of kind 'yarn'")
    factor = inner.number("factor", 1e-3, _MAX_FACTOR, s.max_positions / s.original)
    mscale = inner.number("mscale", 0.0, 100.0, 0.0)
    mscale_all = inner.number("mscale_all_dim", 0.0, 100.0, 0.0)
    inferred = yarn_attention_factor(factor, mscale, mscale_all)
    attention = inner.number("attention_factor", 1e-3, 1e3, inferred)
    # Zero means the default here, in the reference implementation as well.
    fast = inner.number("beta_fast", 0.0, 1e6, 32.0) or 32.0
    slow = inner.number("beta_slow", 0.0, 1e6, 1.0) or 1.0
    if fast < slow:
        raise InputError(
            f"{inner.where}: 'beta_fast' = {fast:g} must not be below 'beta_slow' = {slow:g}; "
            "correct the checkpoint's config.json"
        )
    truncate = inner.boolean("truncate", True)
    values = yarn_inv_freq(s.theta, s.dim, factor, s.original, fast, slow, truncate)
    return RopeSpec("yarn", s.theta, s.dim, _floats(values), attention)


def _longrope(inner: ConfigReader, s: _Shape) -> RopeSpec:
    short = _factors(inner, "short_factor", s.dim // 2)
    long = _factors(inner, "long_factor", s.dim // 2)
    factor = inner.number("factor", 1e-3, _MAX_FACTOR, s.max_positions / s.original)
    if s.original < 2:
        raise inner.bad(_ORIGINAL, s.original, "must be at least 2 for RoPE of kind 'longrope'")
    inferred = longrope_attention_factor(factor, s.original)
    attention = inner.number("attention_factor", 1e-3, 1e3, inferred)
    return RopeSpec(
        "longrope",
        s.theta,
        s.dim,
        _floats(longrope_inv_freq(s.theta, s.dim, short)),
        attention,
        trained_length=s.original,
        long_inv_freq=_floats(longrope_inv_freq(s.theta, s.dim, long)),
    )


def _factors(inner: ConfigReader, key: str, count: int) -> list[float]:
    value = inner.raw(key)
    if not isinstance(value, list) or len(value) != count:
        raise inner.bad(key, value, f"must be a list of {count} numbers")
    for item in value:
        number = isinstance(item, (int, float)) and not isinstance(item, bool)
        if not number or not 1e-6 <= item <= 1e6:
            raise inner.bad(key, item, "holds something else than numbers from 1e-06 to 1e+06")
    return [float(item) for item in value]


def _llama3(inner: ConfigReader, s: _Shape) -> RopeSpec:
    factor = inner.number("factor", 1.0, _MAX_FACTOR)
    low = inner.number("low_freq_factor", 1e-6, 1e6)
    high = inner.number("high_freq_factor", 1e-6, 1e6)
    if high <= low:
        raise InputError(
            f"{inner.where}: 'high_freq_factor' = {high} must be above 'low_freq_factor' = "
            f"{low}; correct the checkpoint's config.json"
        )
    values = default_inv_freq(s.theta, s.dim)
    values = llama3_inv_freq(values, factor, low, high, s.original)
    return RopeSpec("llama3", s.theta, s.dim, _floats(values))


_SPECS = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}


def _parameters(reader: ConfigReader) -> tuple[str, Mapping[str, Any]]:
    scaling, parameters = reader.raw("rope_scaling"), reader.raw("rope_parameters")
    where, params = "rope_scaling", _object(reader, "rope_scaling", scaling)
    if not params:
        where, params = "rope_parameters", _object(reader, "rope_parameters", parameters)
    for key, value in params.items():
        if isinstance(value, dict):
            raise UnsupportedError(
                f"{reader.where}: config key '{where}.{key}' gives layers a RoPE of their own, "
                "which is not supported; supported: one RoPE for all layers"
            )
    return where, params


def _object(reader: ConfigReader, key: str, value: Any) -> Mapping[str, Any]:
    """The object at a key, empty where there is none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise reader.bad(key, value, "must be an object or null")
    return value


def _kind(params: Mapping[str, Any], where: str, reader: ConfigReader, rules: RopeRules) -> str:
    key = "rope_type" if params.get("rope_type") is not None else "type"
    kind = params.get(key)
    if kind is None:
        kind = "default"
    if isinstance(kind, str):
        kind = (rules.aliases or {}).get(kind, kind)
    if not isinstance(kind, str) or kind not in rules.kinds:
        raise UnsupportedError(
            f"{reader.where}: config key '{where}.{key}' = {short(kind)} changes the computation "
            f"and is not supported; supported: {', '.join(rules.kinds)}"
        )
    return kind
