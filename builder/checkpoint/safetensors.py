"""One safetensors file, mapped: the header is checked in full before a tensor is touched.

A file is an 8-byte little-endian header size, a JSON header, and the tensors' bytes. Nothing of
the data is read when a file is opened.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.builder.checkpoint.json_file import parse_json
from slipstream.builder.errors import InputError
from slipstream.errors import CorruptFileError, NotFoundError

# The limit of the reference implementation.
MAX_HEADER_BYTES = 100_000_000
MAX_RANK = 8

# Every dtype of the format with its bytes per element; not all of them can be built.
DTYPE_BYTES: Mapping[str, int] = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of a file: `begin` and `end` count bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile:
    """A mapped, checked file. Not thread-safe. NotFoundError, CorruptFileError or InputError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Opening a pipe would wait for a writer.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{path} does not exist; download the checkpoint's missing file"
            ) from error
        except OSError as error:
            raise InputError(
                f"{path} cannot be opened: {error.strerror}; check its permissions"
            ) from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(
                    f"{path} is not a regular file; copy the checkpoint's original file"
                )
            self.size = status.st_size
            if self.size < 8:
                raise self._corrupt(f"it has {self.size} bytes, a header alone has more")
            self._map = mmap.mmap(fd, self.size, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} cannot be mapped: {error}; free memory or copy it to a local disk"
            ) from error
        finally:
            os.close(fd)
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.tensors = self._read_header()

    @property
    def mapping(self) -> mmap.mmap:
        return self._map

    def drop(self, begin: int, end: int) -> None:
        """Gives the mapped pages that lie wholly in [begin, end) back to the system."""
        page = mmap.PAGESIZE
        first, last = -(-begin // page) * page, end // page * page
        if end >= self.size:
            last = self.size
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def _corrupt(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"{self.path} is damaged: {problem}; download it again")

    def _read_header(self) -> dict[str, TensorEntry]:
        length = int.from_bytes(self._map[:8], "little")
        if length > MAX_HEADER_BYTES:
            raise self._corrupt(
                f"its header would have {length} bytes, the limit is {MAX_HEADER_BYTES}, so it is "
                "no safetensors file"
            )
        if length > self.size - 8:
            raise self._corrupt(
                f"its header of {length} bytes reaches beyond the file of {self.size} bytes (it "
                "is cut)"
            )
        try:
            header = parse_json(self._map[8 : 8 + length], "its header")
        except InputError as error:
            raise self._corrupt(str(error).split(";")[0]) from error
        if not isinstance(header, dict):
            raise self._corrupt("its header is no JSON object")
        base = 8 + length
        entries = {
            name: self._entry(name, value, base)
            for name, value in header.items()
            if name != "__metadata__"
        }
        self._check_layout(entries.values(), base)
        return entries

    def _entry(self, name: str, value: Any, base: int) -> TensorEntry:
        where = f"tensor '{name}'"
        if not isinstance(value, dict):
            raise self._corrupt(f"{where} has no description")
        dtype: Any = value.get("dtype")
        shape: Any = value.get("shape")
        offsets: Any = value.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
            raise self._corrupt(f"{where} has the unknown dtype {dtype!r}")
        if not _naturals(shape) or len(shape) > MAX_RANK:
            raise self._corrupt(f"{where} has no valid shape: {str(shape)[:80]}")
        if not _naturals(offsets) or len(offsets) != 2:
            raise self._corrupt(f"{where} has no valid data_offsets: {str(offsets)[:80]}")
        begin, end = offsets
        expected = math.prod(shape) * DTYPE_BYTES[dtype]
        if end - begin != expected:
            raise self._corrupt(
                f"{where} has {end - begin} bytes, but {dtype} of shape {shape} needs {expected}"
            )
        if base + end > self.size:
            raise self._corrupt(
                f"{where} ends at byte {base + end}, but the file has {self.size} bytes (it is cut)"
            )
        return TensorEntry(name, dtype, tuple(shape), base + begin, base + end)

    def _check_layout(self, entries: Any, base: int) -> None:
        """The format allows neither overlap nor holes, so any other file is damaged."""
        end, before = base, "the header"
        for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
            if entry.begin != end:
                what = "overlaps" if entry.begin < end else "leaves a hole after"
                raise self._corrupt(f"tensor '{entry.name}' {what} {before}")
            end, before = entry.end, f"tensor '{entry.name}'"
        if end != self.size:
            raise self._corrupt(f"{self.size - end} bytes follow its last tensor")


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62 for v in value
    )
