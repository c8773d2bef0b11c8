"""Options that `run` and `chat` share: how to load a model, and how to sample."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.llm import LLM
    from slipstream.sampling import SamplingParams

# Settings that mean something only where tokens are drawn.
_DRAWING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "seed")
_SAMPLING = (
    "max_tokens",
    "min_tokens",
    *_DRAWING,
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "no_repeat_ngram_size",
    "bad_words",
    "ignore_eos",
    "n",
    "best_of",
    "stop",
)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="an .engine file, or a checkpoint folder (built once)"
    )
    group = parser.add_argument_group("loading")
    group.add_argument("--threads", type=int, metavar="N", help="default: the physical cores")
    group.add_argument(
        "--kv-memory",
        metavar="SIZE",
        help="KV pool, such as 512M; default: a quarter of free memory",
    )
    group.add_argument(
        "--host-kv-memory",
        metavar="SIZE",
        help="second KV pool in a temporary file, for what leaves the first; default: none",
    )
    group.add_argument(
        "--host-kv-dir", metavar="DIR", help="folder of that file; default: $TMPDIR or /tmp"
    )
    group.add_argument(
        "--cpu-path",
        default="auto",
        choices=("auto", "scalar", "emulated16", "avx2", "avx512"),
        help="kernels to run; all give the same bits (default: auto)",
    )


def add_sampling_options(parser: argparse.ArgumentParser, max_tokens: int) -> None:
    group = parser.add_argument_group(
        "sampling",
        "Without these, the model's own generation_config.json decides; greedy if it asks for "
        "nothing. --top-k, --top-p, --min-p, --typical-p, --seed alone imply a temperature of 1.",
    )
    group.add_argument(
        "--max-tokens",
        type=int,
        default=max_tokens,
        metavar="N",
        help=f"tokens to generate at most (default: {max_tokens})",
    )
    group.add_argument(
        "--min-tokens", type=int, metavar="N", help="do not end before so many tokens"
    )
    group.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    group.add_argument("--top-k", type=int, metavar="K", help="keep the K likeliest tokens; 0: all")
    group.add_argument("--top-p", type=float, metavar="P", help="keep tokens that sum to P")
    group.add_argument(
        "--min-p", type=float, metavar="P", help="drop tokens below P x the likeliest"
    )
    group.add_argument(
        "--typical-p",
        type=float,
        metavar="P",
        help="keep the tokens closest to the expected information, that sum to P",
    )
    group.add_argument("--seed", type=int, metavar="N", help="default: a fresh one")
    group.add_argument(
        "--repetition-penalty",
        type=float,
        metavar="X",
        help="divides positive logits of tokens of prompt and answer; 1 changes nothing",
    )
    group.add_argument(
        "--presence-penalty",
        type=float,
        metavar="X",
        help="subtracted from the logit of every generated token",
    )
    group.add_argument(
        "--frequency-penalty",
        type=float,
        metavar="X",
        help="the same, times how often it was generated",
    )
    group.add_argument(
        "--no-repeat-ngram-size",
        type=int,
        metavar="N",
        help="let no N tokens in a row occur twice; 0 allows all",
    )
    group.add_argument(
        "--bad-word",
        dest="bad_words",
        action="append",
        metavar="TEXT",
        help="do not generate this text; may be repeated",
    )
    group.add_argument(
        "--ignore-eos",
        action="store_true",
        default=None,
        help="go on after the model's own end",
    )
    group.add_argument(
        "--stop", action="append", metavar="TEXT", help="end before this text; may be repeated"
    )


def add_answers_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("answers", "More than one implies a temperature of 1.")
    group.add_argument("--n", type=int, metavar="N", help="answers to give (default: 1)")
    group.add_argument(
        "--best-of",
        type=int,
        metavar="N",
        help="answers to generate, of which the likeliest are given, best first",
    )


def check_sampling(args: argparse.Namespace) -> None:
    """Raises for a wrong value before anything is loaded."""
    from slipstream.sampling import SamplingParams

    SamplingParams(**_given(args))


def sampling_params(args: argparse.Namespace, llm: LLM, **more: Any) -> SamplingParams:
    """The model's defaults with what was given on the command line."""
    _tell_not_applied(llm)
    given = _given(args)
    defaults = llm.default_sampling_params()
    greedy = defaults.temperature == 0 and "temperature" not in given
    several = max(given.get("n", 1), given.get("best_of", 1)) > 1
    if greedy and (several or any(name in given for name in _DRAWING)):
        given["temperature"] = 1.0
    if "bad_words" in given:
        given["bad_words"] = [*(defaults.bad_words or ()), *given["bad_words"]]
    return dataclasses.replace(defaults, **given, **more)


def _tell_not_applied(llm: LLM) -> None:
    from slipstream.generation_config import not_applied, read_generation_config

    settings = not_applied(read_generation_config(llm.engine))
    if settings:
        print(
            f"slipstream: note: {llm.engine.model_name}'s generation_config.json asks for "
            f"{', '.join(settings)}, which this version does not apply; answers can differ from "
            "those of other programs.",
            file=sys.stderr,
        )


def load(args: argparse.Namespace, **more: Any) -> LLM:
    from slipstream.llm import LLM

    return LLM(
        args.path,
        threads=args.threads,
        kv_memory=args.kv_memory,
        host_kv_memory=args.host_kv_memory,
        host_kv_dir=args.host_kv_dir,
        cpu_path=args.cpu_path,
        **more,
    )


def _given(args: argparse.Namespace) -> dict[str, Any]:
    # `chat` has no n and best_of.
    values = {name: getattr(args, name, None) for name in _SAMPLING}
    return {name: value for name, value in values.items() if value is not None}
