"""`slipstream chat`: a conversation in the terminal, with its history."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream._shown import excerpt
from slipstream.cli.meter import Meter
from slipstream.cli.options import (
    add_model_options,
    add_sampling_options,
    check_sampling,
    load,
    sampling_params,
)
from slipstream.errors import (
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    ResourceExhaustedError,
    SlipstreamError,
)

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
    parser.add_argument(
        "--session",
        metavar="FILE",
        help="go on with the conversation saved in FILE, and save it there at the end",
    )
    add_sampling_options(parser, max_tokens=1024)
    return parser


def main(argv: Sequence[str]) -> int:
    args = make_parser().parse_args(argv)
    check_sampling(args)
    with load(args) as llm:
        if not llm.has_chat_template:
            raise InvalidArgumentError(
                f"The model {excerpt(llm.engine.model_name)} has no chat template; use `slipstream "
                "run --raw` to continue a prompt."
            )
        conversation = Conversation(llm, sampling_params(args, llm), args.system)
        if args.session is None:
            return conversation.loop()
        conversation.resume(args.session)
        try:
            return conversation.loop()
        finally:  # also after Ctrl-C
            conversation.save(args.session)


class Conversation:
    """The loop of reading a line and streaming an answer."""

    def __init__(self, llm: LLM, params: SamplingParams, system: str | None) -> None:
        self._llm = llm
        self._params = params
        self._interactive = sys.stdin.isatty()
        self._line = 0
        self._messages: list[dict[str, str]] = []
        self._tokens: list[int] = []  # of the conversation so far, as the model saw them
        self._reset(system)

    def resume(self, path: str) -> None:
        """Takes up what `save` left there, if anything. With another engine file than the one that
        saved it only the text goes on, and its keys and values are computed again."""
        from slipstream.cli import session_file

        saved = session_file.read(path)
        if saved is None:
            return
        if self._messages and self._messages != saved.messages[: len(self._messages)]:
            raise InvalidArgumentError(
                f"--system differs from the system message of the session {excerpt(path)}. Leave "
                "--system out, or give --session another name."
            )
        self._messages = list(saved.messages)
        first = saved.messages[:1]
        self._system = first[0]["content"] if first and first[0]["role"] == "system" else None
        turns = sum(message["role"] == "user" for message in saved.messages)
        note = f"{turns} turns from {excerpt(path)}"
        if not saved.kv:
            pass
        elif saved.build_id != self._llm.engine.build_id:
            note += "; saved with another engine file, so it is computed again"
        else:
            try:
                note += f", {self._llm.import_kv(saved.kv)} tokens of it ready"
            except ResourceExhaustedError as error:
                note += f"; it is computed again: {error}"
        print(f"({note})", file=sys.stderr)

    def save(self, path: str) -> None:
        from slipstream.cli import session_file

        kv = b""
        if self._tokens:
            # Nothing is cached, or there is no room to look at it: the text alone goes on.
            with contextlib.suppress(NotFoundError, ResourceExhaustedError):
                kv = self._llm.export_kv(self._tokens)
        engine = self._llm.engine
        session_file.write(
            path,
            session_file.SavedConversation(engine.model_name, engine.build_id, self._messages, kv),
        )

    def loop(self) -> int:
        """Returns at the end of the input, or after /exit: the exit code. A line that is refused
        costs only itself; without a terminal the code is then that of the last such error."""
        if self._interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  gives input() line editing and history
            name = self._llm.engine.model_name
            print(f"{name}: /help lists the commands.", file=sys.stderr)
        code = 0
        while True:
            try:
                line = self._read()
                if line is None or (line.startswith("/") and not self._command(line)):
                    return code
                if line and not line.startswith("/"):
                    self._answer(line)
            except SlipstreamError as error:
                hint = (
                    " /reset starts a new conversation."
                    if isinstance(error, LimitExceededError)
                    else ""
                )
                print(f"slipstream: error: {error}{hint}", file=sys.stderr)
                code = 0 if self._interactive else error.exit_code

    def _read(self) -> str | None:
        """The next line, stripped; None at the end. InvalidArgumentError if it is not UTF-8."""
        self._line += 1
        if not self._interactive:
            # Read as bytes: a text stream that failed to decode has lost what it had read ahead.
            data = sys.stdin.buffer.readline()
            return _decode(data, self._line).strip() if data else None
        try:
            return input(">>> ").strip()
        except EOFError:
            print(file=sys.stderr)
            return None
        except KeyboardInterrupt:
            print("\n(Ctrl-D or /exit leaves)", file=sys.stderr)
            return ""
        except UnicodeDecodeError:
            raise InvalidArgumentError("This line is not UTF-8; type it again.") from None

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
            print(f"Unknown command {excerpt(name)}.\n{_HELP}", file=sys.stderr)
        return True

    def _reset(self, system: str | None) -> None:
        self._system = system
        self._tokens = []
        self._messages = [] if system is None else [{"role": "system", "content": system}]

    def _answer(self, line: str) -> None:
        self._messages.append({"role": "user", "content": line})
        text = ""
        last = None
        meter = Meter()
        try:
            for output in self._llm.stream_chat(self._messages, self._params):
                meter.see(output)
                last = output
                sys.stdout.write(output.outputs[0].text[len(text) :])
                sys.stdout.flush()
                text = output.outputs[0].text
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            print("\n(stopped)", file=sys.stderr)
        except SlipstreamError:
            self._messages.pop()
            raise
        else:
            print()
        if last is not None:
            self._tokens = [*last.prompt_token_ids, *last.outputs[0].token_ids]
        print(f"[{meter.summary()}]", file=sys.stderr)
        self._messages.append({"role": "assistant", "content": text})


def _decode(data: bytes, line: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"Line {line} of the input is not UTF-8: byte {error.start} is "
            f"0x{data[error.start]:02x}. The line is left out; convert it first."
        ) from None
