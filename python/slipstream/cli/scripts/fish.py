"""Completion for fish."""

from __future__ import annotations

from slipstream.cli.scripts.model import PROGRAMS, Argument, Command


def script(commands: list[Command]) -> str:
    lines = ["# fish completion of slipstream and build-engine", "complete -c slipstream -f"]
    top, *rest = commands
    first = "-c slipstream -n __fish_use_subcommand"
    lines += [f"complete {first} -a {c.name} -d {_quote(c.summary)}" for c in rest]
    lines += [_option(first, option) for option in top.options]
    own = {name: program for program, name in PROGRAMS.items()}
    for command in rest:
        places = [f"-c slipstream -n '__fish_seen_subcommand_from {command.name}'"]
        if command.name in own:
            lines.append(f"complete -c {own[command.name]} -f")
            places.append(f"-c {own[command.name]}")
        for place in places:
            lines += [_option(place, option) for option in command.options]
            lines += [
                f"complete {place}{_values(positional)}"
                for positional in command.positionals
                if positional.kind != "text"
            ]
    return "\n".join(lines) + "\n"


def _option(place: str, option: Argument) -> str:
    names = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    )
    needs = " -x" if option.kind in ("text", "choice", "folder") else ""
    needs = " -r" if option.kind == "file" else needs
    return f"complete {place}{names}{needs}{_values(option)} -d {_quote(option.help)}"


def _values(argument: Argument) -> str:
    if argument.kind == "choice":
        return f" -a {_quote(' '.join(argument.choices))}"
    return {"file": " -F", "folder": " -a '(__fish_complete_directories)'"}.get(argument.kind, "")


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
