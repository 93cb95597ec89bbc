"""How much of its capacity a server uses: the largest of what could be its limit, and which it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.capacity import Capacity

OFFERED = "offered"
CAUSES = (OFFERED, "in_flight", "queue_wait", "dispatcher", "frontdoor", "device", "slots")
BUDGET_SHARE = 0.1  # of the SLO's p99: what may be spent on waiting
# Of the time. Work comes in bursts: a process or device that is busier than this makes queues.
PROCESS_BUSY_MAX = 0.80
DEVICE_BUSY_MAX = 0.85
# Beyond the knee a queue is as long as the overload is old: it says that there are too few servers, not by how many.
OVER_MAX = 1.5
RISE = 1.15  # from one load to the next; what rises by less is noise as much as load, and is taken for less of it


@dataclass(frozen=True)
class Curve:
    """The share of the capacity that a figure stands for: straight lines from nothing through ``knots``, (figure,
    share) both rising, to (the limit, 1); beyond it nearer and nearer to OVER_MAX."""

    knots: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, usual: float, seen: Iterable[tuple[float, float]] = ()) -> Curve:
        """``seen``: (share, figure) as measured, the last one at the knee. Where that is below the ``usual`` limit it
        is something else that limits the server, and all is stretched up to it."""
        measured = [(share, figure) for share, figure in seen if figure > 0]
        if not measured or measured[-1][0] != 1:
            return cls(((usual, 1.0),))
        stretch = max(1.0, usual / measured[-1][1])
        knots: list[tuple[float, float]] = []
        for share, figure in measured:
            least = RISE * knots[-1][0] if knots else 0.0
            knots.append((max(stretch * figure, least), share))
        return cls(tuple(knots))

    def share(self, figure: float) -> float:
        """1: at the limit."""
        below, share_below = 0.0, 0.0
        for at, share in self.knots:
            if figure <= at:
                return share_below + (share - share_below) * (figure - below) / (at - below)
            below, share_below = at, share
        return OVER_MAX - (OVER_MAX - 1) * below / figure


@dataclass(frozen=True)
class Limits:
    """``rate``: items per second at the knee; None: not known without a measured capacity. ``curves``: by cause."""

    rate: float | None
    curves: Mapping[str, Curve]

    @classmethod
    def of(cls, capacity: Capacity | None, queue_budget_s: float) -> Limits:
        """``queue_budget_s`` holds where the capacity does not say which SLO it kept."""
        seen: dict[str, list[tuple[float, float]]] = {}
        if capacity is not None:
            if capacity.slo_p99_s is not None:
                queue_budget_s = BUDGET_SHARE * capacity.slo_p99_s
            for figures in (*capacity.below_knee, {**capacity.at_knee, "in_flight": capacity.in_flight, "share": 1.0}):
                for name, figure in figures.items():
                    seen.setdefault(name, []).append((figures["share"], figure))

        def curve(usual: float, name: str) -> Curve:
            return Curve.of(usual, seen.get(name, ()))

        curves = {
            "queue_wait": curve(queue_budget_s, "queue_wait_p95_s"),
            "dispatcher": curve(PROCESS_BUSY_MAX, "dispatcher"),
            "frontdoor": curve(PROCESS_BUSY_MAX, "frontdoor"),
            "device": curve(DEVICE_BUSY_MAX, "device"),
            "slots": Curve(((1.0, 1.0),)),
        }
        if capacity is None:
            return cls(None, curves)
        return cls(capacity.rate, {"in_flight": curve(0.0, "in_flight"), **curves})

    def terms(self, load: Mapping[str, Any]) -> dict[str, float]:
        """By cause, in shares of the capacity. ``load``: as ``_core.LoadWindow`` says it, of any window."""
        figures = {**load, "queue_wait": max(load["queue_wait_s"])}
        found = {} if self.rate is None else {OFFERED: load["asked"] / self.rate}
        return found | {cause: curve.share(figures[cause]) for cause, curve in self.curves.items()}
