"""Lists in SamplingParams and prompts: numpy arrays work, odd classes give errors with a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llm_fixtures import build_tiny_engine

from slipstream import LLM, SamplingParams
from slipstream.errors import InvalidArgumentError
from slipstream.prompts import normalize, split

FIELDS = ("allowed_token_ids", "bad_words", "logits_processors", "stop", "stop_token_ids")


class Odd:
    """A sequence whose length or items are as told."""

    def __init__(self, length: Callable[[], int], item: Callable[[int], Any]) -> None:
        self._length = length
        self._item = item

    def __len__(self) -> int:
        return self._length()

    def __getitem__(self, place: int) -> Any:
        return self._item(place)


class BrokenNumber:
    def __index__(self) -> int:
        raise ZeroDivisionError

    def __float__(self) -> float:
        raise ZeroDivisionError


def fails(*_: object) -> Any:
    raise ZeroDivisionError


ODD = {
    "length raises": lambda: Odd(fails, lambda place: 1),
    "length below 0": lambda: Odd(lambda: -1, lambda place: 1),
    "length of text": lambda: Odd(lambda: "x", lambda place: 1),  # type: ignore[arg-type, return-value]
    "length beyond size_t": lambda: Odd(lambda: 2**70, lambda place: 1),
    "item raises": lambda: Odd(lambda: 2, fails),
    "endless": lambda: Odd(lambda: 2, lambda place: 1),
    "too short": lambda: Odd(lambda: 2, [1].__getitem__),
    "array without dimensions": lambda: np.array(5),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("field", FIELDS)
def test_an_odd_sequence_is_an_error_that_names_the_field(field: str, odd: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{field} is ") as caught:
        SamplingParams(**{field: ODD[odd]()})
    assert len(str(caught.value)) < 250
    if field == "bad_words":
        with pytest.raises(InvalidArgumentError, match=r"^bad_words is "):
            SamplingParams(bad_words=[ODD[odd]()])


def test_a_broken_number_is_an_error_that_names_the_field() -> None:
    for field in ("stop_token_ids", "allowed_token_ids"):
        with pytest.raises(InvalidArgumentError, match=f"{field} is .*must be an integer"):
            SamplingParams(**{field: [BrokenNumber()]})
    with pytest.raises(InvalidArgumentError, match=r"temperature is .*must be a finite number"):
        SamplingParams(temperature=BrokenNumber())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"prompt_token_ids\[1\] is"):
        normalize([1, BrokenNumber()])  # type: ignore[list-item]


def test_arrays_are_lists() -> None:
    native = SamplingParams(
        stop_token_ids=np.array([1, 2]),  # type: ignore[arg-type]
        allowed_token_ids=np.arange(3),  # type: ignore[arg-type]
        bad_words=[np.array([5, 6])],  # type: ignore[list-item]
        stop=np.array(["a", "bc"]),  # type: ignore[arg-type]
    ).to_native()
    assert (native.stop_token_ids, native.allowed_token_ids) == ([1, 2], [0, 1, 2])
    assert (native.bad_words_ids, native.stop) == ([[5, 6]], ["a", "bc"])
    rows = SamplingParams(bad_words=np.array([[1, 2], [3, 4]])).to_native()  # type: ignore[arg-type]
    assert rows.bad_words_ids == [[1, 2], [3, 4]]
    empty = SamplingParams(stop_token_ids=np.array([], dtype=np.int64))  # type: ignore[arg-type]
    assert empty.to_native().stop_token_ids == []
    with pytest.raises(InvalidArgumentError, match="allowed_token_ids is empty"):
        SamplingParams(allowed_token_ids=np.array([], dtype=np.int64))  # type: ignore[arg-type]
    for wrong in (np.array([1.0]), np.array([[1]]), np.array([True])):
        with pytest.raises(InvalidArgumentError, match=r"stop_token_ids is .*must be an integer"):
            SamplingParams(stop_token_ids=wrong)  # type: ignore[arg-type]


def test_prompts_of_arrays() -> None:
    def ids(prompts: Any) -> tuple[list[list[int] | None], bool]:
        items, single = split(prompts)
        return [normalize(item).token_ids for item in items], single

    assert ids(np.array([3, 4])) == ([[3, 4]], True)
    assert ids(np.array([[3, 4], [5, 6]])) == ([[3, 4], [5, 6]], False)
    assert ids([np.array([3]), np.array([5, 6])]) == ([[3], [5, 6]], False)
    assert ids([np.int64(3), 4]) == ([[3, 4]], True)
    assert ids({"prompt_token_ids": np.array([3, 4])}) == ([[3, 4]], True)


def test_odd_prompts_are_errors() -> None:
    def raises() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    for odd in (np.array(5), Odd(fails, fails), raises()):
        with pytest.raises(InvalidArgumentError):
            items, _ = split(odd)  # type: ignore[arg-type]
            normalize(items[0])
    with pytest.raises(
        InvalidArgumentError, match=r"prompt_token_ids is .*cannot be read"
    ) as caught:
        normalize({"prompt_token_ids": np.array(5)})  # type: ignore[typeddict-item]
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_request_with_arrays(tmp_path_factory: pytest.TempPathFactory) -> None:
    def seen(token_ids: list[int], logits: Any) -> None:
        calls.append(len(token_ids))

    calls: list[int] = []
    processors = np.empty(1, dtype=object)
    processors[0] = seen
    with LLM(build_tiny_engine(tmp_path_factory.mktemp("tiny"))) as llm:
        lists = SamplingParams(max_tokens=6, seed=1, allowed_token_ids=[7, 8], stop_token_ids=[8])
        arrays = SamplingParams(
            max_tokens=6,
            seed=1,
            allowed_token_ids=np.array([7, 8]),  # type: ignore[arg-type]
            stop_token_ids=np.array([8, 9]),  # type: ignore[arg-type]
            logits_processors=processors,  # type: ignore[arg-type]
        )
        expected = llm.generate([3, 4], lists)[0].outputs[0]
        given = llm.generate(np.array([3, 4]), arrays)[0].outputs[0]  # type: ignore[arg-type]
        streamed = list(llm.stream(np.array([3, 4]), arrays))[-1].outputs[0]  # type: ignore[arg-type]
    assert given.token_ids == expected.token_ids == streamed.token_ids
    assert given.stop_reason == expected.stop_reason
    assert len(calls) == 2 * len(given.token_ids)


def test_a_bias_of_any_number_is_its_float() -> None:
    native = SamplingParams(logit_bias={1: 2, 2: np.float32(0.5), 3: -1.25})  # type: ignore[dict-item]
    assert native.to_native().logit_bias == {1: 2.0, 2: 0.5, 3: -1.25}
    for wrong in (10**400, -(10**400), float("nan"), True, "x"):
        with pytest.raises(InvalidArgumentError, match="logit_bias of id 4 is"):
            SamplingParams(logit_bias={4: wrong})  # type: ignore[dict-item]
