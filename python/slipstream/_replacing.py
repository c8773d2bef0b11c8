"""Output files that keep their old content until the new one is whole."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import TextIO

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str) -> Iterator[TextIO]:
    """A text file to write, which takes the place of `path` when the block ends without an error.

    It is created beside `path` at once, so that a place that cannot be written is known before the
    work. A link stays one; a device or pipe is written directly. Raises OSError.
    """
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "w", encoding="utf-8") as file:
            yield file
        return
    if mode is not None and not os.access(target, os.W_OK):
        open(target, "a").close()  # raises what is wrong; a rename would go around it
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        if mode is not None:
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
