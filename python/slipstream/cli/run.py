"""`slipstream run`: one prompt, its answer streamed to stdout; the speed goes to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slipstream._replacing import replacing
from slipstream.cli.meter import Meter
from slipstream.cli.options import (
    add_answers_options,
    add_model_options,
    add_sampling_options,
    check_sampling,
    load,
    sampling_params,
)
from slipstream.errors import InvalidArgumentError
from slipstream.trace import write_trace

_TRACED_STEPS = 2**20

if TYPE_CHECKING:
    from slipstream.llm import LLM
    from slipstream.outputs import RequestOutput
    from slipstream.sampling import SamplingParams


def main(argv: Sequence[str]) -> int:
    args = make_parser().parse_args(argv)
    if args.logprobs and not args.json:
        raise InvalidArgumentError("--logprobs needs --json, which is where they are printed.")
    if args.raw and args.system is not None:
        raise InvalidArgumentError("--system needs the chat template; leave --raw out.")
    check_sampling(args)
    prompt = _read_stdin() if args.prompt == "-" else args.prompt
    if args.trace is None:
        with load(args) as llm:
            return _run(args, llm, prompt)
    # Opened first: a path that cannot be written must not cost an answer.
    with (
        replacing(args.trace) as file,
        load(args, iteration_history=_TRACED_STEPS) as llm,
    ):
        code = _run(args, llm, prompt)
        write_trace(llm.iterations(), file)
    return code


def _run(args: argparse.Namespace, llm: LLM, prompt: str) -> int:
    params = sampling_params(args, llm, logprobs=0 if args.logprobs else None)
    meter = Meter()
    answer = _answer(args, llm, prompt, params)
    if args.json:
        return _print_json(answer, meter)
    return _print_stream(answer, meter) if params.n == 1 else _print_all(answer, meter)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream run",
        description="Generate from a prompt. If the model has a chat template, the prompt is a "
        "user's message and the answer is printed; with --raw, or without a template, the prompt "
        "is continued as it stands.",
        allow_abbrev=False,
    )
    add_model_options(parser)
    parser.add_argument(
        "--prompt", required=True, metavar="TEXT", help="the prompt; '-' reads it from stdin"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--raw", action="store_true", help="continue the prompt as it stands")
    form.add_argument(
        "--chat", action="store_true", help="use the chat template; an error if there is none"
    )
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument(
        "--logprobs", action="store_true", help="with --json: the log-probability of each token"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a Chrome trace of the request's life: queued, prefill, decode, step by step",
    )
    add_sampling_options(parser, max_tokens=512)
    add_answers_options(parser)
    return parser


def _read_stdin() -> str:
    data = sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"The prompt on stdin is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}. "
            "Convert it first."
        ) from None


def _answer(
    args: argparse.Namespace, llm: LLM, prompt: str, params: SamplingParams
) -> Iterator[RequestOutput]:
    if args.raw or not (args.chat or args.system is not None or llm.has_chat_template):
        return llm.stream(prompt, params)
    if not prompt:
        raise InvalidArgumentError("--prompt is empty; give at least one character.")
    messages = [{"role": "user", "content": prompt}]
    if args.system is not None:
        messages.insert(0, {"role": "system", "content": args.system})
    return llm.stream_chat(messages, params)


def _print_stream(answer: Iterator[RequestOutput], meter: Meter) -> int:
    printed = 0
    for output in answer:
        meter.see(output)
        text = output.outputs[0].text
        sys.stdout.write(text[printed:])
        sys.stdout.flush()
        printed = len(text)
    sys.stdout.write("\n")
    sys.stdout.flush()
    print(f"[{meter.summary()}]", file=sys.stderr)
    return 0


def _print_all(answer: Iterator[RequestOutput], meter: Meter) -> int:
    """Several answers grow at once, so that they are printed at the end, one after another."""
    final: RequestOutput | None = None
    for output in answer:
        meter.see(output)
        final = output
    assert final is not None
    for completion in final.outputs:
        print(f"[answer {completion.index + 1} of {len(final.outputs)}]")
        print(completion.text, flush=True)
    print(f"[{meter.summary()}]", file=sys.stderr)
    return 0


def _print_json(answer: Iterator[RequestOutput], meter: Meter) -> int:
    import dataclasses
    import json

    final: RequestOutput | None = None
    for output in answer:
        meter.see(output)
        final = output
    assert final is not None
    result = dataclasses.asdict(final)
    # No option asks for these.
    del result["prompt_logprobs"]
    for completion in result["outputs"]:
        del completion["logits"]
    result["first_token_s"] = meter.first_token_s
    result["tokens_per_s"] = meter.tokens_per_s
    print(json.dumps(result, ensure_ascii=False))
    print(f"[{meter.summary()}]", file=sys.stderr)
    return 0
