"""From what the user names to an .engine file: a checkpoint folder is built once into the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from slipstream._paths import cache_dir
from slipstream.errors import InvalidArgumentError, IoError, NotFoundError
from slipstream.version import __version__

__all__ = ["resolve_engine"]

# Everything of a checkpoint folder that a build reads.
_INPUTS = ("*.safetensors", "*.json", "*.jinja")


def resolve_engine(path: str | os.PathLike[str], log: Callable[[str], None] | None = None) -> str:
    """The path of an engine file for `path`.

    A file is taken as it is. A checkpoint folder is compiled with the build's defaults into the
    cache folder, under a name made from its content and the version; the next call finds it there.
    `log` gets a line for what was chosen (default: stderr).
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidArgumentError(f"path is {path!r}; it must be a str or a pathlib.Path.")
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
        raise IoError(f"{error.filename or text}: {error.strerror or error}.") from error


def _built(checkpoint: Path, log: Callable[[str], None]) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", checkpoint.resolve().name).strip("-.") or "model"
    target = cache_dir() / "engines" / f"{name}-{_key(checkpoint)}.engine"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            # Another process may have built it while this one waited for the lock.
            if not target.is_file():
                _build(checkpoint, target, log)
    log(f"{checkpoint}: using {target}")
    return str(target)


def _build(checkpoint: Path, target: Path, log: Callable[[str], None]) -> None:
    from slipstream.builder.build import build
    from slipstream.builder.config import BuildConfig

    config = BuildConfig()
    log(
        f"{checkpoint}: building an engine once (weights {config.weights}, KV cache "
        f"{config.kv_cache}; build-engine offers the choice)"
    )
    build(checkpoint, target, config)


def _key(checkpoint: Path) -> str:
    """Names the content: small files by their bytes, weights by size and time of change.

    Hashing the weights as well would cost a read of the whole checkpoint at every start.
    """
    entries: list[tuple[str, int, int | str]] = []
    for pattern in _INPUTS:
        for file in sorted(checkpoint.glob(pattern)):
            status = file.stat()
            if file.suffix == ".safetensors":
                entries.append((file.name, status.st_size, status.st_mtime_ns))
            else:
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
                entries.append((file.name, status.st_size, digest))
    text = json.dumps([__version__, entries], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file, so that processes that start together build once."""
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _to_stderr(line: str) -> None:
    print(f"slipstream: {line}", file=sys.stderr)
