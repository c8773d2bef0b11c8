"""What a completion script is made from."""

from __future__ import annotations

from dataclasses import dataclass

# The commands that exist as programs of their own: program -> name of the command.
PROGRAMS = {"build-engine": "build"}


@dataclass(frozen=True)
class Argument:
    """An option, or a positional if it has no names.

    `kind` says what its value is: "none" (a flag), "text", "file", "folder", or "choice".
    """

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    kind: str = "none"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command of `slipstream`; the name "" stands for `slipstream` before any command."""

    name: str
    summary: str
    options: list[Argument]
    positionals: list[Argument]


def quote(text: str) -> str:
    """A word in single quotes, for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"
