"""The saturation of a server: the largest of its utilization terms, and which one that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastqps._core import LoadMeans
from fastqps.telemetry.capacity import Capacity

OFFERED = "offered"
UPSTREAMS = "upstreams"  # of an edge: the mean of their saturations
CAUSES = (OFFERED, "in_flight", "queue_wait", "dispatcher", "frontdoor", "device", "slots", UPSTREAMS)
BUDGET_SHARE = 0.1  # of the SLO's p99: what may be spent on waiting
# Where neither an SLO nor a budget is known: a request waits for the step that runs, at any load; beyond that so many
# more are the limit, but at least the time in which a busy machine wakes a process.
BUDGET_STEPS = 4
BUDGET_LEAST_S = 0.005
# A share of the time. Work comes in bursts: a process or device that is busier than this makes queues.
PROCESS_BUSY_MAX = 0.80
DEVICE_BUSY_MAX = 0.85
# Beyond the knee a queue grows with time, so it shows that there are too few servers, but not how many are missing.
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
    """``rate``: items per second at the knee; None: not known without a measured capacity. ``curves``: by cause; none
    of ``queue_wait`` where the steps say how long that may be. Beside them ``batch_delay_s`` is waited at any load."""

    rate: float | None
    curves: Mapping[str, Curve]
    batch_delay_s: float = 0.0

    @classmethod
    def of(cls, capacity: Capacity | None, queue_budget_s: float | None, batch_delay_s: float = 0.0) -> Limits:
        """``queue_budget_s`` holds where the capacity does not say which SLO it kept; None: nobody said."""
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
            "dispatcher": curve(PROCESS_BUSY_MAX, "dispatcher"),
            "frontdoor": curve(PROCESS_BUSY_MAX, "frontdoor"),
            "device": curve(DEVICE_BUSY_MAX, "device_load"),
            "slots": Curve(((1.0, 1.0),)),
        }
        measured = capacity is not None and capacity.at_knee.get("queue_wait_p95_s", 0) > 0
        if measured or queue_budget_s is not None:
            curves["queue_wait"] = curve(queue_budget_s or BUDGET_LEAST_S, "queue_wait_p95_s")
        if capacity is None:
            return cls(None, curves, batch_delay_s)
        return cls(capacity.rate, {**curves, "in_flight": curve(0.0, "in_flight")}, batch_delay_s)

    def terms(self, load: LoadMeans, upstreams: float | None = None) -> dict[str, float]:
        """The terms by cause, as shares of the capacity. ``load``: of any window. ``upstreams``: how saturated they
        are; None: there are none."""
        waits = zip(load.queue_wait_s, load.step_s, strict=True)
        means = {cause: curve for cause, curve in self.curves.items() if cause != "queue_wait"}
        shares = {cause: curve.share(getattr(load, cause)) for cause, curve in means.items()}
        shares["queue_wait"] = max(self._wait_share(wait_s, step_s) for wait_s, step_s in waits)
        if self.rate is not None:
            shares[OFFERED] = load.asked / self.rate
        if upstreams is not None:
            shares[UPSTREAMS] = upstreams
        return {cause: shares[cause] for cause in CAUSES if cause in shares}

    def _wait_share(self, wait_s: float, step_s: float) -> float:
        """The wait term of one model, whose requests find steps of ``step_s`` running; 0: none has ended yet."""
        if (curve := self.curves.get("queue_wait")) is not None:
            return curve.share(wait_s)
        budget_s = max(BUDGET_LEAST_S, BUDGET_STEPS * step_s)
        return Curve(((budget_s, 1.0),)).share(max(0.0, wait_s - step_s - self.batch_delay_s))
