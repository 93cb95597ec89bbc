"""How many dispatchers share the cores of a CPU: which splits are compared, what decides, and what is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from checkpoints import write_checkpoint

from fastqps.config import Config, decide
from fastqps.host import machine
from fastqps.models import ModelCard, load_card
from fastqps.supervisor import split as module
from fastqps.supervisor.split import ROUNDS_MIN, SPLITS, choose_dispatchers, dispatchers_by_rule, splits
from fastqps.supervisor.trials import Split, TrialError, Trials

Rates = Callable[[Split], float]


@pytest.fixture(autouse=True)
def eight_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "usable_cores", lambda cpus=None: 8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model", "bert", num_hidden_layers=1)
    return tmp_path / "model"


def trials(monkeypatch: pytest.MonkeyPatch, rate: Rates) -> list[str]:
    """Stands for the processes: gives these rates; the names of the models that were measured."""
    measured: list[str] = []

    class Fake:
        def __init__(self, card: ModelCard, config: Config, splits: Sequence[Split]) -> None:
            measured.append(card.name)

        def rate(self, split: Split) -> float:
            return rate(split)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(module, "Trials", Fake)
    return measured


def config(*models: Path, **settings: Any) -> Config:
    return decide(Config(model=tuple(map(str, models)), device="cpu", **settings))


@pytest.mark.parametrize(
    ("cores", "models", "lanes", "expected"),
    [
        (1, 1, 1, [(1, 1)]),
        (2, 1, 1, [(1, 2), (2, 1)]),
        (2, 2, 1, [(1, 1)]),
        (3, 1, 1, [(1, 3), (3, 1)]),
        (4, 1, 1, [(2, 2), (4, 1)]),
        (8, 2, 1, [(2, 2), (4, 1)]),
        (8, 1, 2, [(4, 1), (8, 1)]),
        (48, 1, 1, [(24, 2), (32, 1)]),  # a reload needs as many worker slots again, of 64
        (96, 1, 1, [(48, 2)]),
        (256, 1, 1, [(64, 4)]),
        (8, 16, 1, [(1, 1)]),
    ],
)
def test_which_splits_are_compared(cores: int, models: int, lanes: int, expected: list[Split]) -> None:
    assert splits(cores, models, lanes) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.7, 4), (1.0, 4), (1.03, 4), (1.1, 8), (1.34, 8)])
def test_more_dispatchers_have_to_be_worth_it(
    ratio: float, expected: int, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over noise of 1 %; and the next start reads what this one has found."""
    card = load_card(str(model))
    rng = random.Random(1)
    measured = trials(monkeypatch, lambda split: 100 * rng.gauss(1, 0.01) * (ratio if split[0] == 8 else 1))
    log: list[str] = []
    assert choose_dispatchers(config(model), [card], log.append) == expected
    said, line, stored = log
    assert said.endswith("measuring 4 of 2 threads and 8 of 1 thread, for at most 20 s; --dispatchers N skips that")
    assert line.startswith("dispatchers auto: model: ") and "/s with 4 of 2 threads, " in line, line
    assert (
        line.endswith("/s with 8 of 1 thread") and stored == f"dispatchers auto: choice stored in {SPLITS.path(model)}"
    )
    log.clear()
    assert choose_dispatchers(config(model), [card], log.append) == expected
    assert measured == ["model"] and len(log) == 1 and log[0].endswith(f"Z read from {SPLITS.path(model)}")
    assert choose_dispatchers(config(model, dtype="float32"), [card], log.append) == expected
    assert measured == ["model"] * 2


def test_noise_that_hides_it_leaves_the_rule(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    chosen, stored = [], 0
    for _ in range(100):
        trials(monkeypatch, lambda split: 100 * rng.uniform(0.5, 1.5))
        log: list[str] = []
        chosen.append(choose_dispatchers(config(model), [load_card(str(model))], log.append))
        stored += SPLITS.path(model).exists()
        SPLITS.forget(model)
        assert len(log) == 3 or "too uncertain to choose; the next start measures again" in log[1]
    assert chosen.count(4) > 70, "half of the time either is ahead, and that is no reason for more"
    assert stored < 80


def test_models_share_one_number(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean decides: one model gains more than the other loses. A static model has no say."""
    write_checkpoint(tmp_path / "other", "bert", num_hidden_layers=2)
    cards = [load_card(str(model)), load_card(str(tmp_path / "other"))]
    ratios = iter([1.5] * ROUNDS_MIN + [0.8] * ROUNDS_MIN)
    measured = trials(monkeypatch, lambda split: 100 * next(ratios) if split[0] == 4 else 100.0)
    log: list[str] = []
    assert choose_dispatchers(config(model, tmp_path / "other"), cards, log.append) == 4
    assert measured == ["model", "other"] and len([line for line in log if line.endswith(" with 4 of 1 thread")]) == 2
    static = load_card("wordllama")
    assert static.static and choose_dispatchers(config(model), [static], log.append) == 4
    assert measured == ["model", "other"]


def test_what_cannot_be_measured_is_a_warning(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(split: Split) -> float:
        raise TrialError("a process ended with code 1")

    trials(monkeypatch, broken)
    log: list[str] = []
    assert choose_dispatchers(config(model), [load_card(str(model))], log.append) == 4
    line = log[-1]
    assert "model: warning: not measured (a process ended with code 1); 4 of 2 threads, by rule" in line
    assert not SPLITS.path(model).exists()


def test_weights_that_do_not_fit_so_often(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = trials(monkeypatch, lambda split: 100.0)
    size = (model / "model.safetensors").stat().st_size
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8 * 4 * size - 1)
    assert choose_dispatchers(config(model), [load_card(str(model))], pytest.fail) == 4 and not measured
    assert dispatchers_by_rule(config(model), [load_card(str(model))]) == 4


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr("fastqps.supervisor.trials.LIMIT_S", 250.0)


@pytest.mark.usefixtures("patient")
def test_the_processes_compute(model: Path) -> None:
    """Two at a time, and one with two threads; all are gone afterwards."""
    with Trials(load_card(str(model)), config(model, dtype="float32"), [(1, 2), (2, 1)]) as found:
        processes = list(found._processes)
        assert len(processes) == 2
        assert found.rate((1, 2)) > 0 and found.rate((2, 1)) > 0
    assert all(process.poll() is not None for process in processes)


def test_a_trial_has_a_limit(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastqps.supervisor.trials.LIMIT_S", 0.01)
    with pytest.raises(TrialError, match=r"it took longer than 0\.01 s"):
        Trials(load_card(str(model)), config(model), [(1, 2), (2, 1)])


@pytest.mark.usefixtures("patient")
def test_a_model_that_does_not_load_says_why(model: Path) -> None:
    card = load_card(str(model))
    (model / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(TrialError, match=r"model\.safetensors"):
        Trials(card, config(model), [(1, 2)])
