"""The soak of tests/soak: it finds what it is there to find, and a short one is clean."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from slipstream import SamplingParams

SOAK = Path(__file__).parents[1] / "soak" / "soak.py"


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("ids", "whole", "fine"),
    [
        ((4, 5, 6), True, True),
        ((4, 5), True, False),
        ((4, 5), False, True),
        ((), False, True),
        ((4, 6), False, False),
        ((4, 5, 6, 7), False, False),
    ],
)
def test_an_answer_is_the_expected_one_or_its_beginning(
    soak: ModuleType, ids: tuple[int, ...], whole: bool, fine: bool
) -> None:
    case = soak.Case([1], SamplingParams(seed=3), expected=(4, 5, 6))
    assert (soak.check(case, SimpleNamespace(token_ids=ids, logprobs=None), whole) == "") == fine


def test_another_log_probability_is_a_fault(soak: ModuleType) -> None:
    case = soak.Case([1], SamplingParams(seed=3), expected=(4,), logprobs=(-0.5,))

    def answer(logprob: float) -> SimpleNamespace:
        return SimpleNamespace(token_ids=(4,), logprobs=[{4: SimpleNamespace(logprob=logprob)}])

    assert soak.check(case, answer(-0.5), True) == ""
    assert "seed 3" in soak.check(case, answer(-0.5000001), True)


def test_growing_memory_is_a_fault(soak: ModuleType) -> None:
    flat = [100.0, 130, 131, 130, 131, 130, 131, 130]
    assert soak.growth(flat) == []
    assert "grew" in soak.growth([*flat[:4], 133, 136, 139, 142])[0]
    assert "too short" in soak.growth(flat[:3])[0]


@pytest.mark.full
def test_a_short_soak_is_clean(soak: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    result = soak.main(["--minutes", "0.4", "--interval", "2", "--seed", "1"])
    assert result == 0, capsys.readouterr().out
