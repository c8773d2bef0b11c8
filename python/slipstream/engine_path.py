"""From what the user names to an .engine file: a checkpoint folder is built once into the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError, IoError, NotFoundError

__all__ = ["resolve_engine"]


def resolve_engine(path: str | os.PathLike[str], log: Callable[[str], None] | None = None) -> str:
    """The path of an engine file for `path`.

    A file is taken as it is. A checkpoint folder is compiled with the build's defaults into the
    cache folder, under a name made from its content and the version; the next call finds it there.
    `log` gets a line for what was chosen (default: stderr).
    """
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InvalidArgumentError(f"path is {shown(path)}; it must be a str or a pathlib.Path.")
    if "\0" in text:
        raise InvalidArgumentError(
            f"path is {shown(text)}; no file has a name with a NUL character. Correct the path."
        )
    if not text:
        raise InvalidArgumentError("path is empty; give an .engine file or a checkpoint folder.")
    folder = Path(text)
    try:
        if not folder.exists():
            raise NotFoundError(
                f"{text}: no such file or folder; give an .engine file or a checkpoint folder."
            )
        if not folder.is_dir():
            return text
        if not (folder / "config.json").is_file():
            raise InvalidArgumentError(
                f"{text}: a folder without config.json; give an .engine file, or a folder with a "
                "Hugging Face checkpoint (config.json and *.safetensors)."
            )
        return _built(folder, log or _to_stderr)
    except OSError as error:
        raise IoError(
            f"{error.filename or text}: {error.strerror or error}. Check that the path can be read."
        ) from error


def _built(checkpoint: Path, log: Callable[[str], None]) -> str:
    # Imported here: a run of an engine file must not load the builder.
    from slipstream._progress import ProgressBar
    from slipstream.builder.cache import build_cached
    from slipstream.builder.config import BuildConfig

    config = BuildConfig()
    started = False

    def progress(done: int, total: int) -> None:
        nonlocal started
        if not started:
            log(
                f"{checkpoint}: building an engine once (weights {config.weights}, KV cache "
                f"{config.kv_cache}; build-engine offers the choice)"
            )
        started = True
        bar.update(done, total)

    with ProgressBar("weights") as bar:
        target = build_cached(checkpoint, config, progress, log)
    log(f"{checkpoint}: using {target}")
    return str(target)


def _to_stderr(line: str) -> None:
    print(f"slipstream: {line}", file=sys.stderr)
