"""Pods as an autoscaler sees them: which of them count, which are set aside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

CPU_INITIALIZATION_S = 300.0  # --horizontal-pod-autoscaler-cpu-initialization-period
INITIAL_READINESS_S = 30.0  # --horizontal-pod-autoscaler-initial-readiness-delay


@dataclass(frozen=True)
class Pods:
    """``count`` pods that are alike. Usage and requests are in thousandths, as the API has them; no usage: no metric
    of these pods has been seen."""

    usage: int | None
    count: int = 1
    request: int = 0
    phase: Literal["Pending", "Running", "Failed"] = "Running"
    ready: bool = True
    deleted: bool = False
    started_s: float | None = None
    turned_s: float = 0.0  # when they became what ``ready`` says
    sampled_s: float = 0.0  # until when the usage was measured
    window_s: float = 0.0  # and for how long


@dataclass(frozen=True)
class Tally:
    """Sums over pods: usage, requests and their number, of those that count; those set aside."""

    usage: int = 0
    requests: int = 0
    counted: int = 0
    unready: int = 0
    unready_requests: int = 0
    missing: int = 0
    missing_requests: int = 0


def tally(pods: Iterable[Pods], now_s: float, *, cpu: bool = False, initialization_s: float = CPU_INITIALIZATION_S,
          readiness_s: float = INITIAL_READINESS_S) -> Tally:  # fmt: skip
    """Pods on their way out are as if they were not there. For CPU alone it matters whether a pod is ready."""
    usage = requests = counted = unready = unready_requests = missing = missing_requests = 0
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            continue
        if pod.phase == "Pending" or (
            pod.usage is not None and cpu and _is_new(pod, now_s, initialization_s, readiness_s)
        ):
            unready += pod.count
            unready_requests += pod.count * pod.request
        elif pod.usage is None:
            missing += pod.count
            missing_requests += pod.count * pod.request
        else:
            counted += pod.count
            usage += pod.count * pod.usage
            requests += pod.count * pod.request
    return Tally(usage, requests, counted, unready, unready_requests, missing, missing_requests)


def _is_new(pod: Pods, now_s: float, initialization_s: float, readiness_s: float) -> bool:
    """Whether a pod is so new that its CPU use may be that of its start."""
    if pod.started_s is None:
        return True
    if pod.started_s + initialization_s > now_s:
        return not pod.ready or pod.sampled_s < pod.turned_s + pod.window_s
    return not pod.ready and pod.started_s + readiness_s > pod.turned_s
