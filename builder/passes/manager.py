"""Runs passes in order; after each one the graph is verified and, if asked, dumped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream.builder.errors import InputError, InternalError
from slipstream.builder.ir.graph import Graph
from slipstream.builder.ir.printer import print_graph
from slipstream.builder.ir.verify import VerifyError, verify
from slipstream.builder.passes.base import Pass


class IrDumper:
    """Writes numbered text files (`00-portable.ir`, `01-fold.ir`, ...) into a folder.

    One dumper numbers the files of a whole build. InputError if the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0

    def dump(self, name: str, graph: Graph) -> None:
        path = self._folder / f"{self._next:02d}-{name}.ir"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(print_graph(graph), encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"--dump-ir: cannot write {path}: {error.strerror}; give a folder that can be "
                "written"
            ) from error
        self._next += 1


class PassManager:
    """A list of passes to run over a graph."""

    def __init__(self, passes: Sequence[Pass], dumper: IrDumper | None = None) -> None:
        self._passes = tuple(passes)
        self._dumper = dumper

    def run(self, graph: Graph, *, portable: bool = False) -> tuple[Graph, list[str]]:
        """Returns the rewritten graph and the log, each line led by the name of its pass.

        `portable` keeps verifying that no operator of one target appears. InternalError if a pass
        breaks a rule of the graph; the message names the pass.
        """
        log: list[str] = []
        for item in self._passes:
            result = item.run(graph)
            graph = result.graph
            try:
                verify(graph, portable=portable)
            except VerifyError as error:
                raise InternalError(f"pass '{item.name}' broke the graph: {error}") from error
            if self._dumper is not None:
                self._dumper.dump(item.name, graph)
            log += [f"{item.name}: {line}" for line in result.log]
        return graph, log
