"""`slipstream --version`: the version, and what this installation can do. No numpy, no compiler."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from typing import Any

from slipstream.version import __version__


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream --version",
        description="Print the version and what this installation can do.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    args = make_parser().parse_args(argv)
    facts = version_facts()
    if args.json:
        import json

        print(json.dumps(facts, indent=2, sort_keys=True))
        return 0
    native = facts["native"]
    print(f"slipstream {facts['version']}")
    print(f"engine format  {facts['engine_format']}")
    if native is None:
        print("native module  not installed: engines can be built and inspected, not run")
    else:
        print(f"native module  {native['version']}, compiled by {native['compiler']}")
        runs = ", ".join(native["cpu_paths"]["supported"])
        print(f"CPU paths      {', '.join(native['cpu_paths']['compiled'])}")
        print(f"this CPU runs  {runs}; auto is {native['cpu_paths']['auto']}")
    print(f"targets        {', '.join(map(_target, facts['targets'].items()))}")
    print(f"Python         {facts['python']} ({facts['platform']})")
    return 0


def version_facts() -> dict[str, Any]:
    """The answer of `slipstream --version --json`; docs/cli.md lists its keys."""
    from slipstream.builder.engine.layout import MAJOR, MINOR
    from slipstream.builder.targets import registry

    return {
        "version": __version__,
        "engine_format": f"{MAJOR}.{MINOR}",
        "native": _native_facts(),
        "targets": {name: _importable(registry.required_module(name)) for name in registry.NAMES},
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}-{platform.machine()}",
    }


def _native_facts() -> dict[str, Any] | None:
    try:
        from slipstream import _native
    except ImportError:
        return None
    from slipstream.errors import IncompatibleError

    compiled = list(_native.CPU_PATHS)
    supported = []
    for path in compiled:
        try:
            _native.Runtime(threads=1, cpu_path=path)
        except IncompatibleError:
            continue
        supported.append(path)
    return {
        "version": _native.__version__,
        "compiler": _native.COMPILER,
        "cpu_paths": {
            "compiled": compiled,
            "supported": supported,
            "auto": _native.Runtime(threads=1).cpu_path,
        },
    }


def _importable(module: str | None) -> bool:
    """Whether a module could be imported, without importing it."""
    from importlib.util import find_spec

    return module is None or find_spec(module) is not None


def _target(entry: tuple[str, bool]) -> str:
    name, ready = entry
    return name if ready else f"{name} (its Python package is not installed)"
