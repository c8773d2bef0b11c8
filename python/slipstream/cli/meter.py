"""How fast an answer came."""

from __future__ import annotations

import time

from slipstream.outputs import RequestOutput


class Meter:
    """Times one streamed answer. Start it right before the request."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first = 0.0
        self._last = 0.0
        self._first_tokens = 0
        self._tokens = 0
        self._prompt = 0

    def see(self, output: RequestOutput) -> None:
        """Notes the state of the answer at this moment."""
        self._prompt = len(output.prompt_token_ids)
        tokens = sum(len(completion.token_ids) for completion in output.outputs)
        if tokens == self._tokens:
            return
        self._last = time.perf_counter()
        if self._tokens == 0:
            self._first = self._last
            self._first_tokens = tokens
        self._tokens = tokens

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the request to its first token."""
        return self._first - self._start if self._tokens else None

    @property
    def tokens_per_s(self) -> float | None:
        """Rate after the first news; over the whole answer if it came at once."""
        if not self._tokens:
            return None
        decoded = self._tokens - self._first_tokens
        if decoded:
            return decoded / (self._last - self._first)
        return self._tokens / (self._last - self._start)

    def summary(self) -> str:
        parts = [f"{self._prompt} prompt tokens"]
        if self.first_token_s is not None:
            parts.append(f"first token after {self.first_token_s:.2f} s")
        parts.append(f"{self._tokens} tokens")
        if self.tokens_per_s is not None:
            parts.append(f"{self.tokens_per_s:.1f} tokens/s")
        return ", ".join(parts)
