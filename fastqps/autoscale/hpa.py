"""Kubernetes' horizontal autoscaler: from what metrics ask for to how many pods there shall be.

After pkg/controller/podautoscaler of Kubernetes 1.35. One ``Hpa`` is one HorizontalPodAutoscaler with its memory;
``decide`` is one turn of the controller, every 15 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from fastqps.autoscale.behavior import DEFAULT, Behavior, Rules
from fastqps.autoscale.proposals import NoMetric, Tolerance

SYNC_S = 15.0  # --horizontal-pod-autoscaler-sync-period
REPLICAS_LIMIT = 100_000

Proposal = Callable[[], int]  # raises NoMetric


@dataclass(frozen=True)
class Spec:
    """The bounds of the number of pods, and of its rate of change."""

    replicas_min: int
    replicas_max: int
    behavior: Behavior = DEFAULT

    def __post_init__(self) -> None:
        if not 0 <= self.replicas_min <= self.replicas_max <= REPLICAS_LIMIT or not self.replicas_max:
            raise ValueError(
                f"{self.replicas_min} to {self.replicas_max} pods: within 0 to {REPLICAS_LIMIT}, the smaller first"
            )

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance of its metric."""
        return Tolerance(self.behavior.up.tolerance, self.behavior.down.tolerance)


@dataclass
class History:
    """The memory of an autoscaler, as long as its rules look back."""

    asked: list[tuple[float, int]] = field(default_factory=list)  # (when, pods that metrics asked for)
    added: list[tuple[float, int]] = field(default_factory=list)  # (when, by how many)
    removed: list[tuple[float, int]] = field(default_factory=list)


class Hpa:
    """``why``: what was decisive at the last turn, one of the reasons of its conditions."""

    def __init__(self, spec: Spec, history: History | None = None) -> None:
        self.spec = spec
        self.why = ""
        self._past = history or History()

    def decide(self, now_s: float, replicas: int, propose: Proposal) -> int:
        """Pods from now on. ``replicas``: as the workload's spec has them; ``propose``: what the metric asks for."""
        spec = self.spec
        if not self._past.asked:
            self._past.asked.append((now_s, replicas))
        if not replicas and spec.replicas_min:
            self.why = "ScalingDisabled"
            return 0
        if not spec.replicas_min <= replicas <= spec.replicas_max:
            wanted = min(max(replicas, spec.replicas_min), spec.replicas_max)
            self.why = "OutsideOfMinMax"
        else:
            try:
                asked = propose()
            except NoMetric:
                self.why = "FailedGetMetric"
                return replicas
            wanted = self._limited(now_s, replicas, self._stabilized(now_s, replicas, asked))
        self._note(now_s, wanted - replicas)
        return wanted

    def _stabilized(self, now_s: float, replicas: int, asked: int) -> int:
        """Between the least that was asked for in the window of the way up and the most in that of the way down."""
        up_s, down_s = self.spec.behavior.up.window_s, self.spec.behavior.down.window_s
        least = min([asked, *(pods for when_s, pods in self._past.asked if when_s > now_s - up_s)])
        most = max([asked, *(pods for when_s, pods in self._past.asked if when_s > now_s - down_s)])
        window_s = max(up_s, down_s)
        self._past.asked[:] = [(when_s, pods) for when_s, pods in self._past.asked if when_s >= now_s - window_s]
        self._past.asked.append((now_s, asked))
        return min(max(replicas, least), most)

    def _limited(self, now_s: float, replicas: int, wanted: int) -> int:
        """Within minimum and maximum, and no faster than allowed."""
        spec = self.spec
        up, down = self._furthest(now_s, replicas)
        if wanted > replicas:
            most, self.why = min((spec.replicas_max, "TooManyReplicas"), (up, "ScaleUpLimit"), key=_limit)
            if wanted > most:
                return most
        elif wanted < replicas:
            least, self.why = max((spec.replicas_min, "TooFewReplicas"), (down, "ScaleDownLimit"), key=_limit)
            if wanted < least:
                return least
        self.why = "DesiredWithinRange"
        return wanted

    def _furthest(self, now_s: float, replicas: int) -> tuple[int, int]:
        """The most and the fewest pods that policies allow now; never beyond ``replicas`` to its other side."""
        behavior = self.spec.behavior

        def before(period_s: float) -> int:
            """Pods that there were at the beginning of this period."""
            since_s = now_s - period_s
            added = sum(by for when_s, by in self._past.added if when_s > since_s)
            return replicas - added + sum(by for when_s, by in self._past.removed if when_s > since_s)

        up = up_limit(behavior.up, before) if behavior.up.select != "Disabled" else replicas
        down = down_limit(behavior.down, before) if behavior.down.select != "Disabled" else replicas
        return max(up, replicas), min(down, replicas)

    def _note(self, now_s: float, by: int) -> None:
        behavior = self.spec.behavior
        if not by:
            return
        horizon_s = now_s - max(behavior.up.period_s_max, behavior.down.period_s_max)
        changes = self._past.added if by > 0 else self._past.removed
        changes[:] = [change for change in changes if change[0] > horizon_s]
        changes.append((now_s, abs(by)))


def up_limit(rules: Rules, before: Callable[[float], int]) -> int:
    """The most pods that policies allow. ``before``: how many there were at the beginning of a period."""
    allowed = [
        pods + policy.value if policy.kind == "Pods" else math.ceil(pods * (1 + policy.value / 100))
        for policy, pods in ((policy, before(policy.period_s)) for policy in rules.policies)
    ]
    return max(allowed) if rules.select == "Max" else min(allowed)


def down_limit(rules: Rules, before: Callable[[float], int]) -> int:
    """The fewest pods that policies allow, as ``up_limit``. May be below 0."""
    allowed = [
        pods - policy.value if policy.kind == "Pods" else int(pods * (1 - policy.value / 100))
        for policy, pods in ((policy, before(policy.period_s)) for policy in rules.policies)
    ]
    return min(allowed) if rules.select == "Max" else max(allowed)


def _limit(named: tuple[int, str]) -> int:
    return named[0]
