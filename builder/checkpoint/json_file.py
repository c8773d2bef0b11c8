"""JSON files of a checkpoint, read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.builder import strict_json
from slipstream.builder.errors import InputError
from slipstream.errors import NotFoundError

MAX_JSON_BYTES = 256 << 20
# The manifest of an engine holds config.json two levels down.
MAX_DEPTH = strict_json.MAX_DEPTH - 2


def exists(path: Path) -> bool:
    """Whether there is anything of that name. InputError where the system cannot tell: a name that
    is too long, a folder that may not be searched."""
    try:
        return path.exists()
    except OSError as error:
        raise InputError(
            f"{str(path)[:200]} cannot be looked up: {error.strerror}; check the name and the "
            "permissions of its folder"
        ) from error


def read_bytes(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The bytes of a small file. NotFoundError or InputError otherwise."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError(f"{path} is not a regular file; copy the checkpoint's original file")
        if size > limit:
            raise InputError(
                f"{path} has {size} bytes, the limit is {limit}; copy the checkpoint's original "
                "file"
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{path} does not exist; the checkpoint is incomplete, download it again"
        ) from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; check its permissions"
        ) from error


def parse_json(data: bytes, where: str) -> Any:
    """One JSON value. `where` names it in messages. InputError for anything that is not clean."""
    try:
        return strict_json.loads(data, MAX_DEPTH)
    except strict_json.JsonError as error:
        raise InputError(f"{where} {error}; copy the original file") from error


def read_json(path: Path) -> Any:
    """A JSON file. NotFoundError if it does not exist, InputError if it is not clean JSON."""
    return parse_json(read_bytes(path), str(path))
