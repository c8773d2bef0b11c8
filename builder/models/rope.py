"""Rotary embedding kinds: both config spellings to a RopeSpec with its inverse frequencies.

transformers 4 writes `rope_theta` beside an optional `rope_scaling`; transformers 5 writes
`rope_parameters` with everything inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.builder.models.config_reader import ConfigReader
from slipstream.builder.models.spec import RopeSpec

KINDS = ("default", "llama3")
_DEFAULT_THETA = 10000.0
_KEYS: Mapping[str, frozenset[str]] = {
    "default": frozenset(),
    "llama3": frozenset(
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}
    ),
}
_COMMON = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})

F32 = NDArray[np.float32]


def read_rope(reader: ConfigReader, head_dim: int, max_positions: int) -> RopeSpec:
    """Reads the RoPE keys of a config. Errors name the key as the config spells it."""
    where, params = _parameters(reader)
    inner = ConfigReader(params, f"{reader.where}: {where}")
    kind = _kind(params, where, reader)
    if "rope_theta" in params:
        theta = inner.number("rope_theta", 1e-3, 1e12)
    else:
        theta = reader.number("rope_theta", 1e-3, 1e12, _DEFAULT_THETA)
    reader.raw("rope_theta")
    if inner.raw("partial_rotary_factor") not in (None, 1, 1.0):
        raise UnsupportedError(
            f"{inner.where}: config key 'partial_rotary_factor' = "
            f"{params['partial_rotary_factor']!r} changes the computation and is not supported; "
            "supported: 1.0"
        )
    for key in sorted(set(params) - _COMMON - _KEYS[kind]):
        if params[key] is not None:
            raise UnsupportedError(
                f"{inner.where}: config key '{key}' = {params[key]!r} is not used by RoPE of kind "
                f"'{kind}'; supported: {', '.join(sorted(_COMMON | _KEYS[kind]))}"
            )
    inv_freq = default_inv_freq(theta, head_dim)
    outer_original = reader.raw("original_max_position_embeddings")
    if kind == "llama3":
        factor = inner.number("factor", 1.0, 1e4)
        low = inner.number("low_freq_factor", 1e-6, 1e6)
        high = inner.number("high_freq_factor", 1e-6, 1e6)
        if high <= low:
            raise InputError(
                f"{inner.where}: 'high_freq_factor' = {high} must be above 'low_freq_factor' = "
                f"{low}; correct the checkpoint's config.json"
            )
        source = reader if outer_original is not None else inner
        original = source.integer("original_max_position_embeddings", 1, 1 << 24, max_positions)
        inv_freq = llama3_inv_freq(inv_freq, factor, low, high, original)
    return RopeSpec(kind, theta, head_dim, tuple(float(v) for v in inv_freq))


def _parameters(reader: ConfigReader) -> tuple[str, Mapping[str, Any]]:
    scaling, parameters = reader.raw("rope_scaling"), reader.raw("rope_parameters")
    where, params = ("rope_scaling", scaling) if scaling else ("rope_parameters", parameters)
    if params is None or params == {}:
        return where, {}
    if not isinstance(params, dict):
        raise reader.bad(where, params, "must be an object")
    for key, value in params.items():
        if isinstance(value, dict):
            raise UnsupportedError(
                f"{reader.where}: config key '{where}.{key}' gives layers a RoPE of their own, "
                "which is not supported; supported: one RoPE for all layers"
            )
    return where, params


def _kind(params: Mapping[str, Any], where: str, reader: ConfigReader) -> str:
    key = "rope_type" if params.get("rope_type") is not None else "type"
    kind = params.get(key)
    if kind is None:
        kind = "default"
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnsupportedError(
            f"{reader.where}: config key '{where}.{key}' = {kind!r} changes the computation and is "
            f"not supported; supported: {', '.join(KINDS)}"
        )
    return kind


def default_inv_freq(theta: float, dim: int) -> F32:
    """theta^(-2i/dim) with the f32 roundings of the reference implementation.

    The power is taken in f64 and rounded once: numpy's f32 power differs between machines, and a
    build must not.
    """
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    powers = np.asarray([math.pow(theta, float(e)) for e in exponents], np.float32)
    inverse: F32 = (np.float32(1.0) / powers).astype(np.float32)
    return inverse


def llama3_inv_freq(inv_freq: F32, factor: float, low: float, high: float, original: int) -> F32:
    """Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between
    interpolated. All steps in f32, like the reference implementation."""
    wavelength = np.float32(2 * math.pi) / inv_freq
    scaled = np.where(wavelength > original / low, inv_freq / np.float32(factor), inv_freq)
    smooth = (np.float32(original) / wavelength - np.float32(low)) / np.float32(high - low)
    smoothed = (np.float32(1) - smooth) * scaled / np.float32(factor) + smooth * scaled
    medium = ~(wavelength < original / high) & ~(wavelength > original / low)
    result: F32 = np.where(medium, smoothed, scaled).astype(np.float32)
    return result
