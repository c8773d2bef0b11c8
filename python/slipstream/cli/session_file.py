"""A conversation on disk: its messages, and the keys and values (KV) of its tokens.

Little-endian: 8 bytes of magic, u32 version, u64 length of the JSON, JSON, u64 length of the KV
image, KV image (of `LLM.export_kv`; may be empty), SHA-256 of all before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from dataclasses import dataclass
from typing import Any

from slipstream._shown import excerpt
from slipstream.errors import CorruptFileError, IncompatibleError, IoError

__all__ = ["SavedConversation", "read", "write"]

_MAGIC = b"SLIPCHAT"
_VERSION = 1
_HEAD = struct.Struct("<8sIQ")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class SavedConversation:
    """`build_id` is of the engine that made the KV."""

    model_name: str
    build_id: str
    messages: list[dict[str, str]]
    kv: bytes


def read(path: str) -> SavedConversation | None:
    """None when there is no such file. CorruptFileError when it is damaged or something else."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IoError(f"The session {excerpt(path)} cannot be read: {error.strerror}.") from error
    if not data.startswith(_MAGIC) or len(data) < _HEAD.size + 32:
        raise _corrupt(path, "it is no saved conversation")
    _, version, size = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise IncompatibleError(
            f"The session {excerpt(path)} has version {version} and this program reads {_VERSION}. "
            "Use the program that wrote it, or give another name."
        )
    body, digest = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != digest:
        raise _corrupt(path, "its checksum is wrong")
    rest = body[_HEAD.size :]
    if size + _LENGTH.size > len(rest):
        raise _corrupt(path, "its text is cut")
    (kv_size,) = _LENGTH.unpack_from(rest, size)
    kv = rest[size + _LENGTH.size :]
    if kv_size != len(kv):
        raise _corrupt(path, "its keys and values are cut")
    try:
        return _conversation(json.loads(rest[:size]), kv)
    except (ValueError, TypeError, KeyError) as error:
        raise _corrupt(path, "its text is not what this program writes") from error


def _conversation(facts: Any, kv: bytes) -> SavedConversation:
    messages = facts["messages"]
    for message in messages:
        if set(message) != {"role", "content"} or not all(
            isinstance(text, str) for text in message.values()
        ):
            raise ValueError("messages")
    names = (facts["model_name"], facts["build_id"])
    if not isinstance(messages, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names")
    return SavedConversation(*names, messages, kv)


def write(path: str, conversation: SavedConversation) -> None:
    """Replaces the file as a whole, readable for its owner only; on an error the old one stays."""
    facts = {
        "model_name": conversation.model_name,
        "build_id": conversation.build_id,
        "messages": conversation.messages,
    }
    text = json.dumps(facts).encode()
    head = _HEAD.pack(_MAGIC, _VERSION, len(text))
    body = head + text + _LENGTH.pack(len(conversation.kv)) + conversation.kv
    target = os.path.realpath(path)  # a link stays one
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(
            prefix=f".{os.path.basename(target)[:100]}.", dir=os.path.dirname(target)
        )
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.write(hashlib.sha256(body).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise IoError(
            f"The session {excerpt(path)} cannot be written: {error.strerror}. Free space or give "
            "another place; what was there before is unchanged."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _corrupt(path: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"The session {excerpt(path)} cannot be used: {why}. It is left as it is; give another "
        "name to begin a new one."
    )
