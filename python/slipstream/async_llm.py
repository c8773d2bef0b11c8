"""`AsyncLLM`: the same model for asyncio programs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slipstream._shown import shown
from slipstream.chat_template import Message
from slipstream.errors import InvalidArgumentError
from slipstream.executor_options import ExecutorOptions
from slipstream.outputs import RequestOutput
from slipstream.prompts import Prompt
from slipstream.sampling import SamplingParams
from slipstream.scheduling import Scheduling
from slipstream.session import PreparedPrompt, Session

if TYPE_CHECKING:
    from slipstream import _native

__all__ = ["AsyncLLM"]

# Tokenizing a longer prompt on the event loop would delay the other requests of a server.
_ENCODE_INLINE_CHARS = 4096


class AsyncLLM:
    """A model for asyncio: any number of `generate` calls run in one batch.

        llm = AsyncLLM("smollm2.engine")
        async for output in llm.generate("Hello", SamplingParams(max_tokens=8), "request-1"):
            print(output.outputs[0].text)   # the text so far

    Arguments and errors are those of `LLM`, and `max_queued_requests`: a request is refused with
    ResourceExhaustedError while so many wait. Loading blocks; `generate` may be used from any
    event loop, also from several.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        kv_memory: int | str | None = None,
        cpu_path: str = "auto",
        max_batch_size: int | None = None,
        max_num_tokens: int | None = None,
        prefix_cache: bool = True,
        host_kv_memory: int | str | None = None,
        host_kv_dir: str | os.PathLike[str] | None = None,
        capacity: str = "guaranteed-no-evict",
        chunking: str = "first-come",
        ageing: float | None = 10.0,
        kv_events: int = 0,
        iteration_history: int = 1024,
        max_queued_requests: int = 4096,
    ) -> None:
        self._session = Session(
            path,
            threads=threads,
            cpu_path=cpu_path,
            options=ExecutorOptions(
                kv_memory=kv_memory,
                max_batch_size=max_batch_size,
                max_num_tokens=max_num_tokens,
                max_queued_requests=max_queued_requests,
                prefix_cache=prefix_cache,
                host_kv_memory=host_kv_memory,
                host_kv_dir=host_kv_dir,
                capacity=capacity,
                chunking=chunking,
                ageing=ageing,
                kv_events=kv_events,
                iteration_history=iteration_history,
            ),
        )
        self._running: dict[str, int] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def engine(self) -> _native.Engine:
        """The engine file: limits, manifest, end ids."""
        return self._session.engine

    @property
    def tokenizer(self) -> _native.Tokenizer:
        """The engine's own tokenizer."""
        return self._session.tokenizer

    def default_sampling_params(self) -> SamplingParams:
        """The model's own defaults from generation_config.json; greedy if it has none."""
        return self._session.default_sampling_params()

    def stats(self) -> _native.ExecutorStats:
        """A snapshot of the executor's counters."""
        return self._session.executor.stats()

    def iterations(self, after_step: int = 0) -> list[_native.Iteration]:
        """The latest `iteration_history` steps, oldest first: their requests and times."""
        return self._session.executor.iterations(after_step)

    async def pause(self) -> None:
        """As `LLM.pause`: returns when the step in flight has ended, which may take its time."""
        await asyncio.to_thread(self._session.executor.pause)

    def resume(self) -> None:
        """Goes on after `pause`. Returns at once."""
        self._session.executor.resume()

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        scheduling: Scheduling | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Continues one prompt and yields its state whenever there is news: the text so far.

        Closing the generator, or cancelling the task that reads it, cancels the request.

        Raises:
            SlipstreamError: at the first item for bad input, later if the request fails.
        """
        if isinstance(prompt, str) and len(prompt) > _ENCODE_INLINE_CHARS:
            prepared = await asyncio.to_thread(self._session.prepare, prompt)
        else:
            prepared = self._session.prepare(prompt)
        prepared.place(scheduling)
        async with contextlib.aclosing(self._run(prepared, sampling_params, request_id)) as run:
            async for output in run:
                yield output

    async def chat(
        self,
        messages: Sequence[Message],
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        scheduling: Scheduling | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """`generate` for a conversation, with the model's chat template."""
        prepared = await asyncio.to_thread(
            self._session.prepare_chat,
            messages,
            add_generation_prompt=add_generation_prompt,
            chat_template=chat_template,
            tools=tools,
            chat_template_kwargs=chat_template_kwargs,
        )
        prepared.place(scheduling)
        async with contextlib.aclosing(self._run(prepared, sampling_params, request_id)) as run:
            async for output in run:
                yield output

    def abort(self, request_id: str) -> None:
        """Ends a request; its generator ends with the tokens so far and "cancelled"."""
        _check_request_id(request_id)
        request = self._running.get(request_id)
        if request is not None:
            self._session.cancel(request)

    async def export_kv(self, prompt: Prompt, *, cache_salt: str = "") -> bytes:
        """As `LLM.export_kv`."""
        return await asyncio.to_thread(self._session.export_kv, prompt, cache_salt)

    async def import_kv(self, image: bytes, *, cache_salt: str = "") -> int:
        """As `LLM.import_kv`."""
        return await asyncio.to_thread(self._session.import_kv, image, cache_salt)

    async def drop_cache(self, salt_prefix: str = "") -> None:
        """As `LLM.drop_cache`."""
        await asyncio.to_thread(self._session.drop_cache, salt_prefix)

    async def take_kv_events(self) -> tuple[list[_native.KvEvent], int]:
        """As `LLM.take_kv_events`."""
        return await asyncio.to_thread(self._session.executor.take_kv_events)

    async def drain(self, timeout: float | None = None) -> bool:
        """Refuses new requests and waits until all others are finished, at most `timeout` seconds.

        False when the timeout came first: call it again, or `shutdown`.
        """
        return await asyncio.to_thread(self._session.executor.drain, timeout)

    def shutdown(self) -> None:
        """Cancels what runs and stops the executor; blocks until its loop has ended. Idempotent."""
        self._session.executor.shutdown()

    async def _run(
        self,
        prompt: PreparedPrompt,
        sampling_params: SamplingParams | None,
        request_id: str | None,
    ) -> AsyncGenerator[RequestOutput, None]:
        params = self._session.params_or_default(sampling_params)
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[_native.Response] = asyncio.Queue()

        def on_response(response: _native.Response) -> None:
            # On the executor's thread. RuntimeError: the loop is closed, so that nobody is left
            # who could read the answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(news.put_nowait, response)

        if request_id is None:
            request_id = f"request-{next(self._numbers)}"
        else:
            _check_request_id(request_id)
        submitted: list[int] = []
        finished = False
        try:
            self._start(prompt, params, request_id, on_response, submitted)
            total = self._session.accumulate(request_id, prompt, params)
            while not finished:
                responses = [await news.get()]
                while not news.empty():
                    responses.append(news.get_nowait())
                finished = responses[-1].last
                yield total.add(*responses)
        finally:
            # By number: under the same name another request may run, which refused this one.
            for request in submitted:
                with self._lock:
                    if self._running.get(request_id) == request:
                        del self._running[request_id]
                if not finished:
                    self._session.cancel(request)

    def _start(
        self,
        prompt: PreparedPrompt,
        params: SamplingParams,
        request_id: str,
        on_response: Callable[[_native.Response], None],
        submitted: list[int],
    ) -> None:
        """Submits under a name that no other running request has.

        The request's number is appended to `submitted`, which holds it even where Ctrl-C comes
        between the submission and the return.
        """
        with self._lock:
            if request_id in self._running:
                raise InvalidArgumentError(
                    f"request_id {shown(request_id)} is already running; give each request its own "
                    "id."
                )
            self._running[request_id] = self._session.submit(prompt, params, on_response, submitted)


def _check_request_id(request_id: object) -> None:
    if not isinstance(request_id, str):
        raise InvalidArgumentError(f"request_id is {shown(request_id)}; it must be a str.")
