"""Writes an engine file: streamed, hashed on the way, visible under its name only when complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import xxhash

from slipstream.builder.engine.layout import (
    CHUNK_BYTES,
    HEADER_BYTES,
    MAX_MANIFEST_BYTES,
    SECTION_ALIGN,
    TENSOR_ALIGN,
    Header,
    align,
    canonical_json,
)
from slipstream.builder.errors import BuildError, InputError
from slipstream.errors import IoError, ResourceExhaustedError


class DiskFullError(ResourceExhaustedError):
    """No room for the engine file: the caller can free some, so it counts as wrong input."""

    exit_code = 2


def check_output(path: Path, need_bytes: int) -> None:
    """InputError or DiskFullError, before any work, if the output cannot be written."""
    folder = path.absolute().parent
    kind = _kind(path)
    if kind is not None and stat.S_ISDIR(kind):
        raise InputError(f"-o {path}: is a folder; give a file name, e.g. {path / 'model.engine'}")
    if kind is not None and stat.S_ISLNK(kind):
        # A rename would replace the link itself, which may be one of the system, as /dev/stdout.
        raise InputError(
            f"-o {path}: is a symbolic link; give the name of the file itself, or remove the link"
        )
    if kind is not None and not stat.S_ISREG(kind):
        # A rename would replace a device or a pipe.
        raise InputError(f"-o {path}: is not a regular file; give another name")
    if not folder.is_dir():
        raise InputError(f"-o {path}: the folder {folder} does not exist; create it first")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".slipstream-probe-"):
            pass
    except OSError as error:
        raise InputError(
            f"-o {path}: cannot write into {folder}: {error.strerror}; choose another folder"
        ) from error
    stats = os.statvfs(folder)
    free = stats.f_bavail * stats.f_frsize
    if free < need_bytes:
        raise DiskFullError(
            f"-o {path}: the engine needs {need_bytes} bytes, {folder} has {free} free; free some "
            "space or choose another folder"
        )


def _kind(path: Path) -> int | None:
    """The mode of what has this name now, a link not followed; None if there is nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"-o {str(path)[:200]}: cannot be looked up: {error.strerror}; give another name"
        ) from error


class EngineWriter:
    """A context manager: `finish` makes the file appear, anything else leaves nothing behind.

    Sections are written one after the other. An existing file of the name is replaced only by
    `finish`. Raises DiskFullError and IoError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # In the same folder, so that the rename is atomic. The length of the name does not grow
        # with that of the output, which may be as long as the system allows.
        digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
        self._prefix = f".slipstream-{digest}-"
        self._partial = path
        self._file: BinaryIO | None = None
        self._offset = 0
        self.sections: list[dict[str, Any]] = []

    def __enter__(self) -> EngineWriter:
        try:
            with self._guard():
                self._remove_abandoned()
                self._create()
                self._put(b"\0" * SECTION_ALIGN)
        except BaseException:
            self._discard()
            raise
        return self

    def __del__(self) -> None:
        # A signal between __enter__ and the body of `with` skips __exit__.
        self._discard()

    def _create(self) -> None:
        """Opens a new partial file and locks it, as the sign that its build is alive."""
        while self._file is None:
            name = f"{self._prefix}{secrets.token_hex(6)}.partial"
            self._partial = self._path.with_name(name)
            self._file = self._partial.open("xb")
            _lock(self._file)
            if os.fstat(self._file.fileno()).st_nlink == 0:
                # Another build took it for abandoned before it was locked.
                self._file.close()
                self._file = None

    def _remove_abandoned(self) -> None:
        """Partial files of this output whose build was killed: nobody holds their lock."""
        for path in self._path.absolute().parent.glob(f"{self._prefix}*.partial"):
            # One that another build removes at the same time is gone as well.
            with contextlib.suppress(OSError), path.open("rb") as file:
                if _lock(file):
                    path.unlink()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._discard()

    def _discard(self) -> None:
        """Removes the partial file, if there is one. Its name tells more than the open file does: a
        signal may come before that is kept."""
        if self._file is not None:
            # Closing flushes, which fails again on a full disk.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        if self._partial != self._path:
            with contextlib.suppress(FileNotFoundError):  # since it was renamed
                self._partial.unlink()
            self._partial = self._path

    def section(self, name: str, data: bytes) -> None:
        """A whole section with its hash."""
        with self._guard():
            self._align()
            entry = {
                "name": name,
                "offset": self._offset,
                "size": len(data),
                "hash": xxhash.xxh3_128_hexdigest(data),
            }
            self._put(data)
        self.sections.append(entry)

    def begin_weights(self) -> WeightsSection:
        """Starts the section `weights`; close it with `end_weights`."""
        with self._guard():
            self._align()
        return WeightsSection(self)

    def end_weights(self, weights: WeightsSection) -> None:
        entry = {"name": "weights", "offset": weights.start, "size": weights.size, "hash": ""}
        self.sections.append(entry)
        self.section("weight_hashes", weights.chunk_hashes())

    def finish(self, manifest: dict[str, Any]) -> None:
        """Writes manifest and header, syncs, renames."""
        data = canonical_json(manifest)
        if len(data) > MAX_MANIFEST_BYTES:
            raise BuildError(
                f"the manifest has {len(data)} bytes, the limit is {MAX_MANIFEST_BYTES}; the model "
                "has too many tensors for one engine file"
            )
        with self._guard():
            assert self._file is not None
            self._align()
            header = Header(
                file_size=self._offset + len(data),
                manifest_offset=self._offset,
                manifest_size=len(data),
                manifest_sha256=hashlib.sha256(data).digest(),
            )
            self._put(data)
            self._file.seek(0)
            packed = header.pack()
            assert len(packed) == HEADER_BYTES
            self._file.write(packed)
            self._file.flush()
            os.fsync(self._file.fileno())
            # Renamed before it is closed, which gives up the lock.
            os.replace(self._partial, self._path)
            self._file.close()
            self._file = None
        self._sync_folder()

    def _sync_folder(self) -> None:
        # The file is complete: a file system that cannot sync a folder is no reason to fail.
        with contextlib.suppress(OSError):
            fd = os.open(self._path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    # --- used by WeightsSection

    @property
    def offset(self) -> int:
        return self._offset

    def put(self, data: memoryview | bytes) -> None:
        with self._guard():
            self._put(data)

    def _put(self, data: memoryview | bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._offset += len(data)

    def _align(self) -> None:
        self._put(b"\0" * (align(self._offset, SECTION_ALIGN) - self._offset))

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise DiskFullError(
                    f"{self._path}: the disk is full ({error.strerror}) after {self._offset} "
                    "bytes; the partial file was removed; free some space or choose another folder"
                ) from error
            raise IoError(f"{self._path}: cannot be written: {error.strerror}") from error


def _lock(file: BinaryIO) -> bool:
    """Whether this open file has the lock now. A file system without locks gives none."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class WeightsSection:
    """The growing weights section: tensors at multiples of 256, hashed per chunk of 1 MiB."""

    def __init__(self, writer: EngineWriter) -> None:
        self._writer = writer
        self.start = writer.offset
        self._hashes: list[bytes] = []
        self._chunk = xxhash.xxh3_128()
        self._in_chunk = 0

    @property
    def size(self) -> int:
        return self._writer.offset - self.start

    def begin_tensor(self) -> int:
        """Pads; returns the tensor's offset in the section."""
        pad = align(self.size, TENSOR_ALIGN) - self.size
        if pad:
            self.write(memoryview(b"\0" * pad))
        return self.size

    def write(self, data: memoryview) -> None:
        """Appends bytes (a flat view of format 'B')."""
        position = 0
        while position < len(data):
            take = min(len(data) - position, CHUNK_BYTES - self._in_chunk)
            self._chunk.update(data[position : position + take])
            self._in_chunk += take
            position += take
            if self._in_chunk == CHUNK_BYTES:
                self._end_chunk()
        self._writer.put(data)

    def chunk_hashes(self) -> bytes:
        """The section `weight_hashes`. Call once, at the end."""
        if self._in_chunk:
            self._end_chunk()
        return b"".join(self._hashes)

    def _end_chunk(self) -> None:
        self._hashes.append(self._chunk.digest())
        self._chunk.reset()
        self._in_chunk = 0
