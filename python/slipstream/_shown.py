"""Values from outside (callers, files) inside messages: never more than a glance of them."""

from __future__ import annotations

__all__ = ["excerpt", "name_excerpt", "shown"]

_LONGEST = 40
# Converting a longer integer to decimal digits takes time, and Python may refuse to.
_LONGEST_BITS = 128


def excerpt(text: str, longest: int = _LONGEST) -> str:
    """`text`, or its first `longest` characters and "..." where it has more."""
    return text if len(text) <= longest else f"{text[:longest]}..."


def name_excerpt(name: str) -> str:
    """The same for names, of which a longer part is needed to know what is meant."""
    return excerpt(name, 100)


def shown(value: object) -> str:
    """`repr(value)`, cut to 40 characters. Never raises, whatever the value is."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes, bytearray)):
        value = value[: _LONGEST + 1]
    try:
        return excerpt(repr(value))
    except Exception:  # of the value's own class, or of an integer deep inside
        return f"a {type(value).__name__}"
