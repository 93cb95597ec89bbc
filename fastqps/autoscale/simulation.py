"""A deployment under traffic with an autoscaler, second by second, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fastqps.autoscale.behavior import CAUTIOUS, Behavior
from fastqps.autoscale.cluster import Cluster, Nodes, Start
from fastqps.autoscale.hpa import SYNC_S, Hpa, Spec
from fastqps.autoscale.pod import PodCurves, PodModel, Second
from fastqps.autoscale.pods import tally
from fastqps.autoscale.proposals import from_pods, from_resource, milli
from fastqps.autoscale.shapes import Shape
from fastqps.autoscale.signals import Signal, Trail

PRELUDE_S = 900  # at the first rate, before anything counts: each autoscaler finds its own number of pods
COURSE_ROWS = 360
LONG_S = 6 * 3600  # shapes as long as that are simulated in steps of LONG_TICK_S
LONG_TICK_S = 5.0
REFUSED_MAX = 0.001  # of a second's requests; with more it is outside of the SLO

CPU_REQUEST = 1  # CPU is a share of what is requested, so the request itself does not matter


@dataclass(frozen=True)
class Metric:
    """``target``: in the signal's unit. As the API, it is good to a thousandth; CPU to a per cent."""

    signal: Signal
    target: float


@dataclass(frozen=True)
class Setup:
    """The setup that all signals share. ``replicas_max`` is too high to matter, unless the scenario is about it."""

    start: Start = field(default_factory=Start)
    nodes: Nodes = field(default_factory=Nodes)
    behavior: Behavior = CAUTIOUS
    replicas_min: int = 2
    replicas_max: int = 2000

    def __post_init__(self) -> None:
        Spec(self.replicas_min, self.replicas_max)  # ValueError for what cannot be


@dataclass
class Outcome:
    """The outcome of one run. ``seconds_out``: outside of the SLO, because p99 was too high or more than REFUSED_MAX
    was refused; ``least_pod_seconds``: what an autoscaler would have used that knew the future and pods that start at
    once."""

    seconds: float = 0.0
    seconds_out: float = 0.0
    offered: float = 0.0
    good: float = 0.0
    lost: float = 0.0
    pod_seconds: float = 0.0
    least_pod_seconds: float = 0.0
    pods_max: int = 0
    scalings: int = 0
    reversals: int = 0  # an addition after a removal, or the other way round
    course: list[dict[str, float]] = field(default_factory=list)

    @property
    def out_share(self) -> float:
        """The share of the time outside of the SLO."""
        return self.seconds_out / self.seconds

    @property
    def pods_over_least(self) -> float:
        """1: as few pods as possible."""
        return self.pod_seconds / self.least_pod_seconds


class Run:
    """One simulation; ``outcome`` when ``run`` has returned."""

    def __init__(self, curves: PodCurves, shape: Shape, metric: Metric, setup: Setup) -> None:
        self._curves, self._shape, self._metric, self._setup = curves, shape, metric, setup
        self._tick_s = LONG_TICK_S if shape.seconds >= LONG_S else 1.0
        self.outcome = Outcome()
        first = float(shape.rates[:60].mean()) * float(shape.costs[0])
        pods = max(setup.replicas_min, math.ceil(first / (0.7 * curves.capacity)))
        self._cluster = Cluster(min(pods, setup.replicas_max), setup.start, setup.nodes, -PRELUDE_S)
        self._pod = PodModel(curves)
        self._trail = Trail(metric.signal, self._tick_s, -PRELUDE_S)
        self._hpa = Hpa(Spec(setup.replicas_min, setup.replicas_max, setup.behavior))
        self._before = 0  # sign of the last change
        self._row_s = max(self._tick_s, shape.seconds / COURSE_ROWS)
        self._row: dict[str, float] = {}

    def run(self) -> Outcome:
        """Prelude and shape."""
        tick_s, shape = self._tick_s, self._shape
        rates = shape.rates[: shape.seconds // int(tick_s) * int(tick_s)].reshape(-1, int(tick_s)).mean(axis=1).tolist()
        costs = shape.costs[:: int(tick_s)].tolist()
        first = sum(rates[:60]) / len(rates[:60])
        for k in range(-int(PRELUDE_S / tick_s), 0):
            self._tick(k * tick_s, first, costs[0], counts=False)
        for k, rate in enumerate(rates):
            self._tick(k * tick_s, rate, costs[k], counts=True)
        return self.outcome

    def _tick(self, now_s: float, rate: float, cost: float, *, counts: bool) -> None:
        tick_s, cluster = self._tick_s, self._cluster
        ready = cluster.ready(now_s)
        found = self._pod.second(rate, ready, tick_s, cost) if ready else Second(0, 0.0, 0.0, 1.0)
        self._trail.append(self._value(self._metric.signal, found.cell, rate / ready if ready else 0.0, cost))
        if counts:
            self._account(now_s, rate, cost, found, ready)
        if now_s % SYNC_S == 0:
            self._turn(now_s + tick_s, counts=counts)

    def _value(self, signal: Signal, cell: int, asked: float, cost: float) -> float:
        """The signal of a pod in a recorded state that is ``asked`` for items at a rate, each with a relative cost."""
        value = self._curves.signals[signal.key][cell]
        if signal.key == "saturation":  # what is asked for now, and what the state is evidence of
            return max(asked / self._curves.capacity, self._curves.signals["evidence"][cell])
        if signal.key == "rate":
            return value / cost
        return value * cost if signal.key == "queue_wait_s" else value

    def _turn(self, now_s: float, *, counts: bool) -> None:
        before = self._cluster.replicas
        wanted = self._hpa.decide(now_s, before, lambda: self._proposal(now_s, before))
        self._cluster.scale(now_s, wanted)
        if wanted != before and counts:
            sign = 1 if wanted > before else -1
            self.outcome.scalings += 1
            self.outcome.reversals += self._before == -sign
            self._before = sign

    def _account(self, now_s: float, rate: float, cost: float, found: Second, ready: int) -> None:
        outcome, tick_s, curves = self.outcome, self._tick_s, self._curves
        p99_us = curves.p99_us[found.cell] * cost
        out = not ready or p99_us > curves.slo_us or found.refused > REFUSED_MAX
        needed = max(self._setup.replicas_min, math.ceil(rate * cost / curves.capacity))
        outcome.seconds += tick_s
        outcome.seconds_out += tick_s * out
        outcome.offered += rate * tick_s
        outcome.good += rate * tick_s * (0.0 if cost > 1 and p99_us > curves.slo_us else found.good)
        outcome.lost += rate * tick_s * found.refused
        outcome.pod_seconds += self._cluster.replicas * tick_s
        outcome.least_pod_seconds += needed * tick_s
        outcome.pods_max = max(outcome.pods_max, self._cluster.replicas)
        row = self._row
        if not row or now_s >= row["t_s"] + self._row_s:
            row = self._row = {
                "t_s": now_s,
                "rate": 0.0,
                "needed": 0.0,
                "pods": 0.0,
                "ready": 0.0,
                "out_s": 0.0,
                "n": 0,
            }
            outcome.course.append(row)
        row["n"] += 1
        row["rate"] += (rate - row["rate"]) / row["n"]
        row["out_s"] += tick_s * out
        row["needed"] = max(row["needed"], needed)
        row["pods"], row["ready"] = max(row["pods"], self._cluster.replicas), ready

    def _proposal(self, now_s: float, replicas: int) -> int:
        """The pods that the metric asks for."""
        metric, tolerance = self._metric, self._hpa.spec.tolerance
        cpu = metric.signal.kind == "resource"
        seen = tally(self._trail.pods(self._cluster.cohorts, now_s, CPU_REQUEST), now_s, cpu=cpu)
        if cpu:
            return from_resource(seen, round(100 * metric.target), replicas, tolerance)
        return from_pods(seen, milli(metric.target), replicas, tolerance)
