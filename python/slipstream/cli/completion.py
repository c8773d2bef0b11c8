"""`slipstream completion SHELL`: a script that lets a shell complete both commands.

The scripts are made from the argument parsers, so they know exactly what the commands accept. They
never start Python while the user types.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.cli.scripts import bash, fish, zsh
from slipstream.cli.scripts.model import Argument, Command

_SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
# What to complete for a value, by its name in the help.
_KINDS = {"PATH": "file", "FILE": "file", "CHECKPOINT": "folder", "DIR": "folder"}


@dataclass(frozen=True)
class _Flag:
    """An option of `slipstream` itself, which has no parser."""

    names: tuple[str, ...]
    help: str


_GLOBAL = (
    _Flag(("-h", "--help"), "show the commands"),
    _Flag(("-V", "--version"), "show the version and what this installation can do"),
)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream completion",
        description="Print a script that completes `slipstream` and `build-engine` in a shell.",
        epilog='bash: add `eval "$(slipstream completion bash)"` to ~/.bashrc. '
        "zsh: add `source <(slipstream completion zsh)` to ~/.zshrc, after compinit. "
        "fish: `slipstream completion fish > ~/.config/fish/completions/slipstream.fish`, and the "
        "same text as build-engine.fish.",
        allow_abbrev=False,
    )
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SHELLS), help="bash, zsh or fish")
    return parser


def main(argv: Sequence[str]) -> int:
    args = make_parser().parse_args(argv)
    print(_SHELLS[args.shell].script(_commands()), end="")
    return 0


def _commands() -> list[Command]:
    """`slipstream` itself first, under the name "", then its commands."""
    from slipstream.cli import COMMANDS

    top = [Argument(flag.names, flag.help) for flag in _GLOBAL]
    commands = [Command("", "", top, [])]
    for name, (module, summary) in COMMANDS.items():
        parser: argparse.ArgumentParser = importlib.import_module(module).make_parser()
        options: list[Argument] = []
        positionals: list[Argument] = []
        # argparse has no public list of what was added; this attribute is as old as the module.
        for action in parser._actions:
            (options if action.option_strings else positionals).append(_argument(action))
        commands.append(Command(name, summary, options, positionals))
    return commands


def _argument(action: argparse.Action) -> Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    takes_value = action.nargs != 0
    choices = tuple(map(str, action.choices or ()))
    kind = "choice" if choices else _KINDS.get(metavar, "text")
    text = (action.help or "").replace("%(default)s", str(action.default))
    names = tuple(action.option_strings)
    return Argument(names, text, metavar, kind if takes_value else "none", choices)
