"""The version, written once: the wheel's metadata and CMake read this file."""

from __future__ import annotations

__version__ = "0.1.0"
