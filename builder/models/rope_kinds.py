"""Inverse frequencies of each RoPE kind, with the f32 roundings of the reference implementation.

Powers are taken in f64 and rounded once: numpy's f32 power differs between machines, and a build
must not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def _powers(theta: float, dim: int) -> F32:
    """theta^(2i/dim), theta rounded to f32 first."""
    base = float(np.float32(theta))
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    return np.asarray([math.pow(base, float(e)) for e in exponents], np.float32)


def _inverse(powers: F32) -> F32:
    inverse: F32 = (np.float32(1.0) / powers).astype(np.float32)
    return inverse


def default_inv_freq(theta: float, dim: int) -> F32:
    """theta^(-2i/dim)."""
    return _inverse(_powers(theta, dim))


def linear_inv_freq(theta: float, dim: int, factor: float) -> F32:
    """Every frequency divided by `factor`: positions are that much closer together."""
    return default_inv_freq(theta, dim) / np.float32(factor)


def dynamic_inv_freq(theta: float, dim: int, factor: float, length: int, trained: int) -> F32:
    """NTK: past the `trained` length, theta grows with the `length` of the sequence."""
    stretch = factor * max(length, trained) / trained - (factor - 1)
    return default_inv_freq(theta * stretch ** (dim / (dim - 2)), dim)


def longrope_inv_freq(theta: float, dim: int, factors: Sequence[float]) -> F32:
    """One divisor per frequency."""
    return _inverse(np.asarray(factors, np.float32) * _powers(theta, dim))


def longrope_attention_factor(factor: float, original: int) -> float:
    if factor <= 1.0:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(original))


def yarn_inv_freq(
    theta: float,
    dim: int,
    factor: float,
    original: int,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
) -> F32:
    """Fast frequencies are kept, slow ones divided by `factor`, with a ramp between the pairs that
    turn `beta_fast` and `beta_slow` times within the `original` context."""

    def pair_that_turns(times: float) -> float:
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_that_turns(beta_fast), pair_that_turns(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    pairs = np.arange(dim // 2, dtype=np.float32)
    ramp = np.clip((pairs - np.float32(low)) / np.float32(high - low), np.float32(0), np.float32(1))
    kept = np.float32(1) - ramp
    powers = _powers(theta, dim)
    slow, fast = _inverse(np.float32(factor) * powers), _inverse(powers)
    result: F32 = (slow * (np.float32(1) - kept) + fast * kept).astype(np.float32)
    return result


def yarn_attention_factor(factor: float, mscale: float, mscale_all_dim: float) -> float:
    """0 for a scale that the config does not give."""

    def scaled(mscale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0

    if mscale and mscale_all_dim:
        return scaled(mscale) / scaled(mscale_all_dim)
    return scaled(1.0)


def llama3_inv_freq(inv_freq: F32, factor: float, low: float, high: float, original: int) -> F32:
    """Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between
    interpolated."""
    wavelength = np.float32(2 * math.pi) / inv_freq
    scaled = np.where(wavelength > original / low, inv_freq / np.float32(factor), inv_freq)
    smooth = (np.float32(original) / wavelength - np.float32(low)) / np.float32(high - low)
    smoothed = (np.float32(1) - smooth) * scaled / np.float32(factor) + smooth * scaled
    medium = ~(wavelength < original / high) & ~(wavelength > original / low)
    result: F32 = np.where(medium, smoothed, scaled).astype(np.float32)
    return result
