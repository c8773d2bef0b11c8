"""An engine that is loaded and ready to serve: what `LLM` and `AsyncLLM` have in common."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slipstream import _native
from slipstream._shown import excerpt, shown
from slipstream.chat_template import ChatTemplate, Message
from slipstream.engine_path import resolve_engine
from slipstream.errors import InvalidArgumentError, NotFoundError, SlipstreamError
from slipstream.executor_options import ExecutorOptions, count
from slipstream.generation_config import read_generation_config
from slipstream.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from slipstream.prompts import Prompt, normalize
from slipstream.sampling import LogitsProcessor, SamplingParams
from slipstream.scheduling import Scheduling, check_salt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PreparedPrompt", "Session"]

_runtimes: weakref.WeakValueDictionary[tuple[int, str], _native.Runtime] = (
    weakref.WeakValueDictionary()
)
_runtimes_lock = threading.Lock()


def _shared_runtime(threads: int, cpu_path: str) -> _native.Runtime:
    """One thread pool for all models of a process that ask for the same one."""
    with _runtimes_lock:
        runtime = _runtimes.get((threads, cpu_path))
        if runtime is None:
            runtime = _native.Runtime(threads=threads, cpu_path=cpu_path)
            _runtimes[threads, cpu_path] = runtime
        return runtime


class PreparedPrompt:
    """A tokenized prompt of one request, its place, and what the request's own code raised."""

    __slots__ = ("failure", "scheduling", "text", "token_ids")

    def __init__(self, text: str | None, token_ids: list[int]) -> None:
        self.text = text
        self.token_ids = token_ids
        self.scheduling = Scheduling()
        self.failure: Exception | None = None

    def place(self, scheduling: Scheduling | None, name: str = "scheduling") -> PreparedPrompt:
        """Itself, to be served as `scheduling` says; None changes nothing."""
        if scheduling is not None:
            if not isinstance(scheduling, Scheduling):
                raise InvalidArgumentError(
                    f"{name} is {shown(scheduling)}; it must be a Scheduling, or None."
                )
            self.scheduling = scheduling
        return self

    def watch(self, processor: LogitsProcessor) -> LogitsProcessor:
        """The processor, with what it raises kept: the native module carries the text alone."""

        def run(token_ids: list[int], logits: Any) -> Any:
            try:
                return processor(token_ids, logits)
            except Exception as error:
                self.failure = error
                raise

        return run


class Session:
    """Engine, model and executor of one path. Thread-safe."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None,
        cpu_path: str,
        options: ExecutorOptions,
    ) -> None:
        # The cheap checks come first: a wrong cpu_path must not cost a build.
        threads = count("threads", threads, 1024)
        _check_cpu_path(cpu_path)
        config = options.to_native()
        self.runtime = _shared_runtime(threads, cpu_path)
        self.engine = _native.Engine.load(os.fsencode(resolve_engine(path)))
        self.model = _native.Model(self.runtime, self.engine)
        self.executor = _native.Executor(self.model, config)
        self.tokenizer = self.engine.tokenizer
        self._eos_token_ids = frozenset(self.engine.eos_token_ids)
        self._lock = threading.Lock()
        self._chat_template: ChatTemplate | None = None

    def default_sampling_params(self) -> SamplingParams:
        """What the model's generation_config.json asks for; greedy if it asks for nothing."""
        try:
            return SamplingParams.from_generation_config(read_generation_config(self.engine))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"The generation_config.json of {self.engine.path} is wrong: {error} Pass "
                "sampling_params, or correct the checkpoint's file and build the engine again."
            ) from None

    def params_or_default(
        self, sampling_params: SamplingParams | None, name: str = "sampling_params"
    ) -> SamplingParams:
        """`sampling_params`, or the model's defaults for None."""
        if sampling_params is None:
            return self.default_sampling_params()
        if not isinstance(sampling_params, SamplingParams):
            raise InvalidArgumentError(
                f"{name} is a {type(sampling_params).__name__}; it must be a SamplingParams."
            )
        return sampling_params

    def prepare(self, prompt: Prompt) -> PreparedPrompt:
        """Checks and tokenizes one prompt."""
        form = normalize(prompt)
        if form.token_ids is not None:
            return PreparedPrompt(None, form.token_ids)
        assert form.text is not None
        return PreparedPrompt(form.text, self.tokenizer.encode(form.text))

    def prepare_chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> PreparedPrompt:
        """Renders a conversation; the template writes its special tokens itself."""
        template = self._template(chat_template)
        if not isinstance(add_generation_prompt, bool):
            raise InvalidArgumentError(
                f"add_generation_prompt is {shown(add_generation_prompt)}; it must be True or "
                "False."
            )
        text = template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            **_variables(chat_template_kwargs),
        )
        return PreparedPrompt(text, self.tokenizer.encode(text, add_special_tokens=False))

    def _template(self, source: str | None) -> ChatTemplate:
        if source is not None:
            return ChatTemplate(source, self._special_tokens())
        if not self.engine.chat_template:
            raise InvalidArgumentError(
                f"The model {excerpt(self.engine.model_name)} has no chat template; use generate() "
                "with a plain prompt, or pass chat_template."
            )
        with self._lock:
            template = self._chat_template
        if template is None:
            template = ChatTemplate(self.engine.chat_template, self._special_tokens())
            with self._lock:
                self._chat_template = template
        return template

    def _special_tokens(self) -> dict[str, str]:
        """bos_token, eos_token, ... as tokenizer_config.json spells them."""
        try:
            config = json.loads(self.engine.tokenizer_config_json or "{}")
        except (ValueError, RecursionError):
            config = None
        tokens: dict[str, str] = {}
        # As in Engine::ApplyChatTemplate, anything but an object gives no tokens.
        for name, value in config.items() if isinstance(config, dict) else ():
            if name.endswith("_token"):
                text = value.get("content") if isinstance(value, dict) else value
                if isinstance(text, str):
                    tokens[name] = text
        bos = self.engine.bos_token_id
        if "bos_token" not in tokens and bos is not None:
            tokens["bos_token"] = self.tokenizer.id_to_token(bos) or ""
        if "eos_token" not in tokens and self.engine.eos_token_ids:
            tokens["eos_token"] = self.tokenizer.id_to_token(self.engine.eos_token_ids[0]) or ""
        return tokens

    def export_kv(self, prompt: Prompt, cache_salt: str) -> bytes:
        check_salt("cache_salt", cache_salt)
        return self.executor.export_kv(self.prepare(prompt).token_ids, cache_salt)

    def import_kv(self, image: bytes, cache_salt: str) -> int:
        if not isinstance(image, bytes):
            raise InvalidArgumentError(
                f"image is {shown(image)}; it must be the bytes that export_kv gave."
            )
        check_salt("cache_salt", cache_salt)
        return self.executor.import_kv(image, cache_salt)

    def drop_cache(self, salt_prefix: str) -> None:
        check_salt("salt_prefix", salt_prefix)
        self.executor.drop_cache(salt_prefix)

    def submit(
        self,
        prompt: PreparedPrompt,
        params: SamplingParams,
        callback: Callable[[_native.Response], None] | None = None,
        submitted: list[int] | None = None,
    ) -> int:
        """Queues a request; raises the SlipstreamError of a bad one.

        Its number is appended to `submitted` as well, which holds it even where Ctrl-C comes
        between the call and its return.
        """
        request = _native.Request(
            prompt_token_ids=prompt.token_ids,
            sampling=params.to_native(),
            logits_processors=[prompt.watch(processor) for processor in params.processors()],
            **prompt.scheduling.to_native(),
        )
        return self.executor.submit(request, callback, submitted)

    def cancel(self, request: int) -> None:
        """Ends a request if it still runs."""
        with contextlib.suppress(NotFoundError):  # it finished by itself
            self.executor.cancel(request)

    def discard(self, requests: Sequence[int]) -> None:
        """Ends requests that were submitted without a callback and forgets their answers."""
        for request in requests:
            self.cancel(request)
        for request in requests:
            with contextlib.suppress(NotFoundError):  # its answer was fetched before
                self.executor.collect([request])

    def accumulate(
        self, request_id: str, prompt: PreparedPrompt, params: SamplingParams
    ) -> Accumulator:
        return Accumulator(self, request_id, prompt, params)

    def is_model_eos(self, token: int, params: SamplingParams) -> bool:
        """Whether an id is the model's own end rather than one that the caller asked for."""
        return token in self._eos_token_ids and token not in params.stop_ids()


@dataclass(slots=True)
class _Continuation:
    """What is known of one answer of a request."""

    latest: _native.Response | None = None
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    logits: list[NDArray[np.float32]] = field(default_factory=list)

    def finished(self) -> bool:
        return self.latest is not None and self.latest.finished

    def preemptions(self) -> int:
        return 0 if self.latest is None else self.latest.preemptions


class Accumulator:
    """Joins the deltas of one request into a RequestOutput."""

    def __init__(
        self, session: Session, request_id: str, prompt: PreparedPrompt, params: SamplingParams
    ) -> None:
        self._session = session
        self._params = params
        self._prompt = prompt
        self._request_id = request_id
        self._continuations = [_Continuation() for _ in range(params.n)]
        # The first prompt token has no log-probability.
        self._prompt_logprobs: list[dict[int, Logprob] | None] = [None]
        self._scores = params.logprobs is not None

    def add(self, *responses: _native.Response) -> RequestOutput:
        """The state after some more news; raises the error of an answer that failed."""
        for response in responses:
            try:
                response.raise_for_status()
            except SlipstreamError as error:
                raise error from self._prompt.failure
            self._take(response)
        last = responses[-1]
        return RequestOutput(
            request_id=self._request_id,
            prompt=self._prompt.text,
            prompt_token_ids=self._prompt.token_ids,
            outputs=[
                self._completion(index, continuation)
                for index, continuation in enumerate(self._continuations)
            ],
            finished=last.last or all(each.finished() for each in self._continuations),
            num_cached_tokens=last.cached_tokens,
            metrics=RequestMetrics(
                queued_s=last.queued_us / 1e6,
                first_token_s=last.first_token_us / 1e6 if last.first_token_us else None,
                total_s=max(response.total_us for response in responses) / 1e6,
                preemptions=sum(each.preemptions() for each in self._continuations),
            ),
            prompt_logprobs=(
                None if self._params.prompt_logprobs is None else list(self._prompt_logprobs)
            ),
        )

    def _take(self, response: _native.Response) -> None:
        first = len(self._prompt_logprobs)
        tokens = self._prompt.token_ids[first : first + len(response.prompt_logprobs)]
        for token, scores in zip(tokens, response.prompt_logprobs, strict=True):
            self._prompt_logprobs.append(self._named(token, scores))
        continuation = self._continuations[response.index]
        continuation.latest = response
        continuation.text += response.text
        continuation.token_ids += response.token_ids
        if self._scores:
            for token, scores in zip(response.token_ids, response.logprobs, strict=True):
                continuation.logprobs.append(self._named(token, scores))
        if response.logits is not None:
            continuation.logits.extend(response.logits)

    def _completion(self, index: int, continuation: _Continuation) -> CompletionOutput:
        params, latest = self._params, continuation.latest
        completion = CompletionOutput(
            index=index, text=continuation.text, token_ids=list(continuation.token_ids)
        )
        if self._scores:
            completion.logprobs = list(continuation.logprobs)
        if params.return_logits:
            completion.logits = list(continuation.logits)
        if self._scores or (params.best_of or params.n) > params.n:
            completion.cumulative_logprob = 0.0 if latest is None else latest.cumulative_logprob
        if latest is None:
            return completion
        completion.finish_reason = latest.finish_reason
        completion.seed = latest.seed
        completion.stop_reason = latest.stop_string or None
        if completion.stop_reason is None and latest.stop_token is not None:
            model_end = self._session.is_model_eos(latest.stop_token, params)
            completion.stop_reason = None if model_end else latest.stop_token
        return completion

    def _named(self, token: int, scores: _native.TokenLogprobs) -> dict[int, Logprob]:
        """The token first, then the likeliest ones by rank."""

        def entry(token: int, logprob: float, rank: int) -> Logprob:
            spelling = self._session.tokenizer.decode([token], skip_special_tokens=False)
            return Logprob(logprob, rank, spelling)

        named = {token: entry(token, scores.logprob, scores.rank)}
        for rank, (other, logprob) in enumerate(scores.top, start=1):
            if other != token:
                named[other] = entry(other, logprob, rank)
        return named


def _check_cpu_path(cpu_path: object) -> None:
    names = ("auto", *_native.CPU_PATHS)
    if not isinstance(cpu_path, str) or cpu_path not in names:
        raise InvalidArgumentError(
            f"cpu_path is {shown(cpu_path)}; it must be one of {', '.join(names)}."
        )


def _variables(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """chat_template_kwargs, unless they hide what has a parameter of its own."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgumentError(
            f"chat_template_kwargs is {shown(given)}; it must be a dict with names as keys."
        )
    taken = {"self", "messages", "tools", "add_generation_prompt"}.intersection(given)
    if taken:
        raise InvalidArgumentError(
            f"chat_template_kwargs holds {', '.join(sorted(taken))}; a template gets this by a "
            "parameter of its own. Take it out of the dict."
        )
    return given
