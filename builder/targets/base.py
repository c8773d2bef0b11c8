"""What a target is to the compiler driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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


# Gives the f32 values of a constant of the portable graph by its name.
Weights = Callable[[str], NDArray[np.float32]]
# Takes a section of the engine file: its name and its bytes.
WriteSection = Callable[[str, bytes], None]


class ExtraOptions(Protocol):
    """The resolved fields of a build configuration that an extra target reads."""

    @property
    def weights(self) -> str: ...

    @property
    def kv_cache(self) -> str: ...

    @property
    def sm(self) -> tuple[int, ...]: ...

    @property
    def max_batch_size(self) -> int: ...

    @property
    def max_num_tokens(self) -> int: ...


class ExtraProgram(Protocol):
    """Plans that are known to be buildable, but for what only their compiler can find out.

    `weight_bytes` is what the plans will hold of weights beside the weights section, `plan_bytes`
    an upper estimate of their sections.
    """

    @property
    def weight_bytes(self) -> int: ...

    @property
    def plan_bytes(self) -> int: ...

    def compile(self, weights: Weights, write: WriteSection) -> tuple[list[dict[str, Any]], str]:
        """Writes a section for each plan, named `plan.<target>...`. Returns the entries of the
        manifest's `targets` and a line that says what was made. BuildError if a plan cannot be
        built."""
        ...


class ExtraTarget(Protocol):
    """A target whose plans lie in the engine file beside the CPU plan, which every file has."""

    @property
    def name(self) -> str: ...

    def check_sm(self, sm: tuple[int, ...]) -> None:
        """InvalidArgumentError for compute capabilities that it does not build for. Cheap: the
        configuration calls it."""
        ...

    def prepare(self, graph: Graph, options: ExtraOptions) -> ExtraProgram:
        """Refuses whatever can be refused before any work, with the fix: formats, operators,
        compilers that are not installed. Reads no weights."""
        ...
