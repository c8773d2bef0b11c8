"""Types of the native module. `slipstream.LLM` and `slipstream.AsyncLLM` are the usual way in."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

__version__: str
COMPILER: str
CPU_PATHS: tuple[str, ...]

# numpy says that its arrays are buffers only from Python 3.12 on.
_Buffer: TypeAlias = ReadableBuffer | NDArray[Any]

class Tokenizer:
    """Text to token ids and back, as Hugging Face `tokenizers` does. Immutable and thread-safe."""

    @staticmethod
    def from_json(json: str | bytes) -> Tokenizer: ...
    def encode(
        self,
        text: str | bytes,
        *,
        add_special_tokens: bool = True,
        parse_special_tokens: bool = True,
    ) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    def id_to_token(self, id: int) -> str | None: ...
    def token_to_id(self, token: str) -> int | None: ...
    def is_special(self, id: int) -> bool: ...

class ChatTemplate:
    """The Jinja subset of chat templates. Immutable and thread-safe."""

    @staticmethod
    def parse(source: str) -> ChatTemplate: ...
    def render(
        self,
        messages_json: str,
        *,
        add_generation_prompt: bool = True,
        tools_json: str = "",
        documents_json: str = "",
        variables_json: str = "",
        now: Sequence[int] | None = None,
    ) -> str: ...

class StreamDecoder:
    """Turns a growing list of ids into pieces of valid text. Not thread-safe."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None: ...
    def push(self, id: int) -> str: ...
    def flush(self) -> str: ...

class Runtime:
    """Thread pool and CPU dispatch of a process. Thread-safe."""

    def __init__(self, *, threads: int = 0, cpu_path: str = "auto") -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def cpu_path(self) -> str: ...

class EngineLimits:
    """The largest request and step of an engine, in tokens and sequences."""

    @property
    def max_seq_len(self) -> int: ...
    @property
    def max_batch_size(self) -> int: ...
    @property
    def max_num_tokens(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...

class Engine:
    """One mapped and checked .engine file. Immutable and thread-safe."""

    @staticmethod
    def load(path: str | bytes, *, verify_full: bool = False) -> Engine: ...
    @property
    def path(self) -> str: ...
    @property
    def model_name(self) -> str: ...
    @property
    def build_id(self) -> str: ...
    @property
    def manifest_json(self) -> str: ...
    @property
    def limits(self) -> EngineLimits: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def chat_template(self) -> str: ...
    def apply_chat_template(
        self,
        messages_json: str,
        *,
        add_generation_prompt: bool = True,
        tools_json: str = "",
        documents_json: str = "",
        variables_json: str = "",
        now: Sequence[int] | None = None,
    ) -> str: ...
    @property
    def tokenizer_config_json(self) -> str: ...
    @property
    def generation_config_json(self) -> str: ...
    @property
    def eos_token_ids(self) -> list[int]: ...
    @property
    def bos_token_id(self) -> int | None: ...

class Model:
    """An Engine with its plan prepared for a Runtime. Thread-safe."""

    def __init__(self, runtime: Runtime, engine: Engine) -> None: ...
    @property
    def engine(self) -> Engine: ...

class SamplingParams:
    """The native form of `slipstream.SamplingParams`."""

    max_tokens: int
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    no_repeat_ngram_size: int
    logit_bias: dict[int, float]
    allowed_token_ids: list[int]
    bad_words: list[str]
    bad_words_ids: list[list[int]]
    seed: int | None
    n: int
    best_of: int | None
    stop: list[str]
    stop_token_ids: list[int]
    include_stop_str_in_output: bool
    ignore_eos: bool
    skip_special_tokens: bool
    logprobs: int | None
    prompt_logprobs: int | None
    return_logits: bool
    def __init__(
        self,
        *,
        max_tokens: int = 16,
        min_tokens: int = 0,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        no_repeat_ngram_size: int = 0,
        logit_bias: Mapping[int, float] = ...,
        allowed_token_ids: Sequence[int] = ...,
        bad_words: Sequence[str] = ...,
        bad_words_ids: Sequence[Sequence[int]] = ...,
        seed: int | None = None,
        n: int = ...,
        best_of: int | None = ...,
        stop: Sequence[str] = ...,
        stop_token_ids: Sequence[int] = ...,
        include_stop_str_in_output: bool = False,
        ignore_eos: bool = False,
        skip_special_tokens: bool = True,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        return_logits: bool = False,
    ) -> None: ...

class Request:
    """One prompt to be continued: text, or ready token ids."""

    prompt: str
    prompt_token_ids: list[int]
    add_special_tokens: bool
    sampling: SamplingParams
    def __init__(
        self,
        *,
        prompt: str = "",
        prompt_token_ids: Sequence[int] = ...,
        add_special_tokens: bool = True,
        sampling: SamplingParams = ...,
        logits_processors: Sequence[Callable[[list[int], NDArray[np.float32]], object]] = ...,
        priority: int = 0,
        ttft_target_ms: int = 0,
        tpot_target_ms: int = 0,
        time_limit_ms: int = 0,
        cache_salt: str = "",
        read_cache: bool = True,
        write_cache: bool = True,
        retention: Sequence[KvRetention] = ...,
    ) -> None: ...

class TokenLogprobs:
    """The log-probability of one token, and of the likeliest in its place."""

    @property
    def logprob(self) -> float: ...
    @property
    def rank(self) -> int: ...
    @property
    def top(self) -> list[tuple[int, float]]: ...

class Response:
    """News of one answer of a request since its previous Response."""

    @property
    def id(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def last(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[TokenLogprobs]: ...
    @property
    def prompt_logprobs(self) -> list[TokenLogprobs]: ...
    @property
    def logits(self) -> NDArray[np.float32] | None: ...
    @property
    def cumulative_logprob(self) -> float: ...
    @property
    def finish_reason(self) -> str | None: ...
    @property
    def finished(self) -> bool: ...
    def raise_for_status(self) -> None: ...
    @property
    def stop_string(self) -> str: ...
    @property
    def stop_token(self) -> int | None: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def preemptions(self) -> int: ...
    @property
    def queued_us(self) -> int: ...
    @property
    def first_token_us(self) -> int: ...
    @property
    def total_us(self) -> int: ...
    @property
    def seed(self) -> int: ...

class ExecutorStats:
    """A consistent snapshot of an executor's counters and gauges; times in microseconds."""

    @property
    def steps(self) -> int: ...
    @property
    def prefill_tokens_computed(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def recomputed_tokens(self) -> int: ...
    @property
    def generated_tokens(self) -> int: ...
    @property
    def requests_submitted(self) -> int: ...
    @property
    def requests_finished(self) -> int: ...
    @property
    def preemptions(self) -> int: ...
    @property
    def blocks_copied(self) -> int: ...
    @property
    def blocks_swapped_out(self) -> int: ...
    @property
    def blocks_swapped_in(self) -> int: ...
    @property
    def schedule_us(self) -> int: ...
    @property
    def model_us(self) -> int: ...
    @property
    def sample_us(self) -> int: ...
    @property
    def deliver_us(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def waiting_tokens(self) -> int: ...
    @property
    def kv_blocks_total(self) -> int: ...
    @property
    def kv_blocks_free(self) -> int: ...
    @property
    def kv_blocks_cached(self) -> int: ...
    @property
    def host_blocks_total(self) -> int: ...
    @property
    def host_blocks_used(self) -> int: ...

class IterationEntry:
    """One request's part in a step."""

    @property
    def id(self) -> int: ...
    @property
    def first_position(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def prefill(self) -> bool: ...
    @property
    def sampled(self) -> bool: ...
    @property
    def queued_us(self) -> int: ...

class Iteration:
    """One step; times in microseconds, start_us from the creation of the executor."""

    @property
    def step(self) -> int: ...
    @property
    def start_us(self) -> int: ...
    @property
    def schedule_us(self) -> int: ...
    @property
    def model_us(self) -> int: ...
    @property
    def sample_us(self) -> int: ...
    @property
    def prefill_rows(self) -> int: ...
    @property
    def decode_rows(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def preempted(self) -> int: ...
    @property
    def kv_blocks_free(self) -> int: ...
    @property
    def kv_blocks_cached(self) -> int: ...
    @property
    def entries(self) -> list[IterationEntry]: ...

class CapacityPolicy(enum.Enum):
    GUARANTEED_NO_EVICT = ...
    MAX_UTILIZATION = ...

class ChunkingPolicy(enum.Enum):
    FIRST_COME = ...
    EQUAL_PROGRESS = ...

class ExecutorConfig:
    """Settings of an Executor; zero takes the default."""

    kv_memory_bytes: int
    max_num_tokens: int
    max_batch_size: int
    max_queued_requests: int
    max_queued_tokens: int
    max_queued_bytes: int
    capacity: CapacityPolicy
    chunking: ChunkingPolicy
    ageing_ms: int
    prefix_cache: bool
    host_kv_bytes: int
    host_kv_dir: str
    max_kv_events: int
    iteration_history: int
    def __init__(self) -> None: ...

class Executor:
    """The in-flight batching loop on one Model. Thread-safe."""

    def __init__(self, model: Model, config: ExecutorConfig = ...) -> None: ...
    def submit(
        self,
        request: Request,
        callback: Callable[[Response], object] | None = None,
        submitted: list[int] | None = None,
    ) -> int: ...
    def next(self, id: int, timeout: float | None = None) -> Response: ...
    def collect(self, ids: Sequence[int]) -> list[list[Response]]: ...
    def cancel(self, id: int) -> None: ...
    def stats(self) -> ExecutorStats: ...
    def iterations(self, after_step: int = 0) -> list[Iteration]: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def drain(self, timeout: float | None = None) -> bool: ...
    def export_kv(self, token_ids: Sequence[int], cache_salt: str = "") -> bytes: ...
    def import_kv(self, image: bytes, cache_salt: str = "") -> int: ...
    def drop_cache(self, salt_prefix: str = "") -> None: ...
    def take_kv_events(self) -> tuple[list[KvEvent], int]: ...
    def shutdown(self) -> None: ...

class KvRetention:
    """The native form of slipstream.KvRetention."""

    def __init__(self, first: int, end: int, priority: int, duration_ms: int) -> None: ...

class KvEvent:
    """What happened to cached blocks. Blocks are named by a hash of their salt and of all tokens up
    to their last."""

    @property
    def kind(self) -> str:
        """'stored', 'removed' or 'moved'."""
    @property
    def group(self) -> int: ...
    @property
    def hashes(self) -> list[int]: ...
    @property
    def parent(self) -> int: ...
    @property
    def token_ids(self) -> list[int]: ...
    @property
    def cache_salt(self) -> bytes: ...
    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...

class Logits:
    """f32 [tokens, vocab_size] through the buffer protocol: `numpy.asarray(logits)`."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class TeacherForcing:
    """Logits after each of given tokens, by the same steps as generation.

    Owns a KV cache of one sequence. Not thread-safe.
    """

    def __init__(self, model: Model) -> None: ...
    def logits(self, tokens: Sequence[int], chunk_tokens: int) -> Logits:
        """Starts a new sequence; `chunk_tokens` rows are computed per step (at most the engine's
        max_batch_size)."""

class pack:
    """The submodule for the builder: packed weights and hashes of the engine file.

    Written as a class because a single stub file cannot hold a submodule. Import it with
    `from slipstream._native import pack`.
    """

    class Xxh3Stream:
        """XXH3-128 over data in pieces. Not thread-safe."""

        def __init__(self) -> None: ...
        def update(self, data: _Buffer) -> None: ...
        def digest(self) -> bytes: ...
        def hexdigest(self) -> str: ...

    @staticmethod
    def xxh3_128(data: _Buffer) -> bytes: ...
    @staticmethod
    def n16k4_packed_rows(segment_rows: Sequence[int]) -> int: ...
    @staticmethod
    def n16k4_bytes(dtype: str, packed_rows: int, k: int) -> int: ...
    @staticmethod
    def pack_n16k4(
        dtype: str,
        rows: int,
        k: int,
        source: _Buffer,
        packed_row: int,
        packed: _Buffer,
    ) -> None: ...
    @staticmethod
    def unpack_n16k4(
        dtype: str,
        rows: int,
        k: int,
        packed: _Buffer,
        packed_row: int,
        target: _Buffer,
    ) -> None: ...
