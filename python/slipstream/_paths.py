"""Where Slipstream keeps files: its cache, and the C++ development files of the wheel."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import slipstream
from slipstream.errors import NotFoundError

__all__ = ["cache_dir", "sdk_dir"]


def cache_dir() -> Path:
    """`$SLIPSTREAM_CACHE`, else `$XDG_CACHE_HOME/slipstream`, else `~/.cache/slipstream`.

    It need not exist yet; whoever writes creates it. Everything in it can be made again.

    Raises:
        NotFoundError: none of the variables is set and the user has no home folder.
    """
    own = os.environ.get("SLIPSTREAM_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    # The XDG rule: a relative path is invalid and ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or "")
    base = xdg if xdg.is_absolute() else _home() / ".cache"
    return base / "slipstream"


def _home() -> Path:
    """`$HOME`, or what the system knows where that is empty, as in some services and containers."""
    home = Path(os.environ.get("HOME") or "")
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            home = Path("")
    if not home.is_absolute():
        raise NotFoundError(
            f"HOME is {os.environ.get('HOME')!r} and the system knows no home folder of user "
            f"{os.getuid()}: there is no place for the cache; set SLIPSTREAM_CACHE to a folder."
        )
    return home


def sdk_dir() -> Path:
    """The folder with `include/`, `lib/` and the CMake package, for use as `CMAKE_PREFIX_PATH`.

    Raises:
        NotFoundError: this installation has none, e.g. it runs from the source folder.
    """
    # An editable install spreads the package over several folders.
    for root in slipstream.__path__:
        sdk = Path(root) / "sdk"
        if (sdk / "include" / "slipstream").is_dir():
            return sdk
    raise NotFoundError(
        "The C++ library and headers are not beside the Python package; install the wheel with "
        "`pip install .` instead of running from the source folder."
    )
