"""The targets by name. Loads none of their code until it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.builder.targets.base import ExtraTarget

CPU = "cpu"
# Modules whose TARGET adds its plans beside the CPU plan. Importing one loads no compiler.
_EXTRA: Mapping[str, str] = {"tensorrt-rtx": "slipstream.builder.targets.tensorrt.target"}
# Python packages that a target's compiler comes in.
_REQUIRED: Mapping[str, str] = {"tensorrt-rtx": "tensorrt_rtx_bindings"}
NAMES = (CPU, *_EXTRA)


def extra_target(name: str) -> ExtraTarget | None:
    """The target of that name; None for the CPU, whose plan every engine holds."""
    if name == CPU:
        return None
    target: ExtraTarget = importlib.import_module(_EXTRA[name]).TARGET
    return target


def extra_names() -> tuple[str, ...]:
    return tuple(_EXTRA)


def required_module(name: str) -> str | None:
    """The Python module that compiling for a target needs beyond Slipstream's own dependencies."""
    return _REQUIRED.get(name)
