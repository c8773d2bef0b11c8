"""Engines built once for a checkpoint folder, named by what went into them.

Finding an engine that exists reads no weights and imports neither numpy nor the compiler. The
cache holds at most `SLIPSTREAM_CACHE_LIMIT` bytes of engines (default 64 GiB): after a build, those
that were not used for longest go.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slipstream._paths import cache_dir
from slipstream.builder.config import BuildConfig
from slipstream.builder.engine.reader import EngineReader
from slipstream.errors import IoError, NotFoundError, SlipstreamError
from slipstream.units import parse_bytes
from slipstream.version import __version__

LIMIT_VARIABLE = "SLIPSTREAM_CACHE_LIMIT"
DEFAULT_LIMIT = "64GiB"
# An engine that was just given out stays: its user may not have opened it yet.
_KEPT_SECONDS = 60.0
# Everything of a checkpoint folder that a build reads.
_INPUTS = ("*.safetensors", "*.json", "*.jinja")


def build_cached(
    checkpoint: str | os.PathLike[str],
    config: BuildConfig | None = None,
    progress: Callable[[int, int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Path:
    """The engine of a checkpoint folder and configuration, built if the cache has none.

    Processes that ask for the same engine at once build it once. A damaged entry is built again.
    `log` gets a line for each engine that was removed to keep the cache small (default: stderr).
    Raises what `build` raises, NotFoundError for a missing folder, IoError for the cache folder,
    InvalidArgumentError for a SLIPSTREAM_CACHE_LIMIT that is no size.
    """
    limit = parse_bytes(os.environ.get(LIMIT_VARIABLE) or DEFAULT_LIMIT, LIMIT_VARIABLE)
    folder = Path(checkpoint)
    if not folder.is_dir():
        raise NotFoundError(f"{folder} is no folder; give the folder of a checkpoint")
    wanted = config or BuildConfig()
    try:
        key = _key(folder, wanted)
    except OSError as error:
        raise IoError(
            f"{error.filename or folder}: {error.strerror}; the checkpoint must be readable"
        ) from error
    root = cache_dir() / "engines"
    target = root / f"{key}.engine"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            # In use from here on: a process that makes room for another engine passes over it.
            with contextlib.suppress(FileNotFoundError):
                os.utime(target)
            if not _sound(target):
                from slipstream.builder.build import build

                build(folder, target, wanted, progress)
                _evict(root, limit, target, log or _to_stderr)
    except OSError as error:
        raise IoError(
            f"{error.filename or root}: {error.strerror}; set SLIPSTREAM_CACHE to a folder that "
            "can be written"
        ) from error
    return target


def _key(folder: Path, config: BuildConfig) -> str:
    """Small files by their bytes; weights by identity on the disk, since reading them all would
    cost seconds at every start. The time of the last status change (ctime) cannot be set by
    programs, so a weight file that was replaced is noticed even with its old size and date."""
    entries: list[list[object]] = []
    for file in sorted(f for pattern in _INPUTS for f in folder.glob(pattern)):
        info = file.stat()
        if file.suffix == ".safetensors":
            identity = [info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns]
            entries.append([file.name, info.st_size, *identity])
        else:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            entries.append([file.name, info.st_size, digest])
    text = json.dumps([__version__, config.to_json(), entries], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _evict(root: Path, limit: int, keep: Path, log: Callable[[str], None]) -> None:
    """Removes engines, the one whose last use is longest ago first, until the rest fit. A process
    that has one open keeps it: the file goes when it is closed."""
    found = []
    for path in root.glob("*.engine"):
        with contextlib.suppress(FileNotFoundError):  # Another process evicts too.
            info = path.stat()
            found.append((info.st_mtime, info.st_size, path))
    total = sum(size for _, size, _ in found)
    newest = time.time() - _KEPT_SECONDS
    for used, size, path in sorted(found):
        if total <= limit:
            return
        if path == keep or used > newest:
            continue
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime > newest:  # Given out meanwhile.
                continue
            path.unlink()
        total -= size
        day = time.strftime("%F", time.localtime(used))
        log(
            f"{path}: removed, {size} bytes, last used {day}: the cache holds at most {limit} "
            f"bytes ({LIMIT_VARIABLE})"
        )


def _to_stderr(line: str) -> None:
    print(f"slipstream: {line}", file=sys.stderr)


def _sound(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with EngineReader(path):
            return True
    except SlipstreamError:
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
