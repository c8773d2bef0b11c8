"""What a target is to the compiler driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from slipstream.builder.ir.graph import Graph
from slipstream.builder.models.spec import ModelSpec
from slipstream.builder.passes.base import Pass
from slipstream.builder.passes.manager import IrDumper

Options = TypeVar("Options", contravariant=True)
Program = TypeVar("Program", covariant=True)


class Target(Protocol[Options, Program]):
    """A client of the portable graph. Stateless; each has its own options and program.

    A driver calls `check` before any work, so that a build that cannot succeed fails in its first
    second, then `compile`.
    """

    @property
    def name(self) -> str: ...

    def check(self, graph: Graph, options: Options) -> None:
        """UnsupportedError with the layer, the flag and the fix if the target cannot run it."""
        ...

    def passes(self) -> Sequence[Pass]:
        """The rewrites that the target needs, in order."""
        ...

    def compile(
        self, graph: Graph, spec: ModelSpec, options: Options, dumper: IrDumper | None = None
    ) -> Program:
        """The portable graph (after the portable passes) as a program of the target."""
        ...
