"""Standard streams that are closed, or can no longer be written."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["discard_stdout", "prepare_streams"]


def prepare_streams() -> None:
    """Makes the standard streams take everything that is printed.

    Streams that were closed before the start (`>&-`) are None in Python: they become the null
    device. Characters that the output's encoding lacks, and bytes of file names that are no text,
    are printed as escapes instead of ending the program.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Sends what is still to be printed nowhere: the interpreter would try it again at its end,
    fail again, and end with a code of its own."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
