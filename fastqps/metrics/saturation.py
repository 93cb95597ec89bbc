"""How much of its capacity a server uses: the largest of what could be its limit, and which it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.capacity import Capacity

CAUSES = ("in_flight", "queue_wait", "dispatcher", "frontdoor", "device", "slots")
BUDGET_SHARE = 0.1  # of the SLO's p99: what may be spent on waiting
# Of the time. Work comes in bursts: a process or device that is busier than this makes queues.
PROCESS_BUSY_MAX = 0.80
DEVICE_BUSY_MAX = 0.85


@dataclass(frozen=True)
class Limits:
    """Where each term is 1. None: not known without a measured capacity.

    A usual limit gives way where the capacity was measured above it: there the SLO was kept.
    """

    in_flight: float | None
    rate: float | None  # items per second
    queue_wait_s: float  # p95
    dispatcher: float = PROCESS_BUSY_MAX
    frontdoor: float = PROCESS_BUSY_MAX
    device: float = DEVICE_BUSY_MAX

    @classmethod
    def of(cls, capacity: Capacity | None, queue_budget_s: float) -> Limits:
        """``queue_budget_s`` holds where the capacity does not say which SLO it kept."""
        if capacity is None:
            return cls(None, None, queue_budget_s)
        knee = capacity.at_knee
        budget_s = queue_budget_s if capacity.slo_p99_s is None else BUDGET_SHARE * capacity.slo_p99_s
        return cls(
            capacity.in_flight,
            capacity.rate,
            max(budget_s, knee.get("queue_wait_p95_s", 0.0)),
            max(PROCESS_BUSY_MAX, knee.get("dispatcher", 0.0)),
            max(PROCESS_BUSY_MAX, knee.get("frontdoor", 0.0)),
            max(DEVICE_BUSY_MAX, knee.get("device", 0.0)),
        )

    def terms(self, load: Mapping[str, Any]) -> dict[str, float]:
        """By cause. ``load``: as ``_core.LoadWindow`` says it, of any window."""
        found = {
            "queue_wait": max(load["queue_wait_s"]) / self.queue_wait_s,
            "dispatcher": load["dispatcher"] / self.dispatcher,
            "frontdoor": load["frontdoor"] / self.frontdoor,
            "device": load["device"] / self.device,
            "slots": load["slots"],
        }
        if self.in_flight is None or self.rate is None:
            return found
        # What was refused for want of capacity was asked for, too: it makes the number of servers that are needed.
        asked = (load["answered"] + load["refused"]) / self.rate
        return {"in_flight": max(load["in_flight"] / self.in_flight, asked), **found}
