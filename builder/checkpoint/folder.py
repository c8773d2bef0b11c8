"""A checkpoint folder: config.json and the tensors of one or many safetensors files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream._shown import name_excerpt, shown
from slipstream.builder.checkpoint.convert import STORAGE, Array
from slipstream.builder.checkpoint.json_file import exists, read_json
from slipstream.builder.checkpoint.safetensors import SafetensorsFile, TensorEntry
from slipstream.builder.errors import InputError, UnsupportedError
from slipstream.errors import CorruptFileError, NotFoundError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
BLOCK_BYTES = 64 << 20

_FORMATS: Mapping[str, str] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}


@dataclass(frozen=True)
class CheckpointTensor:
    """A tensor that can be read in row blocks. `format` is "f32", "f16" or "bf16"."""

    name: str
    format: str
    shape: tuple[int, ...]
    _file: SafetensorsFile
    _entry: TensorEntry

    def row_blocks(
        self, multiple: int = 16, rows: tuple[int, int] | None = None
    ) -> Iterator[tuple[int, Array]]:
        """(first row, rows) in order; each block has at most 64 MiB in any format, and a
        multiple of `multiple` rows except the last. `rows` is the range to read (first, end).

        The rows are a read-only array of the type `convert.STORAGE` names, valid until the next
        block is asked for: that one takes its memory. CorruptFileError if the file was cut since
        it was opened, IoError if it cannot be read.
        """
        dtype = STORAGE[self.format]
        start, end = (0, self.shape[0]) if rows is None else rows
        cols = math.prod(self.shape[1:])
        step = max(BLOCK_BYTES // (4 * max(cols, 1)) // multiple, 1) * multiple
        buffer = np.empty(min(step, max(end - start, 0)) * cols, dtype)
        for first in range(start, end, step):
            count = min(step, end - first)
            block = buffer[: count * cols]
            if block.size:
                begin = self._entry.begin + first * cols * dtype.itemsize
                self._file.read_into(begin, block.data.cast("B"))
            view = block.reshape(count, *self.shape[1:])
            view.flags.writeable = False
            yield first, view


class Checkpoint:
    """A checked folder. Opening it opens the files and reads their headers, no weights.

    NotFoundError, CorruptFileError or InputError name the file and the fix.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        check_folder(self.folder)
        self.config = read_json(self.folder / "config.json")
        self._files: dict[str, SafetensorsFile] = {}
        self._tensors: dict[str, tuple[SafetensorsFile, TensorEntry]] = {}
        if exists(self.folder / INDEX):
            self._open_sharded()
        elif exists(self.folder / SINGLE):
            self._add_file(SINGLE)
        else:
            raise NotFoundError(_no_weights(self.folder))

    @property
    def files(self) -> list[Path]:
        """The weight files."""
        return [self.folder / name for name in self._files]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, (_, entry) in self._tensors.items()}

    def tensor(self, name: str) -> CheckpointTensor:
        """UnsupportedError if its dtype is no float that can be built."""
        if name not in self._tensors:
            raise InputError(f"{self.folder} holds no tensor '{name}'")
        file, entry = self._tensors[name]
        if entry.dtype not in _FORMATS:
            raise UnsupportedError(
                f"tensor '{name}' in {file.path} has dtype {entry.dtype}; supported: "
                f"{', '.join(_FORMATS)}; convert the checkpoint first"
            )
        return CheckpointTensor(name, _FORMATS[entry.dtype], entry.shape, file, entry)

    def _add_file(self, name: str) -> SafetensorsFile:
        file = SafetensorsFile(self.folder / name)
        for tensor, entry in file.tensors.items():
            if tensor in self._tensors:
                other = self._tensors[tensor][0].path.name
                raise CorruptFileError(
                    f"tensor '{name_excerpt(tensor)}' is in both {other} and {name} of "
                    f"{self.folder}; remove the file that does not belong to the checkpoint"
                )
            self._tensors[tensor] = (file, entry)
        self._files[name] = file
        return file

    def _open_sharded(self) -> None:
        path = self.folder / INDEX
        index: Any = read_json(path)
        weight_map = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(weight_map, dict) or not weight_map:
            raise InputError(f"{path} has no 'weight_map'; copy the checkpoint's original file")
        for tensor, name in weight_map.items():
            # A name with a folder in it could reach files outside of the checkpoint.
            if not isinstance(name, str) or Path(name).name != name:
                raise InputError(
                    f"{path} puts tensor '{name_excerpt(tensor)}' into {shown(name)}, which "
                    "is no file name; copy the checkpoint's original file"
                )
        shards = sorted(set(weight_map.values()))
        missing = [name for name in shards if not exists(self.folder / name)]
        if missing:
            raise NotFoundError(
                f"{self.folder} lacks {len(missing)} of the {len(shards)} shards that {INDEX} "
                f"names: {', '.join(map(name_excerpt, missing[:4]))}"
                f"{', ...' if len(missing) > 4 else ''}; download them"
            )
        for name in shards:
            self._add_file(name)
        for tensor, name in weight_map.items():
            if tensor not in self._files[name].tensors:
                raise CorruptFileError(
                    f"{path} says that tensor '{name_excerpt(tensor)}' is in {name}, which does "
                    "not hold it; download both again"
                )
        for tensor, (file, _) in self._tensors.items():
            if tensor not in weight_map:
                raise CorruptFileError(
                    f"tensor '{name_excerpt(tensor)}' of {file.path.name} is not in "
                    f"{path}; download both again"
                )


def check_folder(folder: Path) -> None:
    """NotFoundError or InputError unless `folder` is a folder."""
    if not exists(folder):
        raise NotFoundError(f"{folder} does not exist; give the folder of a checkpoint")
    if not folder.is_dir():
        raise InputError(
            f"{folder} is no folder; give the folder with config.json and model.safetensors"
        )


def _no_weights(folder: Path) -> str:
    # `glob` passes over a folder that may be entered but not listed.
    suffixes = (".bin", ".pth", ".pt", ".gguf")
    other = sorted(p.name for p in folder.glob("*") if p.suffix in suffixes)
    hint = f" (found {other[0]}: convert it to safetensors)" if other else ""
    return f"{folder} holds neither {SINGLE} nor {INDEX}{hint}; download the weights"
