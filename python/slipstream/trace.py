"""Steps of an executor as a Chrome trace: open it in chrome://tracing or ui.perfetto.dev."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from slipstream import _native

__all__ = ["chrome_trace", "write_trace"]

_STEPS = {"pid": 1, "tid": 0}
_REQUESTS = 2


def chrome_trace(iterations: Iterable[_native.Iteration]) -> dict[str, Any]:
    """The trace as an object for JSON; `LLM.iterations()` gives the steps.

    One row of the trace holds the steps of the executor, each cut into schedule, model and sample;
    below it each request has a row: queued, prefill (one span a chunk, with the number of tokens)
    and decode. A request that was preempted is queued again. Times are microseconds from the
    creation of the executor.
    """
    events: list[dict[str, Any]] = [
        _name("process_name", {"pid": 1}, "executor"),
        _name("process_name", {"pid": _REQUESTS}, "requests"),
        _name("thread_name", _STEPS, "steps"),
    ]
    seen: set[int] = set()
    for step in iterations:
        length = step.schedule_us + step.model_us + step.sample_us
        shape = {
            "prefill_rows": step.prefill_rows,
            "decode_rows": step.decode_rows,
            "waiting": step.waiting,
            "preempted": step.preempted,
            "kv_blocks_free": step.kv_blocks_free,
            "kv_blocks_cached": step.kv_blocks_cached,
        }
        events.append(_span(f"step {step.step}", step.start_us, length, _STEPS, shape))
        start = step.start_us
        for part in ("schedule", "model", "sample"):
            duration = getattr(step, f"{part}_us")
            events.append(_span(part, start, duration, _STEPS))
            start += duration
        for entry in step.entries:
            row = {"pid": _REQUESTS, "tid": entry.id}
            if entry.id not in seen:
                seen.add(entry.id)
                events.append(_name("thread_name", row, f"request {entry.id}"))
            if entry.queued_us > 0:
                begin = step.start_us - entry.queued_us
                events.append(_span("queued", begin, entry.queued_us, row))
            kind = "prefill" if entry.prefill else "decode"
            facts = {"step": step.step, "position": entry.first_position, "tokens": entry.rows}
            events.append(_span(kind, step.start_us, length, row, facts))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_trace(iterations: Iterable[_native.Iteration], file: TextIO) -> None:
    """Writes `chrome_trace` to an open file. Raises OSError."""
    json.dump(chrome_trace(iterations), file)


def _span(
    name: str, start: int, duration: int, row: dict[str, int], facts: dict[str, Any] | None = None
) -> dict[str, Any]:
    event = {"ph": "X", "name": name, "ts": start, "dur": duration, **row}
    return event if facts is None else {**event, "args": facts}


def _name(kind: str, row: dict[str, int], name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, **row, "args": {"name": name}}
