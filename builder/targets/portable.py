"""The passes that every target shares: their result is the graph that an engine file stores."""

from __future__ import annotations

from slipstream.builder.ir.graph import Graph
from slipstream.builder.passes.fold import Fold
from slipstream.builder.passes.manager import IrDumper, PassManager


def run_portable_passes(graph: Graph, dumper: IrDumper | None = None) -> tuple[Graph, list[str]]:
    """Folds and simplifies a fresh graph. Returns it with a log, one line per decision."""
    if dumper is not None:
        dumper.dump("portable", graph)
    return PassManager((Fold(),), dumper).run(graph, portable=True)
