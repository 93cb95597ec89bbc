"""Bursts of siblings among strangers: how long the last of them waits, with a group and without one."""

from __future__ import annotations

import math

import numpy as np

from bench.isolation.figures import Percentile, percentile
from bench.isolation.growth import growth_row, ratio_interval
from bench.isolation.mix import WARMUP_S, Ends, Kind, Times, poisson
from bench.isolation.rounds import Rounds, measure
from bench.isolation.subject import CAPACITY, DEADLINE_S, message
from bench.row import Row
from bench.runner import Bench
from fastqps.process.server_process import ServerProcess

SIBLINGS, BURSTS = 12, 50
STRANGERS, LOAD = 16, 0.8  # tenants, and their part of the capacity together


def siblings(bench: Bench, server: ServerProcess) -> None:
    """Bursts alone, strangers alone, and both, the siblings with a group or without."""
    bursts = math.ceil(BURSTS / bench.repetitions)
    strangers = [message(tenant=f"stranger {i}") for i in range(STRANGERS)]

    def family(seed: int, grouped: bool) -> Kind:
        asked = [message(tenant="family", group=f"parent {seed}.{i}" if grouped else "") for i in range(bursts)]
        jitter = np.random.default_rng(seed).uniform(0, 0.5, bursts)
        due_s = WARMUP_S + (np.arange(bursts) + jitter) * bench.seconds / bursts
        return Kind("family", asked, np.repeat(due_s, SIBLINGS), np.repeat(np.arange(bursts), SIBLINGS))

    def crowd(seed: int) -> Kind:
        return Kind("strangers", strangers, poisson(LOAD * CAPACITY, bench.seconds, seed))

    loads = {
        "alone": lambda seed: [family(seed, True)],
        "strangers": lambda seed: [crowd(seed)],
        "group": lambda seed: [family(seed, True), crowd(seed)],
        "no group": lambda seed: [family(seed, False), crowd(seed)],
    }
    rounds = measure(bench, "siblings", server, loads, DEADLINE_S)
    bench.rows += [
        _last_row(rounds, "group", 1.5),
        _strangers_row(rounds, "group", 2),
        _last_row(rounds, "no group", None),
        _strangers_row(rounds, "no group", None),
    ]


def _last_row(rounds: Rounds, load: str, accept: float | None) -> Row:
    alone, among = (_last(rounds, one) for one in ("alone", load))
    low, high = (0.0, 1e6 * DEADLINE_S) if rounds.hindered("alone", load) else ratio_interval(among, alone)
    extra = rounds.step_us("group") / alone[0].value  # what is allowed beside the ratio, in the same unit
    with_group = "" if load == "group" else ", without a group"
    return Row(
        f"{SIBLINGS} siblings at {100 * LOAD:.0f} % load{with_group}: last answer less a step, over alone",
        among[0].value / alone[0].value - extra, "×", accept, at_most=True,
        note=f"median {among[0]}, alone {alone[0]}{rounds.doubtful}", interval=(low - extra, high - extra),
    )  # fmt: skip


def _last(rounds: Rounds, load: str) -> tuple[Percentile, list[Percentile]]:
    """The median time of a burst to its last answer, of all rounds and of each."""
    most_us, late_us = 1e6 * DEADLINE_S, rounds.late_us(load, 0.5)
    of_each = [_bursts(ends) for ends in rounds.ends[load]["family"]]
    return percentile(np.concatenate(of_each), 0.5, most_us, late_us), [
        percentile(waits_us, 0.5, most_us, late_us) for waits_us in of_each
    ]


def _bursts(ends: Ends) -> Times:
    return np.array([ends.wait_us[ends.message == burst].max() for burst in np.unique(ends.message)])


def _strangers_row(rounds: Rounds, load: str, accept: float | None) -> Row:
    beside = "a group" if load == "group" else "siblings without a group"
    name = f"strangers beside {beside}: growth of p99"
    return growth_row(name, rounds, "strangers", ("strangers", load), 0.99, 1e6 * DEADLINE_S, accept)
