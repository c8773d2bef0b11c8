"""One safetensors file: the header is checked in full before a tensor is touched.

A file is an 8-byte little-endian header size, a JSON header, and the tensors' bytes. Nothing of
the data is read when a file is opened.
"""

from __future__ import annotations

import math
import os
import stat
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream._shown import name_excerpt, shown
from slipstream.builder.checkpoint.json_file import parse_json
from slipstream.builder.errors import InputError
from slipstream.errors import CorruptFileError, IoError, NotFoundError

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
    """An open, checked file. Not thread-safe. NotFoundError, CorruptFileError or InputError.

    Read by system calls, not mapped: a file that another process cuts meanwhile would end this one
    with SIGBUS, instead of an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Opening a pipe would wait for a writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{path} does not exist; download the checkpoint's missing file"
            ) from error
        except OSError as error:
            raise InputError(
                f"{path} cannot be opened: {error.strerror}; check its permissions"
            ) from error
        weakref.finalize(self, os.close, self._fd)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; copy the checkpoint's original file")
        self.size = status.st_size
        if self.size < 8:
            raise self._corrupt(f"it has {self.size} bytes, a header alone has more")
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self.tensors = self._read_header()

    def read_into(self, begin: int, target: memoryview) -> None:
        """Fills `target` (bytes) from byte `begin` on. CorruptFileError if the file ends before."""
        done = 0
        while done < len(target):
            try:
                count = os.preadv(self._fd, [target[done:]], begin + done)
            except OSError as error:
                raise IoError(
                    f"{self.path} cannot be read at byte {begin + done}: {error.strerror}; check "
                    "the disk, or copy the file"
                ) from error
            if count == 0:
                raise self._corrupt(
                    f"it has {os.fstat(self._fd).st_size} bytes, but {self.size} when it was "
                    "opened (another program cut it)"
                )
            done += count

    def _read(self, begin: int, size: int) -> bytes:
        data = bytearray(size)
        self.read_into(begin, memoryview(data))
        return bytes(data)

    def _corrupt(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"{self.path} is damaged: {problem}; download it again")

    def _read_header(self) -> dict[str, TensorEntry]:
        length = int.from_bytes(self._read(0, 8), "little")
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
            header = parse_json(self._read(8, length), "its header")
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
        where = f"tensor '{name_excerpt(name)}'"
        if not isinstance(value, dict):
            raise self._corrupt(f"{where} has no description")
        dtype: Any = value.get("dtype")
        shape: Any = value.get("shape")
        offsets: Any = value.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
            raise self._corrupt(f"{where} has the unknown dtype {shown(dtype)}")
        if not _naturals(shape) or len(shape) > MAX_RANK:
            raise self._corrupt(f"{where} has no valid shape: {shown(shape)}")
        if not _naturals(offsets) or len(offsets) != 2:
            raise self._corrupt(f"{where} has no valid data_offsets: {shown(offsets)}")
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
                raise self._corrupt(f"tensor '{name_excerpt(entry.name)}' {what} {before}")
            end, before = entry.end, f"tensor '{name_excerpt(entry.name)}'"
        if end != self.size:
            raise self._corrupt(f"{self.size - end} bytes follow its last tensor")


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62 for v in value
    )
