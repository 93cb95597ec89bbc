"""What an edge says of its upstreams: on its metrics page, on its live page, and in its saturation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import fake_source
import pytest
from fake_source import FakeSource, process, samples

from fastqps._core import UPSTREAM_STATES
from fastqps.process.served_models import Readiness
from fastqps.telemetry.live.view import view
from fastqps.telemetry.metrics.meter import LoadMeter
from fastqps.telemetry.metrics.upstreams import UpstreamCounts, mean_utilization, upstreams

pytestmark = pytest.mark.compute


def row(name: str, state: str = "serving", **more: Any) -> SimpleNamespace:
    numbers = (
        "in_flight", "window", "utilization_thousandth", "waiting", "running", "rtt_ns", "heard_ns", "sent", "answered",
        "refused", "lost", "connects", "bytes_out", "bytes_in",
    )  # fmt: skip
    assert more.keys() <= {*numbers, "reason"} and state in UPSTREAM_STATES
    return SimpleNamespace(**{**dict.fromkeys(numbers, 0), "name": name, "state": state, "reason": "", **more})


class Edge(FakeSource):
    """An edge. Dispatchers 0 and 1 serve, 2 does not."""

    def __init__(self) -> None:
        super().__init__(*(process() for _ in range(5)))
        self.segment.sizes.upstreams = 1

    def readiness(self) -> Readiness:
        return Readiness((), (), (), answers=True)


@pytest.fixture
def edge() -> Edge:
    found = Edge()
    found.upstreams = [
        [row("a:1", in_flight=3, window=64, utilization_thousandth=500, rtt_ns=80_000, heard_ns=5, sent=9, bytes_out=7),
         row("b:1", "mismatch", reason="it serves m@1", heard_ns=4, connects=2)],
        [row("a:1", in_flight=4, window=32, utilization_thousandth=900, rtt_ns=60_000, heard_ns=6, sent=6, answered=4)],
        [row("a:1", "connecting", in_flight=9, sent=100), row("gone:1", sent=3)],
    ]  # fmt: skip
    return found


def test_rows_are_added_up_by_name(edge: Edge) -> None:
    a, b = upstreams(edge)
    assert (a.name, a.state, a.states["serving"], a.in_flight, a.window) == ("a:1", "serving", 2, 7, 96)
    assert (a.utilization, a.rtt_ns, a.reason) == (0.9, 60_000, "") and a.counts["sent"] == 115
    assert (b.state, b.reason) == ("mismatch", "it serves m@1")
    assert mean_utilization([a, b]) == 0.9 and mean_utilization([b]) is None
    edge.segment.sizes.upstreams = 0
    assert upstreams(edge) == []


def test_the_page(edge: Edge) -> None:
    found = {name: value for name, value in samples(edge).items() if name.startswith("fastqps_upstream")}
    for state in UPSTREAM_STATES:
        assert found[f"fastqps_upstream_state{{state={state},upstream=a:1}}"] == 2 * (state == "serving")
    assert found["fastqps_upstream_state{state=mismatch,upstream=b:1}"] == 1
    assert found["fastqps_upstream_in_flight{upstream=a:1}"] == 7
    assert found["fastqps_upstream_window{upstream=a:1}"] == 96
    assert found["fastqps_upstream_utilization_ratio{upstream=a:1}"] == 0.9
    assert found["fastqps_upstream_rtt_seconds{upstream=a:1}"] == pytest.approx(60e-6)
    assert found["fastqps_upstream_items_total{event=sent,upstream=a:1}"] == 115
    assert found["fastqps_upstream_items_total{event=answered,upstream=a:1}"] == 4
    assert found["fastqps_upstream_connects_total{upstream=b:1}"] == 2
    assert found["fastqps_upstream_sent_bytes_total{upstream=a:1}"] == 7
    assert (found["fastqps_upstream_resent_total"], found["fastqps_upstream_unroutable_total"]) == (6, 3)
    assert found["fastqps_upstream_duration_seconds_count{part=wire}"] == 3
    assert found["fastqps_upstream_duration_seconds_sum{part=device}"] == pytest.approx(3e-3)
    edge.segment.sizes.upstreams = 0
    assert not [name for name in samples(edge) if "upstream" in name and "cause" not in name]


def test_counters_do_not_fall_while_a_server_is_known(edge: Edge) -> None:
    counts = UpstreamCounts()
    for rows, sent in (
        ([[row("a", sent=10)], [row("a", sent=5)]], 15),
        ([[row("a", sent=12)], []], 17),  # dispatcher 1 does not know it any more
        ([[row("a", sent=3)], []], 20),  # dispatcher 0 was restarted
        ([[row("a", sent=4)], [row("a", sent=2)]], 23),
    ):
        edge.upstreams[:2], edge.upstreams[2] = rows, []
        counts.sample(edge)
        assert counts.totals["a"]["sent"] == sent
    edge.upstreams = [[row("b", sent=1)], [], []]
    counts.sample(edge)
    assert list(counts.totals) == ["b"], "names are bounded by the rows"


def test_saturation_counts_the_upstreams_and_advice_does_not(edge: Edge) -> None:
    edge.load = fake_source.means(frontdoor=0.4)
    meter = LoadMeter(edge)
    assert (meter.cause, meter.saturation, meter.peak) == ("upstreams", 0.9, 0.9)
    assert meter.advised_replicas == pytest.approx(0.5 / 0.5), "of the front door's own, by the target"
    edge.upstreams = [[row("a", "connecting", utilization_thousandth=900)], [], []]
    meter.tick()
    assert meter.cause == "frontdoor" and "upstreams" not in meter.terms


def test_the_live_page(edge: Edge) -> None:
    before = fake_source.counts(edge)
    edge.upstreams[0][0] = row("a:1", in_flight=1, window=64, heard_ns=9, rtt_ns=50_000, sent=30, bytes_out=1007)
    edge.upstreams[1].append(row("new:1", sent=1000))
    a, b, new = view(before, fake_source.counts(edge, 2.0)).upstreams
    assert (a.name, a.state, a.rates["sent"], a.sent_bytes, a.rtt) == ("a:1", "serving", 10.5, 500, 50)
    assert (b.state, b.reason, b.rtt) == ("mismatch", "it serves m@1", None)
    assert new.rates["sent"] == 0, "its first look has nothing to compare with"
