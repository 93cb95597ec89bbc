"""The number of pods that one metric asks for: the formulas of Kubernetes' autoscaler, in its own integer arithmetic.

All amounts are whole thousandths (``milli``), and averages are cut down to such, because the API knows no others: a
metric that lives below a thousandth of its unit cannot be scaled on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fastqps.autoscale.behavior import TOLERANCE
from fastqps.autoscale.pods import Tally


class NoMetric(Exception):
    """Nothing can be said: the metric could not be had."""


@dataclass(frozen=True)
class Tolerance:
    """The allowed distance of a ratio from 1, in each direction."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def holds(self, ratio: float) -> bool:
        """Nothing is to be done."""
        return 1 - self.down <= ratio <= 1 + self.up


EVEN = Tolerance()


def milli(value: float) -> int:
    """Converts a number as metric adapters do: to thousandths, cut off."""
    return int(value * 1000)


def from_pods(seen: Tally, target: int, current: int, tolerance: Tolerance = EVEN) -> int:
    """A metric of type Pods (or Resource with an AverageValue): the mean over pods should be ``target``, in
    thousandths. Raises ``NoMetric``."""
    if not seen.counted:
        raise NoMetric("no pod has shown the metric")
    ratio = (seen.usage // seen.counted) / target
    if not (seen.unready and ratio > 1) and not seen.missing:
        return current if tolerance.holds(ratio) else math.ceil(ratio * seen.counted)
    usage, counted = seen.usage, seen.counted
    if seen.missing:
        usage += target * seen.missing if ratio < 1 else 0
        counted += seen.missing if ratio != 1 else 0
    if seen.unready and ratio > 1:
        counted += seen.unready
    return _damped(ratio, (usage // counted) / target, counted, current, tolerance)


def from_resource(seen: Tally, target_percent: int, current: int, tolerance: Tolerance = EVEN) -> int:
    """A metric of type Resource: pods together should use ``target_percent`` of what they request. ``NoMetric``."""
    if not seen.counted or not seen.requests:
        raise NoMetric("no pod has shown its usage")
    ratio = (seen.usage * 100 // seen.requests) / target_percent
    if not (seen.unready and ratio > 1) and not seen.missing:
        return current if tolerance.holds(ratio) else math.ceil(ratio * seen.counted)
    usage, requests, counted = seen.usage, seen.requests, seen.counted
    if seen.missing and ratio != 1:
        usage += seen.missing_requests * max(100, target_percent) // 100 if ratio < 1 else 0
        requests += seen.missing_requests
        counted += seen.missing
    if seen.unready and ratio > 1:
        requests += seen.unready_requests
        counted += seen.unready
    return _damped(ratio, (usage * 100 // requests) / target_percent, counted, current, tolerance)


def _damped(before: float, after: float, counted: int, current: int, tolerance: Tolerance) -> int:
    """The proposal with assumed values for pods without metrics. It never reverses or exceeds the plain one."""
    if tolerance.holds(after) or (before < 1 < after) or (after < 1 < before):
        return current
    wanted = math.ceil(after * counted)
    if (after < 1 and wanted > current) or (after > 1 and wanted < current):
        return current
    return wanted
