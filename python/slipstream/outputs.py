"""What a request gives back, in the shapes of vLLM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CompletionOutput", "Logprob", "RequestMetrics", "RequestOutput"]


@dataclass(slots=True)
class Logprob:
    """The log-probability (natural log) of one token under the raw logits.

    `rank` is its place among all tokens, 1 for the likeliest; equal ones by the lower id.
    """

    logprob: float
    rank: int
    decoded_token: str | None = None


@dataclass(slots=True)
class CompletionOutput:
    """One continuation of a prompt.

    Attributes:
        index: number of the continuation inside its request.
        text: the generated text, without the prompt and without the stop string.
        token_ids: the generated ids, the end id included.
        cumulative_logprob: sum of the log-probabilities, or None if neither logprobs nor a best_of
            above n asked for them.
        logprobs: per token {token id: Logprob}, the sampled token first and then the likeliest
            ones by rank, or None if they were not asked for.
        finish_reason: "stop", "length", "cancelled", "time_limit", or None while more will come.
        stop_reason: the stop string or stop token id that ended it; None for the model's own end.
        seed: the seed of this continuation, given, fresh or derived: a request alone with it gets
            the same.
        logits: per token its raw float32 [vocab_size], or None if they were not asked for.
    """

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    seed: int | None = None
    logits: list[NDArray[np.float32]] | None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass(slots=True)
class RequestMetrics:
    """Times of one request in seconds, from its submission on.

    `queued_s` until it first started; `first_token_s` until its first token (TTFT), None before;
    `total_s` until this output. `preemptions`: times that it went back to the queue.
    """

    queued_s: float
    first_token_s: float | None
    total_s: float
    preemptions: int


@dataclass(slots=True)
class RequestOutput:
    """The state of a request: its prompt and what was generated so far.

    `outputs` holds SamplingParams.n continuations in the order of their index; `finished` when all
    of them are.
    `prompt` is None for a prompt of token ids. `num_cached_tokens` counts the prompt tokens whose
    KV was reused instead of computed. `prompt_logprobs` holds None for the first prompt token and
    {token id: Logprob} for each later one, the token itself first; it comes with the first
    generated token, and is None if it was not asked for.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = False
    num_cached_tokens: int = 0
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    metrics: RequestMetrics | None = None
