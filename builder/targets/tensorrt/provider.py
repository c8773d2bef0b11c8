"""The TensorRT bindings that are installed, behind one small interface."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from slipstream.errors import IncompatibleError, InvalidArgumentError

# What TensorRT for RTX 1.7 builds for without a GPU; SM90 and the other datacentre parts need
# classic TensorRT.
RTX_SMS = (75, 80, 86, 89, 120, 121)
# BF16 needs compute capability 8.0.
BF16_SMS = tuple(sm for sm in RTX_SMS if sm >= 80)
RTX_NAME = "tensorrt-rtx"
INSTALL_HINT = "pip install 'slipstream[tensorrt-rtx]'"


@dataclass(frozen=True)
class Provider:
    """`trt` is the bindings module; `name` is the target's name in the engine file."""

    name: str
    trt: Any

    @property
    def version(self) -> str:
        return str(self.trt.__version__)


def check_sms(sms: tuple[int, ...]) -> None:
    """Refuse what cannot be built before any work. Raises InvalidArgumentError."""
    if not sms:
        raise InvalidArgumentError(
            "--target tensorrt-rtx needs --sm, the compute capability of the GPU, e.g. --sm 89"
        )
    for sm in sms:
        if sm not in BF16_SMS:
            known = ", ".join(str(s) for s in BF16_SMS)
            reason = (
                "has no BF16 arithmetic"
                if sm in RTX_SMS
                else "is not built by TensorRT for RTX (datacentre GPUs need classic TensorRT)"
            )
            raise InvalidArgumentError(f"--sm {sm} {reason}; choose from {known}")


def load_rtx() -> Provider:
    """The TensorRT for RTX bindings. Raises IncompatibleError with an install hint."""
    try:
        trt = importlib.import_module("tensorrt_rtx_bindings")
    except ImportError as error:
        raise IncompatibleError(
            f"--target tensorrt-rtx needs the TensorRT for RTX bindings, which cannot be imported "
            f"({error}); install them with {INSTALL_HINT}"
        ) from error
    return Provider(RTX_NAME, trt)
