"""The load of a server, measured ten times a second for metrics, balancers and the autoscaler; the fill of batches.

Both are means of the last seconds, which a counter alone cannot show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TypedDict

from fastqps.telemetry.metrics.saturation import Limits
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.upstreams import mean_utilization, upstreams
from fastqps.telemetry.metrics.usage import Usage

TICK_S = 0.1
WINDOW_S = 10
_TICKS = round(WINDOW_S / TICK_S)
_TICKS_PER_S = round(1 / TICK_S)


class Load(TypedDict):
    """How much of its capacity a server uses, as means of 10 s. ``device``: the share of time that the busiest one
    would need in full steps. None: the capacity is not known."""

    saturation: float
    cause: str
    terms: dict[str, float]
    device: float
    capacity: float | None
    headroom: float | None


class LoadMeter:
    """``terms``: by cause, means of 10 s. ``peak``: the highest saturation of any second within them. ``page``: the
    text of ``/metrics/load``."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._window = source.window
        self._limits = Limits.of(source.capacity, source.queue_budget_s, source.batch_delay_s)
        self._peaks: deque[float] = deque(maxlen=_TICKS)
        self._ticks = 0
        self.usage = Usage(source.segment.total_bytes, source.processes)
        self._read()

    def tick(self) -> None:
        """Ten times a second, in the supervisor."""
        self._source.busy.update()
        self._window.look()
        self._ticks += 1
        if self._ticks % _TICKS_PER_S == 0:
            self.usage.look()
        self._read()
        self._source.segment.set_load(
            utilization=self.saturation,
            cpu_utilization=self.usage.cpu_utilization,
            memory_utilization=self.usage.memory_utilization,
            requests_per_second=self.load.items,
            errors_per_second=self.load.errors,
            queue_wait_s=max(self.load.queue_wait_s),
            items_waiting=self.items_waiting,
            items_running=self.items_running,
        )

    @property
    def saturation(self) -> float:
        """1 at the knee; the mean of the last 10 s."""
        return self.terms[self.cause]

    @property
    def peak(self) -> float:
        """The highest in any second of the last 10 s."""
        return max(self._peaks)

    @property
    def headroom(self) -> float | None:
        """Items per second that still fit; None: the capacity is not known."""
        capacity = self._source.capacity
        return None if capacity is None else capacity.rate * max(0.0, 1 - self.saturation)

    @property
    def advised_replicas(self) -> float:
        """The number of such servers that this one's load needs, as a fraction. The sum over servers is their right
        number. Of an edge only its processes count: where its upstreams are full, requests wait here, and more edges
        would not help."""
        edge = bool(self._source.segment.sizes.upstreams)
        own = max(self.terms["dispatcher"], self.terms["frontdoor"]) if edge else self.saturation
        return own / self._source.target_saturation

    def shown(self) -> Load:
        """The load for the live page."""
        return Load(
            saturation=self.saturation,
            cause=self.cause,
            terms=self.terms,
            device=self.load.device,
            capacity=self._source.capacity.rate if self._source.capacity else None,
            headroom=self.headroom,
        )

    def _read(self) -> None:
        self.load = self._window.long()
        others = mean_utilization(upstreams(self._source))
        self.terms = self._limits.terms(self.load, others)
        self.cause = max(self.terms, key=self.terms.__getitem__)
        self._peaks.append(max(self._limits.terms(self._window.short(), others).values()))
        self.items_waiting, self.items_running = self._window.items_waiting, self._window.items_running
        self.page = load_page(
            {
                "requests_waiting": self.items_waiting,
                "requests_running": self.items_running,
                "slot_utilization": self.load.slots,
                "saturation_ratio": self.saturation,
                "queue_wait_p95_seconds": max(self.load.queue_wait_s),
                "requests_per_second": self.load.items,
                "ready": float(self._source.ready),
                "capacity_requests_per_second": self._source.capacity.rate if self._source.capacity else None,
            }
        )


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def load_page(values: Mapping[str, float | None]) -> bytes:
    """The page with one gauge for each name, without labels; None is left out. It is below 1 KiB."""
    shown = ((f"fastqps_{name}", value) for name, value in values.items() if value is not None)
    return "".join(f"# TYPE {name} gauge\n{name} {value:.9g}\n" for name, value in shown).encode()


class FillWindow:
    """How full the batches of the last WINDOW_S seconds were, by model. Sampled once a second."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._samples: deque[list[tuple[int, int]]] = deque([self._totals()], maxlen=WINDOW_S + 1)

    def sample(self) -> None:
        """Once a second."""
        self._samples.append(self._totals())

    def ratios(self) -> list[float | None]:
        """The tokens in batches divided by the room for them. None: no batch in the window."""
        first, last = self._samples[0], self._totals()
        changes = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(first, last, strict=True)]
        return [tokens / room if room else None for tokens, room in changes]

    def _totals(self) -> list[tuple[int, int]]:
        source = self._source
        totals = [(0, 0)] * len(source.models)
        doors = source.segment.sizes.doors
        for d in range(source.segment.sizes.dispatchers):
            stats, model = source.segment.stats(doors + d), source.model_of(d)
            tokens, room = totals[model]
            totals[model] = (tokens + stats.counters["step_tokens"], room + stats.counters["step_capacity_tokens"])
        return totals
