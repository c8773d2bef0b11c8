"""Completion for bash 4 and later."""

from __future__ import annotations

from slipstream.cli.scripts.model import PROGRAMS, Argument, Command, quote

_HEAD = """\
# bash completion of slipstream and build-engine
_slipstream() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command=""
  COMPREPLY=()
  # --option=value arrives as three words.
  if [[ $cur == "=" ]]; then
    cur=""
  elif [[ $prev == "=" ]]; then
    prev="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  case "${1##*/}" in
"""

_AFTER_PROGRAM = """\
    *) if ((COMP_CWORD > 1)); then command="${COMP_WORDS[1]}"; fi ;;
  esac
  case "$command $prev" in
"""

_TAIL = """\
  esac
}

_slipstream_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_slipstream_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

complete -F _slipstream slipstream
"""


def script(commands: list[Command]) -> str:
    lines = [_HEAD.rstrip("\n")]
    lines += [f"    {program}) command={name} ;;" for program, name in PROGRAMS.items()]
    lines.append(_AFTER_PROGRAM.rstrip("\n"))
    for command in commands:
        for option in command.options:
            if option.kind != "none":
                patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
                lines.append(f"    {patterns}) {_values(option)}; return ;;")
    lines += ["  esac", '  case "$command" in']
    names = [command.name for command in commands if command.name]
    for command in commands:
        words = " ".join(name for option in command.options for name in option.names)
        if not command.name:
            others = f"_slipstream_words {quote(' '.join([*names, words]))}"
            lines.append(f'    "") {others} ;;')
            continue
        lines.append(f"    {command.name})")
        lines.append(f"      if [[ $cur == -* ]]; then _slipstream_words {quote(words)}")
        # The shell does not know which positional comes next; no command has two.
        for positional in command.positionals[:1]:
            lines.append(f"      else {_values(positional)}")
        lines += ["      fi ;;"]
    programs = "".join(f"complete -F _slipstream {program}\n" for program in PROGRAMS)
    return "\n".join(lines) + "\n" + _TAIL + programs


def _values(argument: Argument) -> str:
    if argument.kind == "choice":
        return f"_slipstream_words {quote(' '.join(argument.choices))}"
    return {"file": "_slipstream_paths -f", "folder": "_slipstream_paths -d"}.get(
        argument.kind, ":"
    )
