"""The servers that an edge sends to, and their metrics: each dispatcher has a table of its own, by connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from fastqps._core import UPSTREAM_STATES
from fastqps.telemetry.metrics.families import NS, Edges, Merged, counter, gauge, histogram
from fastqps.telemetry.metrics.source import Source

SERVING = "serving"
EVENTS = ("sent", "answered", "refused", "lost")  # of items
COUNTERS = (*EVENTS, "connects", "bytes_out", "bytes_in")
HOP = ("wire", "queue", "device")  # where an item spends time: not in the server, in its queue, on its device


@dataclass
class Upstream:
    """One address. ``states``: the number of dispatchers that see it so. ``utilization``, ``waiting``, ``running`` and
    ``rtt_ns`` are the newest that it said; 1 is its limit."""

    name: str
    states: Counter[str] = field(default_factory=Counter)
    reason: str = ""  # why nothing is sent to it; "": something is, or nobody said
    in_flight: int = 0
    window: int = 0
    utilization: float = 0.0
    waiting: int = 0
    running: int = 0
    rtt_ns: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # by COUNTERS, since the dispatchers know it
    _heard_ns: int = -1

    @property
    def state(self) -> str:
        """The best one that a dispatcher sees it in: serving, if anything is sent to it."""
        return SERVING if self.states[SERVING] else max(self.states, key=self.states.__getitem__, default="none")

    def add(self, row: Any, *, alive: bool) -> None:
        """Adds what one dispatcher knows. ``alive``: it serves; else only its counters mean something."""
        self.counts.update({name: getattr(row, name) for name in COUNTERS})
        if not alive:
            return
        self.states[row.state] += 1
        self.in_flight += row.in_flight
        self.window += row.window
        if row.state != SERVING:
            self.reason = self.reason or row.reason
        if row.heard_ns > self._heard_ns:
            self._heard_ns, self.rtt_ns = row.heard_ns, row.rtt_ns
            self.utilization = row.utilization_thousandth / 1000
            self.waiting, self.running = row.waiting, row.running


def upstreams(source: Source) -> list[Upstream]:
    """All of them by name, added up over the dispatchers; none of a server that is no edge."""
    by_name: dict[str, Upstream] = {}
    if not source.segment.sizes.upstreams:
        return []
    alive = source.filled()
    for dispatcher in range(source.segment.sizes.dispatchers):
        for row in source.segment.upstreams(dispatcher):
            by_name.setdefault(row.name, Upstream(row.name)).add(row, alive=alive.get(dispatcher, False))
    return [by_name[name] for name in sorted(by_name) if by_name[name].states]


def mean_utilization(servers: Sequence[Upstream]) -> float | None:
    """The mean over those that serve; None: none does, and more edges would not change that."""
    serving = [each.utilization for each in servers if each.state == SERVING]
    return fmean(serving) if serving else None


class UpstreamCounts:
    """Counters that do not fall while a server is known: a row that begins anew goes on where it was, and what a
    dispatcher's row had counted stays after it is gone."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], Mapping[str, int]] = {}  # by dispatcher and name
        self.totals: dict[str, Counter[str]] = {}

    def sample(self, source: Source) -> None:
        """Reads all rows. Call it once a second."""
        sizes, now = source.segment.sizes, dict[tuple[int, str], Mapping[str, int]]()
        for dispatcher in range(sizes.dispatchers if sizes.upstreams else 0):
            for row in source.segment.upstreams(dispatcher):
                now[dispatcher, row.name] = {name: int(getattr(row, name)) for name in COUNTERS}
        for key, counts in now.items():
            before = self._last.get(key, {})
            total = self.totals.setdefault(key[1], Counter())
            for name, count in counts.items():
                then = before.get(name, 0)
                total[name] += count - then if count >= then else count
        names = {name for _, name in now}
        self._last = now
        self.totals = {name: total for name, total in self.totals.items() if name in names}


def upstream_families(source: Source, counts: UpstreamCounts, edges: Edges) -> Iterator[Any]:
    """All families of an edge; of any other server there are none. ``edges``: of times."""
    sizes = source.segment.sizes
    if not sizes.upstreams:
        return
    yield from _gauges(source)
    counts.sample(source)
    items = [((name, event), total[event]) for name, total in counts.totals.items() for event in EVENTS]
    yield counter("upstream_items", "Items by what became of them.", items, "upstream", "event")
    for metric, key, what in (
        ("connects", "connects", "Connections made."),
        ("sent_bytes", "bytes_out", "Bytes to the server."),
        ("received_bytes", "bytes_in", "Bytes from the server."),
    ):
        values = [(name, total[key]) for name, total in counts.totals.items()]
        yield counter(f"upstream_{metric}", what, values, "upstream")
    totals = [source.segment.upstream_totals(dispatcher) for dispatcher in range(sizes.dispatchers)]
    yield counter("upstream_resent", "Items that were sent once more.", sum(each.resent for each in totals))
    unroutable = sum(each.unroutable for each in totals)
    yield counter("upstream_unroutable", "Items that no server was left for.", unroutable)
    what = "Where a sample of the items spends time: not in the server, in its queue, on its device."
    rows = [(part, Merged.of(getattr(each, part) for each in totals)) for part in HOP]
    yield histogram("upstream_duration_seconds", what, rows, edges, "part")


def _gauges(source: Source) -> Iterator[Any]:
    rows = upstreams(source)
    states = [((each.name, state), each.states[state]) for each in rows for state in UPSTREAM_STATES]
    what = "Dispatchers that see the server in this state."
    yield gauge("upstream_state", what, states, "upstream", "state")
    for metric, attribute, scale, what in (
        ("in_flight", "in_flight", 1, "Items that it has not answered."),
        ("window", "window", 1, "Items that it may have."),
        ("utilization_ratio", "utilization", 1, "Its saturation, as it says."),
        ("rtt_seconds", "rtt_ns", NS, "From an echo to its answer."),
    ):
        values = [(each.name, getattr(each, attribute) * scale) for each in rows]
        yield gauge(f"upstream_{metric}", what, values, "upstream")
