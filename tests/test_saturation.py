"""Saturation: what each term is, which one wins, and what is said of it to people, autoscalers and balancers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import test_metrics
from prometheus_client.parser import text_string_to_metric_families
from serving import Server, until

import fastqps
from fastqps.capacity import Capacity
from fastqps.metrics import Metrics
from fastqps.metrics.meter import LoadMeter
from fastqps.metrics.saturation import CAUSES, Limits

LOAD_PAGE = {
    "fastqps_requests_waiting", "fastqps_requests_running", "fastqps_slot_utilization", "fastqps_saturation_ratio",
    "fastqps_queue_wait_p95_seconds", "fastqps_requests_per_second", "fastqps_ready",
}  # fmt: skip


def capacity(**more: Any) -> Capacity:
    return Capacity("a", "0123456789ab", "cpu", {}, 400, 8, "", "", "", **more)


def load(**given: Any) -> dict[str, Any]:
    found = dict.fromkeys(("answered", "refused", "in_flight", "slots", "dispatcher", "frontdoor", "device"), 0.0)
    return {**found, "queue_wait_s": [0.0], **given}


@pytest.mark.parametrize(
    ("given", "cause", "saturation"),
    [
        ({"answered": 200, "in_flight": 1}, "in_flight", 0.5),
        ({"answered": 200, "in_flight": 6}, "in_flight", 0.75),  # it has become slower
        ({"answered": 400, "refused": 400, "in_flight": 8}, "in_flight", 2.0),  # twice as many servers are needed
        ({"queue_wait_s": [0.001, 0.003]}, "queue_wait", 1.5),  # of the SLO's 20 ms
        ({"dispatcher": 0.6, "answered": 200}, "dispatcher", 0.75),
        ({"frontdoor": 1.0, "dispatcher": 0.9}, "frontdoor", 1.25),
        ({"device": 0.425}, "device", 0.5),
        ({"slots": 0.9, "device": 0.425}, "slots", 0.9),
        ({}, "in_flight", 0.0),
    ],
)
def test_terms(given: dict[str, Any], cause: str, saturation: float) -> None:
    terms = Limits.of(capacity(slo_p99_s=0.02), 1.0).terms(load(**given))
    assert tuple(terms) == CAUSES
    assert max(terms, key=terms.__getitem__) == cause and terms[cause] == pytest.approx(saturation)


def test_what_needs_no_capacity_holds_without_one() -> None:
    terms = Limits.of(None, 0.005).terms(load(queue_wait_s=[0.004], in_flight=1e6, answered=1e6))
    assert "in_flight" not in terms and terms["queue_wait"] == pytest.approx(0.8)
    assert Limits.of(capacity(), 0.005).queue_wait_s == 0.005  # its file does not say which SLO was kept


def test_the_knee_moves_limits_up_and_never_down() -> None:
    at_knee = {"queue_wait_p95_s": 0.012, "dispatcher": 0.97, "frontdoor": 0.2, "device": 0.99}
    limits = Limits.of(capacity(slo_p99_s=0.02, at_knee=at_knee), 0.005)
    terms = limits.terms(
        load(answered=400, in_flight=8, queue_wait_s=[0.012], dispatcher=0.97, frontdoor=0.2, device=0.99)
    )
    assert max(terms.values()) == pytest.approx(1.0)
    assert limits.frontdoor == 0.8 and limits.dispatcher == 0.97


def test_meter() -> None:
    """Terms are means; the peak is remembered for 10 s; the load page and the load line say the same."""
    source, said = test_metrics.FakeSource(*[test_metrics.process()] * 5), {}
    source.segment.set_load = lambda **values: said.update(values)
    meter = LoadMeter(source)
    assert (meter.saturation, meter.advised_replicas, meter.peak) == (0, 0, 0)
    source.load = {**source.load, "answered": 280.0, "items": 300.0, "errors": 5.0, "queue_wait_s": [0.001, 0.002]}
    source.window.short = lambda: {**source.load, "answered": 600.0}
    meter.tick()
    assert (meter.saturation, meter.cause) == (pytest.approx(0.7), "in_flight")
    assert meter.peak == pytest.approx(1.5) and meter.headroom == pytest.approx(120)
    assert meter.advised_replicas == pytest.approx(1.4)  # its target is 0.5
    assert said["utilization"] == pytest.approx(0.7) and said["requests_per_second"] == 300
    assert (said["errors_per_second"], said["queue_wait_s"], said["items_waiting"]) == (5, 0.002, 5)
    assert 0 <= said["cpu_utilization"] <= 1 and 0 < said["memory_utilization"] <= 1
    source.window.short = lambda: source.load
    for _ in range(99):
        meter.tick()
    assert meter.peak == pytest.approx(1.5)
    meter.tick()
    assert meter.peak == pytest.approx(0.7)


def gauges(page: bytes) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(page.decode()):
        assert family.type == "gauge"
        (sample,) = family.samples
        assert not sample.labels
        found[sample.name] = sample.value
    return found


def test_load_page() -> None:
    source = test_metrics.FakeSource(*[test_metrics.process()] * 5)
    source.load = {
        **source.load,
        **dict.fromkeys(("items", "slots", "answered"), 123456.789),
        "queue_wait_s": [1e-9, 9],
    }
    meter = LoadMeter(source)
    found = gauges(meter.page)
    assert set(found) == LOAD_PAGE | {"fastqps_capacity_requests_per_second"}
    assert len(meter.page) <= 1024
    assert found["fastqps_requests_per_second"] == 123456.789 and found["fastqps_requests_waiting"] == 5
    source.capacity = None
    assert set(gauges(LoadMeter(source).page)) == LOAD_PAGE


def test_metrics_say_one_cause() -> None:
    source = test_metrics.FakeSource(*[test_metrics.process()] * 5)
    source.load = {**source.load, "frontdoor": 0.4}
    found = test_metrics.samples(source)
    assert {cause: found[f"fastqps_saturation_cause{{cause={cause}}}"] for cause in CAUSES} == {
        **dict.fromkeys(CAUSES, 0.0), "frontdoor": 1.0
    }  # fmt: skip
    assert found["fastqps_saturation_term_ratio{cause=frontdoor}"] == found["fastqps_saturation_ratio"] == 0.5
    assert found["fastqps_headroom_requests_per_second"] == 200
    source.capacity = None
    page = Metrics(source).page("")[0].decode()
    assert "headroom" not in page and 'term_ratio{cause="in_flight"}' not in page


@pytest.mark.parametrize(
    ("value", "message"), [("0", "0 is not above 0"), ("1.5", "1.5 is not"), ("x", "not a number")]
)
def test_a_target_that_cannot_be(value: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fastqps", "serve", "--target-saturation", value],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--target-saturation" in done.stderr and message in done.stderr


def test_a_real_server_under_load_and_after_it(serve: Callable[..., Server]) -> None:
    """While it works, its processes and its load are seen to; counters only grow over a death."""
    server = serve("--dispatchers=1")
    before = server.metrics()
    assert before["fastqps_ready"] == 1
    with fastqps.Client(server.address) as client:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            client.predict_batch(["a b c"] * 50, timeout_s=10)

        def seen() -> bool:
            return gauges(server.page("/metrics/load"))["fastqps_requests_per_second"] > 0

        until(seen, 3.0, "the load page shows the load")
    during = server.metrics()
    for role in ("dispatcher", "frontdoor"):
        assert during[f"fastqps_{role}_busy_seconds_total{{0}}"] > before[f"fastqps_{role}_busy_seconds_total{{0}}"]
    assert during["fastqps_saturation_ratio"] > 0
    server.child("dispatcher 0").kill()
    until(lambda: server.metrics()["fastqps_restarts_total{dispatcher}"] == 1, 20.0, "a new dispatcher")
    until(lambda: server.ready("dispatcher 0"), 20.0, "it is ready")
    after = server.metrics()
    counters = [n for n in during if n.split("{")[0].endswith(("_total", "_count", "_bucket", "_sum"))]
    assert len(counters) > 100
    assert not [name for name in counters if after[name] < during[name]]
