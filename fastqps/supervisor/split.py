"""How many dispatchers share the cores on the device cpu: measured at the first start of a model of its shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path

from fastqps.config import Config
from fastqps.config.decide import DISPATCHERS_MAX, server_cpus
from fastqps.devices.choice_file import ChoiceFile, Log, now_utc
from fastqps.host import machine
from fastqps.models import ModelCard
from fastqps.supervisor.trials import LIMIT_S, Split, TrialError, Trials

# How much faster more dispatchers have to be: fewer take less memory, and answer a single request sooner.
GAIN = 1.05
ROUNDS_MIN, ROUNDS_MAX = 4, 10
ERROR_MAX = 0.05  # two halves of the rounds that find ratios so close to each other have found it
_MEMORY_SHARE = 4  # the weights of all dispatchers together take at most one part in so many


@dataclass(frozen=True)
class Circumstances:
    """The circumstances under which a stored choice is valid for models of one shape."""

    device: str
    torch: str
    dtype: str
    quantization: str
    cores: int
    models: int  # that share them
    lanes: int
    max_tokens: int


@dataclass(frozen=True)
class Choice:
    """Of each split dispatchers, threads of each and items per second, and the time of measurement: ISO 8601, UTC."""

    measured: str
    rates: tuple[tuple[int, int, float], ...]


def _check(where: Circumstances, choice: Choice) -> None:
    if len(choice.rates) != 2 or min(rate for *_, rate in choice.rates) <= 0:
        raise ValueError("not the rates of two splits")


SPLITS = ChoiceFile("dispatchers auto", "splits", 2, Circumstances, Choice, _check)


def splits(cores: int, models: int, lanes: int) -> list[Split]:
    """(dispatchers of each model, threads of each lane): by the rule, and one thread for each core, if that differs."""
    few = min(max(1, cores // 2 // models), DISPATCHERS_MAX // models)
    many = min(max(1, cores // models), DISPATCHERS_MAX // 2 // models)  # a reload needs as many again
    return [(n, max(1, cores // (n * models * lanes))) for n in sorted({few, max(few, many)})]


def dispatchers_by_rule(config: Config, cards: Sequence[ModelCard]) -> int:
    """The dispatchers of each model on the device cpu, where nothing is measured."""
    assert config.lanes  # decided
    return splits(machine.usable_cores(len(server_cpus(config))), len(cards), config.lanes)[0][0]


def choose_dispatchers(config: Config, cards: Sequence[ModelCard], log: Log) -> int:
    """The dispatchers of each model on the device cpu. Measures only what is not stored for a model.

    The models share one number: the split that is the faster one on the mean of them. Static models compute in one
    thread, and are no reason for either.
    """
    assert config.lanes and config.max_batch_tokens  # decided
    cores = machine.usable_cores(len(server_cpus(config)))
    few, *more = splits(cores, len(cards), config.lanes)
    measured = [card for card in cards if not card.static]
    if not more or not measured or not _fits(measured, more[0][0]):
        return few[0]
    gains = [_gain(config, card, (few, more[0]), cores, len(cards), log) for card in measured]
    return more[0][0] if prod(gains) ** (1 / len(gains)) >= GAIN else few[0]


def _gain(config: Config, card: ModelCard, both: tuple[Split, Split], cores: int, models: int, log: Log) -> float:
    """How many times as fast the second split is; 1 where that cannot be told."""
    assert config.lanes and config.max_batch_tokens
    path = SPLITS.path(Path(card.path))
    where = Circumstances(
        machine.cpu_model(), version("torch"), config.dtype, config.quantization, cores, models, config.lanes,
        config.max_batch_tokens,
    )  # fmt: skip
    with SPLITS.measuring(log):
        if choice := SPLITS.find(path, where, log):
            log(f"{_said(card, choice)}, choice of {choice.measured} read from {path}")
            return _ratio(choice)
        log(
            f"dispatchers auto: {card.name}: measuring {_named(both[0])} and {_named(both[1])}, for at most "
            f"{LIMIT_S:g} s; --dispatchers N skips that"
        )
        try:
            with Trials(card, config, both) as trials:
                rounds = _rounds(trials, both)
        except TrialError as error:
            log(f"dispatchers auto: {card.name}: warning: not measured ({error}); {_named(both[0])}, by rule")
            return 1.0
        choice = Choice(now_utc(), tuple((*split, rate) for split, rate in zip(both, _best(rounds), strict=True)))
        if not _certain(rounds):
            log(f"{_said(card, choice)}, which is too uncertain to choose; the next start measures again")
            return 1.0
        log(_said(card, choice))
        SPLITS.store(path, where, choice, log)
        return _ratio(choice)


def _rounds(trials: Trials, both: tuple[Split, Split]) -> list[tuple[float, float]]:
    """The rates of both splits in turns, until the halves of the rounds agree."""
    rounds: list[tuple[float, float]] = []
    while len(rounds) < ROUNDS_MIN or (len(rounds) < ROUNDS_MAX and not _certain(rounds)):
        rounds.append((trials.rate(both[0]), trials.rate(both[1])))
    return rounds


def _best(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The highest rate of each split: other programs only ever lower it."""
    return max(few for few, _ in rounds), max(more for _, more in rounds)


def _certain(rounds: Sequence[tuple[float, float]]) -> bool:
    """Whether both halves of the rounds find the same split, or the same ratio: near ``GAIN`` either split will do."""
    least, most = sorted(more / few for few, more in (_best(rounds[0::2]), _best(rounds[1::2])))
    return least >= GAIN or most < GAIN or most / least <= 1 + ERROR_MAX


def _ratio(choice: Choice) -> float:
    (*_, few), (*_, more) = choice.rates
    return more / few


def _said(card: ModelCard, choice: Choice) -> str:
    few, more = (f"{rate:,.0f}/s with {_named((n, threads))}" for n, threads, rate in choice.rates)
    return f"dispatchers auto: {card.name}: {few}, {more}"


def _named(split: Split) -> str:
    dispatchers, threads = split
    return f"{dispatchers} of {threads} thread{'s' if threads > 1 else ''}"


def _fits(cards: Sequence[ModelCard], dispatchers: int) -> bool:
    """Whether there is memory for the weights of so many dispatchers, and for those of a reload beside them."""
    files = [file for card in cards for file in Path(card.path).rglob("*.safetensors")]
    return dispatchers * sum(file.stat().st_size for file in files) * _MEMORY_SHARE <= machine.memory_bytes()
