"""Slipstream: compile a checkpoint into one `.engine` file, serve it from a C++ runtime.

    from slipstream import LLM, SamplingParams

    llm = LLM("smollm2.engine")
    for output in llm.generate(["The capital of France is"], SamplingParams(max_tokens=8)):
        print(output.outputs[0].text)

Importing this package imports neither numpy nor the native module: names load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slipstream.version import __version__

if TYPE_CHECKING:
    from slipstream._paths import cache_dir, sdk_dir
    from slipstream.async_llm import AsyncLLM
    from slipstream.errors import SlipstreamError
    from slipstream.llm import LLM
    from slipstream.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
    from slipstream.sampling import SamplingParams
    from slipstream.scheduling import KvRetention, Scheduling

__all__ = [
    "LLM",
    "AsyncLLM",
    "CompletionOutput",
    "KvRetention",
    "Logprob",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "Scheduling",
    "SlipstreamError",
    "__version__",
    "cache_dir",
    "sdk_dir",
]

_HOME = {
    "LLM": "llm",
    "AsyncLLM": "async_llm",
    "CompletionOutput": "outputs",
    "KvRetention": "scheduling",
    "Logprob": "outputs",
    "RequestMetrics": "outputs",
    "RequestOutput": "outputs",
    "SamplingParams": "sampling",
    "Scheduling": "scheduling",
    "SlipstreamError": "errors",
    "cache_dir": "_paths",
    "sdk_dir": "_paths",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    value = getattr(import_module(f"slipstream.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
