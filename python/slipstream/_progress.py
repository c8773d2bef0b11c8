"""A progress bar on stderr, for terminals only. It needs no escape sequences and no colours."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

__all__ = ["ProgressBar", "progress_line"]

_BAR = 24
_INTERVAL_S = 0.1


class ProgressBar:
    """One line that is rewritten while bytes pass and is gone at the end.

    Writes nothing at all if the stream is no terminal, or a dumb one (TERM=dumb). Not thread-safe.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._first: tuple[float, int] | None = None
        self._last = time.monotonic()
        self._width = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()

    def update(self, done: int, total: int | None = None) -> None:
        """`done` of `total` bytes have passed; None if nobody knows how many there will be."""
        now = time.monotonic()
        # The rate counts from the first news on: what came before them was other work.
        start, before = self._first = self._first or (now, done)
        finished = total is not None and done >= total
        if not self._shown or (now - self._last < _INTERVAL_S and not finished):
            return
        self._last = now
        rate = (done - before) / (now - start) if now > start else 0.0
        line = progress_line(self._what, done, total, rate)
        # A line that wraps could not be rewritten. The last column makes some terminals wrap.
        line = line[: max(shutil.get_terminal_size().columns - 1, 1)]
        print(f"\r{line:<{self._width}}", end="", file=self._stream, flush=True)
        self._width = len(line)

    def clear(self) -> None:
        """Removes the line, so that the next output starts in the first column."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=self._stream, flush=True)
            self._width = 0


def progress_line(what: str, done: int, total: int | None, rate: float) -> str:
    """The text of a bar: percent, MB (10^6 bytes), MB/s, and the time left at that rate.

    `rate` in bytes/s; 0 if it is not known yet.
    """
    if not total:
        line = f"{what}  {done / 1e6:.1f} MB"
    else:
        part = min(done / total, 1.0)
        bar = "#" * int(part * _BAR)
        line = f"{what} [{bar:<{_BAR}}] {int(part * 100):3d}%  "
        line += f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
    if rate > 0:
        line += f"  {rate / 1e6:.1f} MB/s"
        if total and done < total:
            line += f"  {_clock((total - done) / rate)} left"
    return line


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.999), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
