"""KEDA: an HPA on a sum that KEDA asks Prometheus for, and KEDA's own switch between none and one.

After KEDA 2.21. Between one pod and many its HPA decides, and asks for the metric each time; KEDA itself looks every
``polling_s`` and only whether there is anything to do at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fastqps.autoscale.behavior import DEFAULT, Behavior
from fastqps.autoscale.hpa import Hpa, Spec
from fastqps.autoscale.proposals import NoMetric, from_total, from_value, milli

Read = Callable[[], float | None]  # what the query says; None: nothing


@dataclass(frozen=True)
class Fallback:
    """After ``failures`` failures in a row: as if ``replicas`` were needed, or as many as there are if ``behavior``
    says so."""

    failures: int
    replicas: int
    behavior: Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"] = "static"

    def wanted(self, current: int) -> int:
        """Pods to ask for."""
        match self.behavior:
            case "currentReplicas":
                return current
            case "currentReplicasIfHigher":
                return max(current, self.replicas)
            case "currentReplicasIfLower":
                return min(current, self.replicas)
        return self.replicas


@dataclass(frozen=True)
class Trigger:
    """Of type prometheus. ``threshold``: of each pod where ``kind`` is AverageValue, and then the query has to be a
    total; of the whole where it is Value. ``ignore_null``: an empty answer is 0."""

    threshold: float
    kind: Literal["AverageValue", "Value"] = "AverageValue"
    activation: float = 0.0
    ignore_null: bool = True
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        if milli(self.threshold) < 1:
            raise ValueError(f"a threshold of {self.threshold:g}: at least 0.001")
        if self.fallback and self.kind != "AverageValue":
            raise ValueError("a fallback needs the metric type AverageValue")


class Keda:
    """One ScaledObject. ``replicas_min`` may be 0."""

    def __init__(
        self,
        trigger: Trigger,
        replicas_min: int,
        replicas_max: int,
        behavior: Behavior = DEFAULT,
        *,
        polling_s: float = 30.0,
        cooldown_s: float = 300.0,
    ) -> None:
        self._trigger = trigger
        self._min = replicas_min
        self._hpa = Hpa(Spec(max(1, replicas_min), replicas_max, behavior))
        self._polling_s, self._cooldown_s = polling_s, cooldown_s
        self._poll_s = -math.inf  # when it looked last
        self._active_s = -math.inf  # when there was something to do last
        self._failures = 0

    def decide(self, now_s: float, replicas: int, ready: int, read: Read) -> int:
        """Pods from now on; to be called at each of its HPA's turns."""
        if now_s - self._poll_s >= self._polling_s:
            self._poll_s = now_s
            replicas = self._switched(now_s, replicas, read)
        return self._hpa.decide(now_s, replicas, [lambda: self._proposal(replicas, ready, read)])

    def _switched(self, now_s: float, replicas: int, read: Read) -> int:
        """From none to one and back."""
        found = self._value(read)
        if found is None:
            fallback = self._trigger.fallback
            return fallback.wanted(replicas) if fallback and not replicas and self._is_lost() else replicas
        if found > self._trigger.activation:
            self._active_s = now_s
            return replicas or max(1, self._min)
        if not self._min and now_s - self._active_s > self._cooldown_s:
            return 0
        return max(replicas, self._min)

    def _proposal(self, replicas: int, ready: int, read: Read) -> int:
        trigger, target = self._trigger, milli(self._trigger.threshold)
        found, tolerance = self._value(read), self._hpa.spec.tolerance
        if found is None:
            if trigger.fallback is None or not self._is_lost():
                raise NoMetric("the query failed")
            return from_total(target * trigger.fallback.wanted(replicas), target, replicas, tolerance)
        if trigger.kind == "Value":
            return from_value(milli(found), target, replicas, ready, tolerance)
        return from_total(milli(found), target, replicas, tolerance)

    def _value(self, read: Read) -> float | None:
        """None: a failure, which is counted."""
        found = read()
        if found is None and self._trigger.ignore_null:
            found = 0.0
        self._failures = 0 if found is not None else self._failures + 1
        return found

    def _is_lost(self) -> bool:
        fallback = self._trigger.fallback
        return fallback is not None and self._failures >= fallback.failures
