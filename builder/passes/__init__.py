"""Rewrites of a graph, one per file, and the manager that runs, verifies and dumps them."""

from __future__ import annotations

from slipstream.builder.passes.base import Pass, PassResult
from slipstream.builder.passes.manager import IrDumper, PassManager

__all__ = ["IrDumper", "Pass", "PassManager", "PassResult"]
