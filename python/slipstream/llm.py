"""`LLM`: load a model and generate, one call for many prompts."""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from slipstream.chat_template import Message
from slipstream.errors import InvalidArgumentError, SlipstreamError
from slipstream.executor_options import ExecutorOptions
from slipstream.outputs import RequestOutput
from slipstream.prompts import Prompt, Prompts, split
from slipstream.sampling import SamplingParams
from slipstream.scheduling import Scheduling
from slipstream.session import PreparedPrompt, Session

if TYPE_CHECKING:
    from slipstream import _native

__all__ = ["LLM"]

_T = TypeVar("_T")

# All prompts of one call are queued at once: the caller already holds them in memory.
_NO_QUEUE_LIMIT = 2**31 - 1


class LLM:
    """A model that is ready to generate. Thread-safe; calls from many threads share the batch.

        llm = LLM("smollm2.engine")
        for output in llm.generate(["The capital of France is"], SamplingParams(max_tokens=8)):
            print(output.outputs[0].text)

    Args:
        path: an .engine file, or a checkpoint folder, which is built once into the cache.
        threads: worker threads of a step; None takes the physical cores of this process.
        kv_memory: size of the KV pool in bytes, or text such as "512M"; None takes a quarter of
            the free memory, at most what the engine's limits can use.
        cpu_path: "auto", "scalar", "emulated16", "avx2" or "avx512". All give the same bits.
        max_batch_size: sequences of one step; None takes the engine's limit.
        max_num_tokens: token budget of one step; None takes the engine's limit.
        prefix_cache: keep the keys and values of finished requests and of common prefixes for
            later requests.
        host_kv_memory: size of a second KV pool in a temporary file, in bytes or text such as
            "2GiB": what must leave the first moves there and comes back when it is needed. None:
            there is none. Needs prefix_cache.
        host_kv_dir: the folder of that file; None: $TMPDIR, or else /tmp. On a tmpfs it takes
            memory rather than disk.
        capacity: "guaranteed-no-evict" starts a request when its longest possible life fits;
            "max-utilization" when its prompt fits, and preempts where blocks run out.
        chunking: "first-come" fills one prompt before the next; "equal-progress" advances all.
        ageing: a waiting request rises by one priority each time it has waited so many seconds;
            None: never.
        kv_events: events of cached keys and values that wait for `take_kv_events`; beyond them the
            oldest are dropped. At most 2**20; 0 makes none.
        iteration_history: steps that `iterations` remembers; at most 2**20.

    Raises:
        SlipstreamError: the subclass says why: NotFoundError, CorruptFileError,
            IncompatibleError, InvalidArgumentError, LimitExceededError, ResourceExhaustedError.
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
    ) -> None:
        self._session = Session(
            path,
            threads=threads,
            cpu_path=cpu_path,
            options=ExecutorOptions(
                kv_memory=kv_memory,
                max_batch_size=max_batch_size,
                max_num_tokens=max_num_tokens,
                max_queued_requests=_NO_QUEUE_LIMIT,
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
        self._request_numbers = itertools.count()

    @property
    def engine(self) -> _native.Engine:
        """The engine file: limits, manifest, end ids."""
        return self._session.engine

    @property
    def tokenizer(self) -> _native.Tokenizer:
        """The engine's own tokenizer."""
        return self._session.tokenizer

    @property
    def has_chat_template(self) -> bool:
        return bool(self._session.engine.chat_template)

    def default_sampling_params(self) -> SamplingParams:
        """The model's own defaults from generation_config.json; greedy if it has none."""
        return self._session.default_sampling_params()

    def stats(self) -> _native.ExecutorStats:
        """A snapshot of the executor's counters."""
        return self._session.executor.stats()

    def iterations(self, after_step: int = 0) -> list[_native.Iteration]:
        """The latest `iteration_history` steps, oldest first: their requests and times."""
        return self._session.executor.iterations(after_step)

    def pause(self) -> None:
        """No step begins until `resume`; requests keep their place and their cached tokens."""
        self._session.executor.pause()

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._session.executor.resume()

    def generate(
        self,
        prompts: Prompts,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        scheduling: Scheduling | Sequence[Scheduling] | None = None,
    ) -> list[RequestOutput]:
        """Continues each prompt; the outputs come in the order of the prompts.

        Every prompt is checked before any output is waited for. A bad one raises and names its
        index; nothing of the call is left running then, nor after Ctrl-C.

        Args:
            prompts: a text, a list of texts, a list of token ids, a list of such lists, or dicts
                {"prompt": text} and {"prompt_token_ids": ids}, also mixed.
            sampling_params: one for all prompts, or a list with one for each; None takes
                `default_sampling_params()`.
            scheduling: priority, targets and cache use; one for all prompts, or one for each.
        """
        items, single = split(prompts)
        prepared = []
        for index, prompt in enumerate(items):
            with _naming("prompts", index, single):
                prepared.append(self._session.prepare(prompt))
        return self._generate(prepared, sampling_params, scheduling, "prompts", single)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        scheduling: Scheduling | Sequence[Scheduling] | None = None,
    ) -> list[RequestOutput]:
        """Answers a conversation, or each of a list of conversations.

        Args:
            messages: dicts with "role" and "content".
            chat_template: a Jinja template instead of the model's own.
            tools: JSON schemas of functions, for templates that know tools.
            chat_template_kwargs: further variables of the template.
            scheduling: priority, targets and cache use; one for all, or one for each.
        """
        several = isinstance(messages, Sequence) and not isinstance(messages, (str, bytes))
        single = not several or not messages or isinstance(messages[0], Mapping)
        conversations = [messages] if single else messages
        prepared = []
        for index, conversation in enumerate(conversations):
            with _naming("messages", index, single):
                prepared.append(
                    self._session.prepare_chat(
                        conversation,  # type: ignore[arg-type]
                        add_generation_prompt=add_generation_prompt,
                        chat_template=chat_template,
                        tools=tools,
                        chat_template_kwargs=chat_template_kwargs,
                    )
                )
        return self._generate(prepared, sampling_params, scheduling, "messages", single)

    def stream(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        *,
        scheduling: Scheduling | None = None,
    ) -> Iterator[RequestOutput]:
        """Continues one prompt and yields its state at each step: the whole text so far.

        Bad input raises here, before the first item. Closing or dropping the iterator cancels
        the request.
        """
        return self._stream(self._session.prepare(prompt).place(scheduling), sampling_params)

    def stream_chat(
        self,
        messages: Sequence[Message],
        sampling_params: SamplingParams | None = None,
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        scheduling: Scheduling | None = None,
    ) -> Iterator[RequestOutput]:
        """`stream` for a conversation."""
        prompt = self._session.prepare_chat(
            messages,
            add_generation_prompt=add_generation_prompt,
            chat_template=chat_template,
            tools=tools,
            chat_template_kwargs=chat_template_kwargs,
        )
        return self._stream(prompt.place(scheduling), sampling_params)

    def export_kv(self, prompt: Prompt, *, cache_salt: str = "") -> bytes:
        """The cached keys and values of the longest prefix of `prompt` that is cached.

        For a file, or for another process with the same engine file. A text is tokenized as by
        `generate`. NotFoundError when nothing of it is cached. Waits for the end of a step.
        """
        return self._session.export_kv(prompt, cache_salt)

    def import_kv(self, image: bytes, *, cache_salt: str = "") -> int:
        """Puts what `export_kv` gave into the cache; the number of its tokens.

        CorruptFileError when it is damaged, IncompatibleError when it is of another engine file,
        ResourceExhaustedError when it does not fit beside what runs.
        """
        return self._session.import_kv(image, cache_salt)

    def drop_cache(self, salt_prefix: str = "") -> None:
        """Forgets what is cached under the salts that begin with `salt_prefix`; "": everything."""
        self._session.drop_cache(salt_prefix)

    def take_kv_events(self) -> tuple[list[_native.KvEvent], int]:
        """What happened to cached blocks since the last call, oldest first, and how many events
        were dropped since the start. Needs `kv_events`."""
        return self._session.executor.take_kv_events()

    def close(self) -> None:
        """Cancels what runs and stops the executor. Idempotent; leaving a `with` block does it."""
        self._session.executor.shutdown()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _generate(
        self,
        prompts: list[PreparedPrompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
        scheduling: Scheduling | Sequence[Scheduling] | None,
        name: str,
        single: bool,
    ) -> list[RequestOutput]:
        params = self._params_for(sampling_params, len(prompts))
        _place(prompts, scheduling)
        submitted: list[int] = []
        try:
            for index, (prompt, each) in enumerate(zip(prompts, params, strict=True)):
                with _naming(name, index, single):
                    self._session.submit(prompt, each, submitted=submitted)
            responses = self._session.executor.collect(submitted)
        except BaseException:
            self._session.discard(submitted)
            raise
        outputs = []
        for index, (prompt, each, response) in enumerate(
            zip(prompts, params, responses, strict=True)
        ):
            with _naming(name, index, single):
                request_id = str(next(self._request_numbers))
                outputs.append(self._session.accumulate(request_id, prompt, each).add(*response))
        return outputs

    def _stream(
        self, prompt: PreparedPrompt, sampling_params: SamplingParams | None
    ) -> Iterator[RequestOutput]:
        params = self._params_for(sampling_params, 1)[0]
        submitted: list[int] = []
        try:
            request = self._session.submit(prompt, params, submitted=submitted)
            answer = self._follow(request, prompt, params)
            # A generator that was never started runs no `finally` when it is dropped.
            weakref.finalize(answer, self._session.discard, [request]).atexit = False
        except BaseException:  # Ctrl-C in between
            self._session.discard(submitted)
            raise
        return answer

    def _follow(
        self, request: int, prompt: PreparedPrompt, params: SamplingParams
    ) -> Iterator[RequestOutput]:
        total = self._session.accumulate(str(next(self._request_numbers)), prompt, params)
        finished = False
        try:
            while not finished:
                response = self._session.executor.next(request)
                finished = response.last
                yield total.add(response)
        finally:
            if not finished:
                self._session.discard([request])

    def _params_for(
        self, sampling_params: SamplingParams | Sequence[SamplingParams] | None, count: int
    ) -> list[SamplingParams]:
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            return [self._session.params_or_default(sampling_params)] * count
        return [
            self._session.params_or_default(each, f"sampling_params[{index}]")
            for index, each in enumerate(
                _one_for_each("sampling_params", "SamplingParams", sampling_params, count)
            )
        ]


def _place(
    prompts: list[PreparedPrompt], scheduling: Scheduling | Sequence[Scheduling] | None
) -> None:
    if scheduling is None or isinstance(scheduling, Scheduling):
        for prompt in prompts:
            prompt.place(scheduling)
        return
    each = _one_for_each("scheduling", "Scheduling", scheduling, len(prompts))
    for index, (prompt, one) in enumerate(zip(prompts, each, strict=True)):
        prompt.place(one, f"scheduling[{index}]")


def _one_for_each(name: str, kind: str, values: Sequence[_T], count: int) -> list[_T]:
    """The list, if it is one and has as many entries as there are prompts."""
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise InvalidArgumentError(
            f"{name} is a {type(values).__name__}; give a {kind}, or a list with one for each "
            "prompt."
        )
    if len(values) != count:
        raise InvalidArgumentError(
            f"{name} has {len(values)} entries for {count} prompts; give one for all, or one for "
            "each."
        )
    return list(values)


@contextlib.contextmanager
def _naming(name: str, index: int, single: bool) -> Iterator[None]:
    """Puts the place in a list before the message of an error."""
    try:
        yield
    except SlipstreamError as error:
        if single:
            raise
        raise type(error)(f"{name}[{index}]: {error}") from error.__cause__
