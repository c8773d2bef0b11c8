"""Constants and the header of the engine file (docs/design/engine-file.md)."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

MAGIC = b"\x89SLE\r\n\x1a\n"
MAJOR = 1
MINOR = 0
HEADER_BYTES = 128
SECTION_ALIGN = 4096
TENSOR_ALIGN = 256
CHUNK_BYTES = 1 << 20
HASH_BYTES = 16
MAX_MANIFEST_BYTES = 64 << 20
MAX_CHUNK_BYTES = 1 << 30
WEIGHTS = "weights"
LAYOUTS = ("row_major", "n16k4")
HASH_ALGORITHM = "xxh3_128"

_HEADER = struct.Struct("<8sHHIQQQ32s56x")


@dataclass(frozen=True)
class Header:
    file_size: int
    manifest_offset: int
    manifest_size: int
    manifest_sha256: bytes
    major: int = MAJOR
    minor: int = MINOR

    def pack(self) -> bytes:
        return _HEADER.pack(
            MAGIC,
            self.major,
            self.minor,
            HEADER_BYTES,
            self.file_size,
            self.manifest_offset,
            self.manifest_size,
            self.manifest_sha256,
        )

    @staticmethod
    def unpack(data: bytes) -> tuple[bytes, int, Header]:
        """The magic, the header size that the file states, and the fields, unchecked."""
        magic, major, minor, size, file_size, offset, length, digest = _HEADER.unpack(data)
        return magic, size, Header(file_size, offset, length, digest, major, minor)


def align(value: int, to: int) -> int:
    return -(-value // to) * to


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, no NaN: equal values give equal bytes."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()
