"""Saturation: what each term is, which one wins, and what is said of it to people, autoscalers and balancers."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fake_source
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps.telemetry.capacity import Capacity
from fastqps.telemetry.metrics import Metrics
from fastqps.telemetry.metrics.meter import LoadMeter
from fastqps.telemetry.metrics.saturation import CAUSES, OVER_MAX, Curve, Limits

LOAD_PAGE = {
    "fastqps_requests_waiting", "fastqps_requests_running", "fastqps_slot_utilization", "fastqps_saturation_ratio",
    "fastqps_queue_wait_p95_seconds", "fastqps_requests_per_second", "fastqps_ready",
}  # fmt: skip


def capacity(**more: Any) -> Capacity:
    return Capacity("a", "0123456789ab", "cpu", {}, 400, 8, "", "", "", **more)


def load(**given: Any) -> Any:
    waits = given.setdefault("queue_wait_s", [0.0])
    return fake_source.means(**{"step_s": [0.0] * len(waits), **given})


@pytest.mark.parametrize(
    ("given", "cause", "saturation"),
    [
        ({"asked": 200, "in_flight": 1}, "offered", 0.5),
        ({"asked": 200, "in_flight": 6}, "in_flight", 0.75),  # it has become slower
        ({"asked": 2000, "in_flight": 80, "queue_wait_s": [9.0]}, "offered", 5.0),  # so many servers are needed
        ({"queue_wait_s": [0.001, 0.0015]}, "queue_wait", 0.75),  # of the SLO's 20 ms a tenth
        ({"queue_wait_s": [0.004]}, "queue_wait", 1.25),
        ({"dispatcher": 0.6, "asked": 200}, "dispatcher", 0.75),
        ({"frontdoor": 1.0, "dispatcher": 0.9}, "frontdoor", 1.1),
        ({"device": 0.425}, "device", 0.5),
        ({"slots": 0.9, "device": 0.425}, "slots", 0.9),
        ({}, "offered", 0.0),
    ],
)
def test_terms(given: dict[str, Any], cause: str, saturation: float) -> None:
    terms = Limits.of(capacity(slo_p99_s=0.02), 1.0).terms(load(**given))
    assert tuple(terms) == CAUSES[:-1], "it is no edge"
    assert max(terms, key=terms.__getitem__) == cause and terms[cause] == pytest.approx(saturation)


def test_what_needs_no_capacity_holds_without_one() -> None:
    terms = Limits.of(None, 0.005).terms(load(queue_wait_s=[0.004], in_flight=1e6, asked=1e6))
    assert set(CAUSES) - set(terms) == {"offered", "in_flight", "upstreams"}
    assert terms["queue_wait"] == pytest.approx(0.8)
    assert Limits.of(capacity(), 0.005).curves["queue_wait"].knots == ((0.005, 1.0),)  # its file says no SLO


@pytest.mark.parametrize(
    ("wait_s", "step_s", "share"),
    [
        (0.004, 0.0, 0.8),  # no step has ended yet
        (0.26, 0.26, 0.0),  # for the one that runs
        (0.78, 0.26, 0.5),
        (1.3, 0.26, 1.0),
        (0.002, 0.002, 0.0),
        (0.006, 0.002, 0.5),
        (0.0027, 0.0002, 0.5),  # of 5 ms: a step is nothing
        (2.34, 0.26, 1.25),
    ],
)
def test_without_a_budget_it_follows_the_steps(wait_s: float, step_s: float, share: float) -> None:
    """Each model has its own. What every request waits for company is no load."""
    for capacity_found in (None, capacity(), capacity(at_knee={"queue_wait_p95_s": 0.0})):  # its file says no SLO
        terms = Limits.of(capacity_found, None).terms(load(queue_wait_s=[wait_s, 0.1], step_s=[step_s, 0.1]))
        assert terms["queue_wait"] == pytest.approx(share, abs=1e-9)
    given = load(queue_wait_s=[wait_s + 0.05], step_s=[step_s])
    assert Limits.of(None, None, batch_delay_s=0.05).terms(given)["queue_wait"] == pytest.approx(share, abs=1e-9)


def test_who_says_how_long_requests_may_wait() -> None:
    """The SLO that was kept; else what was measured at the knee; else the setting; else the steps."""
    given = load(queue_wait_s=[0.008], step_s=[0.002])
    for known, budget_s, share in (
        (None, None, 0.75),
        (None, 0.01, 0.8),
        (capacity(slo_p99_s=0.16), 0.01, 0.5),
        (capacity(at_knee={"queue_wait_p95_s": 0.016}), None, 0.5),
        (capacity(at_knee={"queue_wait_p95_s": 0.002}), None, 1.5 - 0.5 * 5 / 8),  # the least is 5 ms
    ):
        assert Limits.of(known, budget_s).terms(given)["queue_wait"] == pytest.approx(share)


def test_without_a_file_every_term_rises_with_what_it_is_made_of() -> None:
    """And falls for longer steps only; from nothing to its end, whatever the figures are."""
    rng = random.Random(2)
    limits = Limits.of(None, None, batch_delay_s=0.001)
    for _ in range(100):
        step_s = rng.choice((0.0, 1e-9, 10 ** rng.uniform(-5, 2)))
        told = [limits.terms(load(queue_wait_s=[w], step_s=[step_s]))["queue_wait"] for w in rising(rng, 1e-6, 1e4)]
        assert told == sorted(told) and told[0] >= 0 and told[-1] <= OVER_MAX
        wait_s = 10 ** rng.uniform(-5, 2)
        told = [limits.terms(load(queue_wait_s=[wait_s], step_s=[s]))["queue_wait"] for s in rising(rng, 1e-6, 1e4)]
        assert told == sorted(told, reverse=True)
        for cause in ("device", "dispatcher", "frontdoor", "slots"):
            told = [limits.terms(load(**{cause: x}))[cause] for x in rising(rng, 1e-6, 1.0)]
            assert told == sorted(told) and told[0] >= 0 and told[-1] <= OVER_MAX


def rising(rng: random.Random, least: float, most: float) -> list[float]:
    return [0.0, *sorted(least * (most / least) ** rng.random() for _ in range(30)), most]


@pytest.mark.parametrize(
    ("fixed_s", "item_s", "room"),
    [(150e-6, 12.5e-6, 4), (1.5e-3, 62.5e-6, 8), (4e-3, 250e-6, 64), (18e-3, 62.5e-6, 32), (20e-3, 3.75e-3, 64)],
)
def test_shares_of_what_a_device_can_do_are_told_apart(fixed_s: float, item_s: float, room: int) -> None:
    """A queue in front of one device whose full steps take 0.2, 2, 20, 20 and 260 ms, without a capacity file."""
    told = []
    for share in (0.1, 0.25, 0.5, 0.75, 1.2):
        seen = served(fixed_s, item_s, room, share)
        terms = Limits.of(None, None).terms(load(queue_wait_s=[seen.wait_s], step_s=[seen.step_s]))
        told.append(terms["queue_wait"])
    assert max(told[:4]) <= 0.3  # a usual step's wait is no load; the device's term says how much there is
    assert told[-1] > 1.2


@dataclass(frozen=True)
class Served:
    wait_s: float  # p95
    step_s: float


def served(fixed_s: float, item_s: float, room: int, share: float) -> Served:
    """Requests come by chance; a step takes all that wait, as far as there is room. After 4,000 of them."""
    rng, now, steps, waits = random.Random(3), 0.0, [], []
    rate = share * room / (fixed_s + room * item_s)
    came = deque(itertools.accumulate(rng.expovariate(rate) for _ in range(4000)))
    while came:
        now = max(now, came[0])
        batch = 0
        while came and came[0] <= now and batch < room:
            waits.append(now - came.popleft())
            batch += 1
        steps.append(fixed_s + batch * item_s)
        now += steps[-1]
    late = sorted(waits[2000:])
    return Served(late[int(0.95 * len(late))], sum(steps) / len(steps))


def test_only_the_load_that_is_offered_has_no_end() -> None:
    much = load(asked=4e6, in_flight=1e9, queue_wait_s=[1e9], dispatcher=1.0, frontdoor=1.0, device=1.0, slots=1.0)
    for limits in (Limits.of(None, 0.005), Limits.of(capacity(), 0.005), Limits.of(capacity(**MEASURED), 0.005)):
        terms = limits.terms(much)
        assert terms.pop("offered", 1e4) == 1e4
        assert 1 < max(terms.values()) <= OVER_MAX


def test_the_knee_moves_limits_up_and_never_down() -> None:
    at_knee = {"queue_wait_p95_s": 0.012, "dispatcher": 0.97, "frontdoor": 0.2, "device_load": 0.99}
    limits = Limits.of(capacity(slo_p99_s=0.02, at_knee=at_knee), 0.005)
    terms = limits.terms(
        load(asked=400, in_flight=8, queue_wait_s=[0.012], dispatcher=0.97, frontdoor=0.2, device=0.99)
    )
    assert max(terms.values()) == pytest.approx(1.0)
    assert terms["frontdoor"] == pytest.approx(0.25) and terms["dispatcher"] == pytest.approx(1.0)


# Steps are long: what comes waits for the one that runs, so the queue's wait has a floor. In flight rises ever faster.
MEASURED: dict[str, Any] = {
    "slo_p99_s": 1.2,
    "at_knee": {"queue_wait_p95_s": 0.250, "dispatcher": 0.3, "frontdoor": 0.2, "device_load": 1.0},
    "below_knee": (
        {"share": 0.1, "in_flight": 0.4, "queue_wait_p95_s": 0.120, "dispatcher": 0.10, "device_load": 0.1},
        {"share": 0.5, "in_flight": 3.0, "queue_wait_p95_s": 0.180, "dispatcher": 0.29, "device_load": 0.3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("k", range(3))
def test_a_measured_load_is_its_share_of_the_capacity(k: int) -> None:
    """By each term that limits; a floor under the queue's wait, or one that bends, is no more load than it was."""
    seen = {"share": 1.0, "in_flight": 8.0, **MEASURED["at_knee"]} if k == 2 else MEASURED["below_knee"][k]
    asked, waits = 400 * seen["share"], [seen["queue_wait_p95_s"]]
    given = {name: seen.get(name, 0.0) for name in ("in_flight", "dispatcher", "frontdoor")}
    measured = load(**given, asked=asked, queue_wait_s=waits, device=seen["device_load"])
    terms = Limits.of(capacity(**MEASURED), 0.005).terms(measured)
    for cause in ("offered", "in_flight", "queue_wait", "device"):
        assert terms[cause] == pytest.approx(seen["share"]), cause
    assert max(terms, key=terms.__getitem__) != "frontdoor" and max(terms.values()) == pytest.approx(seen["share"])


@pytest.mark.parametrize(
    ("usual", "seen", "told"),
    [
        (2.0, [], [(1, 0.5), (2, 1.0), (4, 1.25), (1e9, 1.5)]),
        (2.0, [(0.5, 0.9)], [(1, 0.5), (2, 1.0)]),  # the knee's own is missing: nothing is known
        (0.0, [(0.1, 1), (0.5, 2), (1.0, 10)], [(0.5, 0.05), (1, 0.1), (1.5, 0.3), (2, 0.5), (6, 0.75), (10, 1.0)]),
        (1.0, [(0.5, 0.1), (1.0, 0.5)], [(0.2, 0.5), (0.6, 0.75), (1.0, 1.0)]),  # it limits nothing there
        (0.0, [(0.5, 4.0), (1.0, 4.0)], [(2, 0.25), (4, 0.5), (4.6, 1.0)]),  # it hardly rises, and says little
        (0.0, [(0.5, 0.0), (1.0, 4.0)], [(0, 0.0), (2, 0.5), (4, 1.0)]),
        (3.0, [(0.5, 2.0), (1.0, 0.0)], [(0, 0.0), (3, 1.0)]),
    ],
)  # fmt: skip
def test_curves(usual: float, seen: list[tuple[float, float]], told: list[tuple[float, float]]) -> None:
    curve = Curve.of(usual, seen)
    assert [curve.share(figure) for figure, _ in told] == pytest.approx([share for _, share in told])


def test_more_of_anything_is_never_less_load() -> None:
    rng = random.Random(1)
    for _ in range(500):
        shares = sorted(rng.random() for _ in range(rng.randrange(4)))
        curve = Curve.of(rng.choice((0.0, 1.0)) or 0.5, [(s, rng.expovariate(1)) for s in (*shares, 1.0)])
        told = [curve.share(k * 0.01) for k in range(1000)]
        assert told == sorted(told) and told[0] == 0 and told[-1] <= OVER_MAX


def test_meter() -> None:
    """Terms are means; the peak is remembered for 10 s; the load page and the load line say the same."""
    source, said = fake_source.FakeSource(*[fake_source.process()] * 5), {}
    source.segment.set_load = lambda **values: said.update(values)
    meter = LoadMeter(source)
    assert (meter.saturation, meter.advised_replicas, meter.peak) == (0, 0, 0)
    source.load = fake_source.means(asked=280.0, items=300.0, errors=5.0, queue_wait_s=[0.001, 0.002])
    source.window.short = lambda: fake_source.means(asked=600.0)
    meter.tick()
    assert (meter.saturation, meter.cause) == (pytest.approx(0.7), "offered")
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
    source = fake_source.FakeSource(*[fake_source.process()] * 5)
    source.load = fake_source.means(items=123456.789, slots=123456.789, asked=123456.789, queue_wait_s=[1e-9, 9])
    meter = LoadMeter(source)
    found = gauges(meter.page)
    assert set(found) == LOAD_PAGE | {"fastqps_capacity_requests_per_second"}
    assert len(meter.page) <= 1024
    assert found["fastqps_requests_per_second"] == 123456.789 and found["fastqps_requests_waiting"] == 5
    source.capacity = None
    assert set(gauges(LoadMeter(source).page)) == LOAD_PAGE


def test_metrics_say_one_cause() -> None:
    source = fake_source.FakeSource(*[fake_source.process()] * 5)
    source.load = fake_source.means(frontdoor=0.4)
    found = fake_source.samples(source)
    assert {cause: found[f"fastqps_saturation_cause{{cause={cause}}}"] for cause in CAUSES} == {
        **dict.fromkeys(CAUSES, 0.0), "frontdoor": 1.0
    }  # fmt: skip
    assert found["fastqps_saturation_term_ratio{cause=frontdoor}"] == found["fastqps_saturation_ratio"] == 0.5
    assert found["fastqps_device_load_ratio"] == 0
    assert found["fastqps_headroom_requests_per_second"] == 200
    source.capacity = None
    page = Metrics(source).page("")[0].decode()
    assert "headroom" not in page and 'term_ratio{cause="in_flight"}' not in page


def test_a_real_server_under_load_and_after_it(serve: Callable[..., Server]) -> None:
    """While it works, its processes and its load are seen to; counters only grow over a death."""
    server = serve("--dispatchers=1")
    before = server.metrics()
    assert before["fastqps_ready"] == 1
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:

        def seen() -> bool:
            client.predict_batch(["a b c"] * 50)
            return gauges(server.page("/metrics/load"))["fastqps_requests_per_second"] > 0

        until(seen, "the load page shows the load")
    during = server.metrics()
    for role in ("dispatcher", "frontdoor"):
        assert during[f"fastqps_{role}_busy_seconds_total{{0}}"] > before[f"fastqps_{role}_busy_seconds_total{{0}}"]
    assert during["fastqps_saturation_ratio"] > 0
    old = server.child("dispatcher 0")
    old.kill()
    server.until_filled("dispatcher 0", old)
    after = server.metrics()
    counters = [n for n in during if n.split("{")[0].endswith(("_total", "_count", "_bucket", "_sum"))]
    assert len(counters) > 100
    assert not [name for name in counters if after[name] < during[name]]
