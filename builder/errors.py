"""Errors of the builder. Every message says what, where, the limit, the value and the fix."""

from __future__ import annotations


class BuildError(Exception):
    """A build cannot go on. `exit_code` is what `build-engine` returns for it."""

    exit_code = 1


class InputError(BuildError):
    """The checkpoint, the configuration or the arguments are wrong: exit code 2."""

    exit_code = 2


class UnsupportedError(InputError):
    """The input is well formed but asks for something that this version does not compute."""


class InternalError(BuildError):
    """A rule of the compiler itself is broken: a bug here, never the user's fault."""
