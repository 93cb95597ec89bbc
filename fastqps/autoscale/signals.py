"""The signals that can drive an autoscaler, and how they get there: as what kind of metric, how late, over how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastqps.autoscale.cluster import Cohort
from fastqps.autoscale.pods import Pods
from fastqps.autoscale.proposals import milli


@dataclass(frozen=True)
class Path:
    """From a pod to the autoscaler. ``scrape_s``: how often the pod is asked; ``delay_s``: on the way."""

    scrape_s: float = 5.0
    delay_s: float = 1.0

    def seen_s(self, now_s: float) -> float:
        """When the currently visible values were scraped."""
        return (now_s - self.delay_s) // self.scrape_s * self.scrape_s


SCRAPED = Path()
METRICS_SERVER = Path(scrape_s=15.0, delay_s=2.0)


@dataclass(frozen=True)
class Signal:
    """``key``: in a recording; ``kind``: how an HPA reads it; ``window_s``: the mean over which it is."""

    key: str
    name: str
    kind: Literal["pods", "resource"]
    window_s: float = 10.0
    path: Path = SCRAPED


SIGNALS: dict[str, Signal] = {
    signal.key: signal
    for signal in (
        Signal("saturation", "saturation", "pods"),
        Signal("cpu", "CPU", "resource", window_s=15.0, path=METRICS_SERVER),
        Signal("duty", "GPU utilization", "pods"),
        Signal("waiting", "queue length", "pods"),
        Signal("in_flight", "concurrency", "pods"),
        Signal("queue_wait_s", "queue wait p95", "pods"),
        Signal("rate", "requests per second", "pods"),
    )
}


class Trail:
    """The values of one signal of a pod by tick, and those visible for pods of some age.

    Values are of a pod that has its share of the load; one that has just become ready shows a part of it, because its
    window reaches back into the time when it had none.
    """

    def __init__(self, signal: Signal, tick_s: float, begin_s: float) -> None:
        self._signal = signal
        self._tick_s, self._begin_s = tick_s, begin_s
        self._sums = [0.0]

    def append(self, value: float) -> None:
        """Appends the value of the next tick."""
        self._sums.append(self._sums[-1] + value)

    def pods(self, cohorts: list[Cohort], now_s: float, cpu_request: int) -> list[Pods]:
        """The pods as the autoscaler sees them now."""
        signal = self._signal
        seen_s = signal.path.seen_s(now_s)
        found = []
        for cohort in cohorts:
            if not cohort.count:
                continue
            pending = cohort.running_s > now_s
            usage = None if pending or cohort.running_s > seen_s else milli(self._mean(cohort.ready_s, seen_s))
            found.append(
                Pods(
                    None if usage is None else usage * cpu_request if signal.kind == "resource" else usage,
                    count=cohort.count,
                    request=1000 * cpu_request,
                    phase="Pending" if pending else "Running",
                    ready=cohort.ready_s <= now_s,
                    started_s=cohort.running_s,
                    turned_s=cohort.ready_s if cohort.ready_s <= now_s else cohort.running_s,
                    sampled_s=seen_s,
                    window_s=signal.window_s,
                )
            )
        return found

    def _mean(self, ready_s: float, until_s: float) -> float:
        """Over the window before ``until_s``, of a pod that is ready since ``ready_s``."""
        since_s = max(until_s - self._signal.window_s, ready_s)
        if since_s >= until_s:
            return 0.0
        # Rounded, or 0.8 might be a little less, and 0.799 when cut off.
        return round((self._sum(until_s) - self._sum(since_s)) / self._signal.window_s, 9)

    def _sum(self, at_s: float) -> float:
        """From the beginning until then, in value × seconds."""
        place = (at_s - self._begin_s) / self._tick_s
        k = min(max(0, int(place)), len(self._sums) - 1)
        after = self._sums[min(k + 1, len(self._sums) - 1)]
        return self._tick_s * (self._sums[k] + max(0.0, min(1.0, place - k)) * (after - self._sums[k]))
