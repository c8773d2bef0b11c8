"""Where Slipstream keeps files: its cache, and the C++ development files of the wheel."""

from __future__ import annotations

import os
from pathlib import Path

import slipstream
from slipstream.errors import NotFoundError

__all__ = ["cache_dir", "sdk_dir"]


def cache_dir() -> Path:
    """`$SLIPSTREAM_CACHE`, else `$XDG_CACHE_HOME/slipstream`, else `~/.cache/slipstream`.

    It need not exist yet; whoever writes creates it. Everything in it can be made again.
    """
    own = os.environ.get("SLIPSTREAM_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    # The XDG rule: a relative path is invalid and ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or "")
    base = xdg if xdg.is_absolute() else Path.home() / ".cache"
    return base / "slipstream"


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
