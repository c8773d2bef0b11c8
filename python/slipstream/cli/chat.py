"""`slipstream chat`: a conversation in the terminal, with its history."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.cli.meter import Meter
from slipstream.cli.options import (
    add_model_options,
    add_sampling_options,
    check_sampling,
    load,
    sampling_params,
)
from slipstream.errors import InvalidArgumentError, LimitExceededError

if TYPE_CHECKING:
    from slipstream.llm import LLM
    from slipstream.sampling import SamplingParams

_HELP = """\
/reset        forget the conversation
/system TEXT  set the system message and forget the conversation; no TEXT: the template's own
/help         show this
/exit         leave (also Ctrl-D); Ctrl-C stops an answer"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream chat",
        description="Talk with a model that has a chat template. Commands inside: /reset, "
        "/system TEXT, /help, /exit.",
        allow_abbrev=False,
    )
    add_model_options(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    add_sampling_options(parser, max_tokens=1024)
    return parser


def main(argv: Sequence[str]) -> int:
    args = make_parser().parse_args(argv)
    check_sampling(args)
    with load(args) as llm:
        if not llm.has_chat_template:
            raise InvalidArgumentError(
                f"The model {llm.engine.model_name} has no chat template; use `slipstream run "
                "--raw` to continue a prompt."
            )
        Conversation(llm, sampling_params(args, llm), args.system).loop()
    return 0


class Conversation:
    """The loop of reading a line and streaming an answer."""

    def __init__(self, llm: LLM, params: SamplingParams, system: str | None) -> None:
        self._llm = llm
        self._params = params
        self._interactive = sys.stdin.isatty()
        self._messages: list[dict[str, str]] = []
        self._reset(system)

    def loop(self) -> None:
        """Returns at the end of the input, or after /exit."""
        if self._interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  gives input() line editing and history
            print(f"{self._llm.engine.model_name}: /help lists the commands.", file=sys.stderr)
        while True:
            try:
                line = input(">>> " if self._interactive else "").strip()
            except EOFError:
                if self._interactive:
                    print(file=sys.stderr)
                return
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                print("\n(Ctrl-D or /exit leaves)", file=sys.stderr)
                continue
            except UnicodeDecodeError:
                raise InvalidArgumentError(
                    "A line of the input is not UTF-8; convert the input first."
                ) from None
            if line.startswith("/"):
                if not self._command(line):
                    return
            elif line:
                self._answer(line)

    def _command(self, line: str) -> bool:
        """Runs a /command; False ends the conversation."""
        name, _, rest = line.partition(" ")
        if name in ("/exit", "/quit", "/bye"):
            return False
        if name == "/reset":
            self._reset(self._system)
            print("(the conversation is forgotten)", file=sys.stderr)
        elif name == "/system":
            self._reset(rest.strip() or None)
            print("(the system message is set, the conversation is forgotten)", file=sys.stderr)
        elif name == "/help":
            print(_HELP, file=sys.stderr)
        else:
            print(f"Unknown command {name}.\n{_HELP}", file=sys.stderr)
        return True

    def _reset(self, system: str | None) -> None:
        self._system = system
        self._messages = [] if system is None else [{"role": "system", "content": system}]

    def _answer(self, line: str) -> None:
        self._messages.append({"role": "user", "content": line})
        text = ""
        meter = Meter()
        try:
            for output in self._llm.stream_chat(self._messages, self._params):
                meter.see(output)
                sys.stdout.write(output.outputs[0].text[len(text) :])
                sys.stdout.flush()
                text = output.outputs[0].text
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            print("\n(stopped)", file=sys.stderr)
        except LimitExceededError as error:
            self._messages.pop()
            print(f"{error} /reset starts a new conversation.", file=sys.stderr)
            return
        else:
            print()
        print(f"[{meter.summary()}]", file=sys.stderr)
        self._messages.append({"role": "assistant", "content": text})
