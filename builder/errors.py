"""Errors of the builder. Every message says what, where, the limit, the value and the fix."""

from __future__ import annotations

from typing import ClassVar

from slipstream import errors


class BuildError(errors.SlipstreamError):
    """A build cannot go on. `exit_code` is what `build-engine` returns for it."""

    code: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 1


class InputError(BuildError, errors.InvalidArgumentError):
    """The checkpoint, the configuration or the arguments are wrong."""

    code: ClassVar[str] = "INVALID_ARGUMENT"
    exit_code: ClassVar[int] = 2


class UnsupportedError(InputError):
    """The input is well formed but asks for something that this version does not compute."""


class InternalError(BuildError, errors.InternalError):
    """A rule of the compiler itself is broken: a defect here, never the user's fault."""
