"""The exceptions of Slipstream. Everything it raises on purpose is a `SlipstreamError`.

`code` is the stable name of the C++ `StatusCode`; `exit_code` is what the command line returns:
2 when the input or the arguments were wrong, 1 when the work itself failed.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "CancelledError",
    "CorruptFileError",
    "IncompatibleError",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "LimitExceededError",
    "NotFoundError",
    "ResourceExhaustedError",
    "SlipstreamError",
    "UnavailableError",
    "error_class",
]


class SlipstreamError(Exception):
    """Base of all errors. The message says what, where, the limit, the value and the fix."""

    code: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 1

    @property
    def message(self) -> str:
        return str(self)


class InvalidArgumentError(SlipstreamError, ValueError):
    """A value is wrong in itself, e.g. a NaN temperature or an id out of the vocabulary."""

    code = "INVALID_ARGUMENT"
    exit_code = 2


class LimitExceededError(SlipstreamError, ValueError):
    """A value is valid, but beyond a limit of this engine or executor."""

    code = "LIMIT_EXCEEDED"
    exit_code = 2


class NotFoundError(SlipstreamError):
    """A file, request or tensor does not exist."""

    code = "NOT_FOUND"
    exit_code = 2


class CorruptFileError(SlipstreamError):
    """A file is damaged: cut, padded, or a hash does not match."""

    code = "CORRUPT_FILE"
    exit_code = 2


class IncompatibleError(SlipstreamError):
    """The file is sound, but this version or machine cannot use it."""

    code = "INCOMPATIBLE"
    exit_code = 2


class IoError(SlipstreamError):
    """The operating system refused; the message holds its text."""

    code = "IO"
    exit_code = 1


class ResourceExhaustedError(SlipstreamError):
    """Out of memory, of KV blocks, of queue places, or of threads."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 1


class CancelledError(SlipstreamError):
    """The caller cancelled the request or shut the executor down."""

    code = "CANCELLED"
    exit_code = 1


class UnavailableError(SlipstreamError):
    """The executor is draining or stopped."""

    code = "UNAVAILABLE"
    exit_code = 1


class InternalError(SlipstreamError):
    """A defect of Slipstream; please report it."""

    code = "INTERNAL"
    exit_code = 1


# Index = value of the C++ StatusCode, which is stable; 0 is kOk and never raised.
_BY_STATUS_CODE: tuple[type[SlipstreamError], ...] = (
    InternalError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    CorruptFileError,
    IncompatibleError,
    IoError,
    ResourceExhaustedError,
    CancelledError,
    UnavailableError,
    InternalError,
)


def error_class(status_code: int) -> type[SlipstreamError]:
    """The exception class of a C++ `StatusCode` value; the native module raises through it."""
    if 0 <= status_code < len(_BY_STATUS_CODE):
        return _BY_STATUS_CODE[status_code]
    return InternalError
