"""Sizes in bytes as people write them."""

from __future__ import annotations

import re

from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError

_FACTORS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", re.IGNORECASE)


def parse_bytes(value: int | str, name: str) -> int:
    """`512M`, `1.5GiB` or a plain number as bytes. Units are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; give bytes, or a number with K, M, G or T, such as "
                "512M."
            )
        exact = float(match[1]) * (1 << _FACTORS[match[2].lower()])
        size = int(exact) if exact < 2**63 else 2**63
    if not 0 < size < 2**63:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}; it must be between 1 byte and 8 EiB."
        )
    return size
