"""Completion for zsh, through its _arguments."""

from __future__ import annotations

import re

from slipstream.cli.scripts.model import PROGRAMS, Argument, Command, quote

_NAMES = " ".join(["slipstream", *PROGRAMS])

_TAIL = f"""\
  esac
}}

# Read by `source`, or found as a file in $fpath.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _slipstream "$@"
else
  compdef _slipstream {_NAMES}
fi
"""


def script(commands: list[Command]) -> str:
    top, *rest = commands
    lines = [f"#compdef {_NAMES}", "_slipstream() {", "  local command", "  local -a commands=("]
    lines += [f"    {quote(f'{c.name}:{_plain(c.summary)}')}" for c in rest]
    lines += ["  )", "  case $service in"]
    lines += [f"    {program}) command={name} ;;" for program, name in PROGRAMS.items()]
    lines += [
        "    *)",
        "      if (( CURRENT == 2 )); then",
        "        _describe command commands",
        f"        _arguments {' '.join(_options(top))}",
        "        return",
        "      fi",
        "      command=$words[2]",
        "      shift words",
        "      (( CURRENT-- )) ;;",
        "  esac",
        "  case $command in",
    ]
    for command in rest:
        specs = _options(command)
        for index, positional in enumerate(command.positionals, 1):
            specs.append(quote(f"{index}:{_plain(positional.metavar)}:{_values(positional)}"))
        lines.append(f"    {command.name}) _arguments \\")
        lines += [f"      {spec} \\" for spec in specs[:-1]]
        lines.append(f"      {specs[-1]} ;;")
    return "\n".join(lines) + "\n" + _TAIL


def _options(command: Command) -> list[str]:
    specs = []
    for option in command.options:
        value = f":{_plain(option.metavar)}:{_values(option)}" if option.kind != "none" else ""
        for name in option.names:
            # The + lets a value follow in the same word or in the next, the = also after "=".
            joint = ("=" if name.startswith("--") else "+") if value else ""
            specs.append(quote(f"{name}{joint}[{_plain(option.help)}]{value}"))
    return specs


def _values(argument: Argument) -> str:
    if argument.kind == "choice":
        return f"({' '.join(argument.choices)})"
    return {"file": "_files", "folder": "_files -/"}.get(argument.kind, " ")


def _plain(text: str) -> str:
    return re.sub(r"([\\\[\]:])", r"\\\1", text)
