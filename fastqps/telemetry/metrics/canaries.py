"""The state of dispatchers as canary requests show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


@dataclass(frozen=True)
class Canaries:
    """The canaries of one dispatcher, over all its incarnations. ``age_s``: since it last finished a step, of a client
    or a canary.

    None: no canaries are sent, so an idle dispatcher's age would raise a false alarm.
    """

    dispatcher: int
    answered: int
    missed: int
    age_s: float | None


def canary_families(all_canaries: Sequence[Canaries]) -> Iterator[Any]:
    """The families of all dispatchers that run."""
    what = "The server's own requests, by which idle dispatchers show that they get on."
    counts = CounterMetricFamily("fastqps_canaries", what, labels=["dispatcher", "outcome"])
    what = "Since the dispatcher was last seen to finish a step, a canary's or a client's."
    ages = GaugeMetricFamily("fastqps_canary_age_seconds", what, labels=["dispatcher"])
    for found in all_canaries:
        counts.add_metric([str(found.dispatcher), "answered"], found.answered)
        counts.add_metric([str(found.dispatcher), "missed"], found.missed)
        if found.age_s is not None:
            ages.add_metric([str(found.dispatcher)], found.age_s)
    yield counts
    yield ages
