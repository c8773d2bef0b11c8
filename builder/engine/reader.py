"""Reads and checks engine files in Python: for `inspect`, the cache and tests. No numpy."""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Any

import xxhash

from slipstream._shown import name_excerpt
from slipstream.builder.engine import layout
from slipstream.builder.engine.compatibility import check_compatibility, explain
from slipstream.builder.engine.manifest import ManifestError, parse_manifest
from slipstream.errors import (
    CorruptFileError,
    IncompatibleError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
)


class EngineReader:
    """One engine file, mapped and checked; a context manager.

    Opening checks everything but the weights' bytes; `verify_full` checks those too. NotFoundError,
    InvalidArgumentError (a directory or device), IoError, CorruptFileError, or IncompatibleError
    with the whole list of what this version cannot run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._map = self._open()
        try:
            self.manifest = self._read()
            self.sections: dict[str, dict[str, Any]] = {
                s["name"]: s for s in self.manifest["sections"]
            }
            self._check_compatibility()
            self._verify_sections()
            self._verify_padding()
        except BaseException:
            self._map.close()
            raise

    def __enter__(self) -> EngineReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._map.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._map)

    def section(self, name: str) -> bytes:
        """The bytes of a section; empty if the file has none of that name."""
        entry = self.sections.get(name)
        if entry is None:
            return b""
        return self._map[entry["offset"] : entry["offset"] + entry["size"]]

    def tensor_bytes(self, name: str) -> bytes:
        """A copy of a tensor's stored bytes. NotFoundError if there is none of that name."""
        for tensor in self.manifest["tensors"]:
            if tensor["name"] == name:
                start = self.sections[layout.WEIGHTS]["offset"] + tensor["offset"]
                return self._map[start : start + tensor["size"]]
        raise NotFoundError(f"{self.path} holds no tensor '{name}'; inspect --tensors lists them")

    def verify_full(self) -> None:
        """Checks every chunk of the weights. CorruptFileError names the place."""
        verification = self.manifest["verification"]
        hashes = self.section(verification["section"])
        weights = self.sections[layout.WEIGHTS]
        base, size, chunk = weights["offset"], weights["size"], verification["chunk_bytes"]
        view = memoryview(self._map)
        try:
            for index, at in enumerate(range(0, size, chunk)):
                begin, end = base + at, base + min(at + chunk, size)
                with view[begin:end] as data:
                    found = xxhash.xxh3_128_digest(data)
                if found != hashes[index * layout.HASH_BYTES : (index + 1) * layout.HASH_BYTES]:
                    raise self._damaged(
                        f"chunk {index} of the weights (bytes {begin} to {end}"
                        f"{self._tensor_at(at, end - base)}) does not have its hash"
                    )
        finally:
            view.release()

    def _tensor_at(self, begin: int, end: int) -> str:
        for tensor in self.manifest["tensors"]:
            if tensor["offset"] < end and tensor["offset"] + tensor["size"] > begin:
                return f", in or near tensor {name_excerpt(tensor['name'])}"
        return ""

    def _damaged(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"{self.path} is damaged: {problem}. Rebuild it or copy it again.")

    def _open(self) -> mmap.mmap:
        try:
            # O_NONBLOCK: opening a named pipe would wait for its writer.
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise NotFoundError(f"{self.path} does not exist; check the path.") from error
        except OSError as error:
            raise IoError(
                f"{self.path} cannot be opened: {error.strerror}. Check its permissions."
            ) from error
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                what = "a directory" if stat.S_ISDIR(info.st_mode) else "not a regular file"
                raise InvalidArgumentError(
                    f"{self.path} is {what}; give the path of an .engine file."
                )
            if info.st_size == 0:
                raise CorruptFileError(f"{self.path} is empty. Rebuild it or copy it again.")
            return mmap.mmap(fd, info.st_size, prot=mmap.PROT_READ)
        except OSError as error:
            raise IoError(
                f"{self.path} cannot be mapped: {error.strerror}. "
                "Free memory or copy it to a local disk."
            ) from error
        finally:
            os.close(fd)

    def _read(self) -> dict[str, Any]:
        size = len(self._map)
        head = self._map[: layout.HEADER_BYTES]
        if head[: len(layout.MAGIC)] != layout.MAGIC:
            if head.startswith((b"\x89SLE\n", b"\x89SLE\r\r\n")):
                raise self._damaged("line ends were converted, as a transfer in text mode does")
            raise CorruptFileError(
                f"{self.path} is not a Slipstream engine file: it starts with "
                f"{head[:8].hex(' ')}. Build an engine with build-engine, or check the path."
            )
        if size < layout.HEADER_BYTES:
            raise self._damaged(f"it has {size} bytes, the header alone has {layout.HEADER_BYTES}")
        _, header_size, header = layout.Header.unpack(head)
        major, minor, file_size = header.major, header.minor, header.file_size
        start, length = header.manifest_offset, header.manifest_size
        if major != layout.MAJOR:
            raise IncompatibleError(
                f"{self.path} has engine format {major}.{minor}; this version of Slipstream reads "
                f"format {layout.MAJOR}. Rebuild the engine with this version, or use the version "
                "that built it."
            )
        if header_size != layout.HEADER_BYTES:
            raise self._damaged(f"the header says that it has {header_size} bytes")
        if file_size != size:
            cut = " (it is cut)" if file_size > size else ""
            raise self._damaged(f"the file has {size} bytes, but its header says {file_size}{cut}")
        aligned = start >= layout.SECTION_ALIGN and start % layout.SECTION_ALIGN == 0
        if not 0 < length <= layout.MAX_MANIFEST_BYTES or start + length != size or not aligned:
            raise self._damaged(
                f"the header puts the manifest at byte {start} with {length} bytes; it must start "
                "at a multiple of 4096 and end the file"
            )
        if any(head[layout.HEADER_BYTES - 56 :]):
            raise self._damaged("a reserved byte of the header is not zero")
        data = self._map[start:]
        if hashlib.sha256(data).digest() != header.manifest_sha256:
            raise self._damaged("the manifest does not have its sha256")
        try:
            manifest = parse_manifest(data, start)
        except ManifestError as error:
            # The hash was right, so the file is as it was written: copying would not help.
            raise CorruptFileError(
                f"{self.path} was not written by a working builder: {error}. Rebuild it."
            ) from error
        if manifest["format"] != {**manifest["format"], "major": major, "minor": minor}:
            raise self._damaged("header and manifest give different format versions")
        return manifest

    def _check_compatibility(self) -> None:
        mismatches = check_compatibility(self.manifest)
        if mismatches:
            raise IncompatibleError(explain(self.path, mismatches))

    def _verify_sections(self) -> None:
        for section in self.sections.values():
            if section["name"] == layout.WEIGHTS:
                continue
            if xxhash.xxh3_128_hexdigest(self.section(section["name"])) != section["hash"]:
                begin, end = section["offset"], section["offset"] + section["size"]
                raise self._damaged(
                    f"the section {name_excerpt(section['name'])} (bytes {begin} to {end}) does "
                    "not have its hash"
                )

    def _verify_padding(self) -> None:
        end, before = layout.HEADER_BYTES, "the header"
        for section in self.sections.values():
            self._check_zeros(end, section["offset"], before)
            end = section["offset"] + section["size"]
            before = f"the section {name_excerpt(section['name'])}"
        self._check_zeros(end, layout.align(end, layout.SECTION_ALIGN), before)

    def _check_zeros(self, begin: int, end: int, before: str) -> None:
        if any(self._map[begin:end]):
            raise self._damaged(f"the padding after {before} is not zero")
