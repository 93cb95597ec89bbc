"""What a server says of a measured time: from two pages to the fields of a point, by hand."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from serving import until

from fastqps.bench.measure.server_side import Look, Looks, describe
from fastqps.bench.measure.target import Target
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerError, ServerProcess
from fastqps.telemetry.scrape import Scrape

BUSY, IDLE = "fastqps_device_busy_seconds_total", "fastqps_device_idle_seconds_total"


def page(at_s: float, values: dict[tuple[Any, ...], float]) -> Scrape:
    """``(name, "label=value", …): value``."""
    samples = {(name, tuple(sorted(tuple(p.split("=")) for p in labels))): v for (name, *labels), v in values.items()}
    return Scrape(samples, at_s)  # type: ignore[arg-type]


def described(before: dict[tuple[Any, ...], float], after: dict[tuple[Any, ...], float], **point: Any) -> Point:
    """After ten seconds."""
    found = Point("x", **point)
    describe(found, Look(page(100.0, before), None, 100.0), Look(page(110.0, after), None, 110.0))
    return found


def device(name: str, dispatcher: int, busy: float, **idle: float) -> dict[tuple[Any, ...], float]:
    own = (f"device={name}", f"dispatcher={dispatcher}")
    return {(BUSY, *own): busy} | {(IDLE, *own, f"reason={reason}"): s for reason, s in idle.items()}


def test_one_dispatcher_is_its_device() -> None:
    before, after = device("cpu", 0, 50.0, gather=5.0, no_work=20.0), device("cpu", 0, 58.3, gather=6.0, no_work=20.7)
    found = described(before, after)
    assert found.duty_cycle == pytest.approx(0.83)
    assert found.idle_reasons == pytest.approx({"gather": 0.1, "no_work": 0.07})
    assert found.devices == [{"device": "cpu", "duty_cycle": pytest.approx(0.83), "sm_utilization": None}]


def test_the_union_over_dispatchers_is_the_servers_to_know() -> None:
    steps = {("fastqps_steps_total", "device=a", "dispatcher=0"): 200.0}
    steps |= {("fastqps_step_items_total", "device=a", "dispatcher=0"): 6400.0}
    two = device("a", 0, 7.0, gather=3.0) | device("a", 1, 6.0, gather=2.0, scatter=2.0) | steps
    found = described({}, two)
    assert found.duty_cycle is None  # 13 s in 10 s: they overlap, nobody said by how much
    assert found.idle_reasons == pytest.approx({"gather": 0.25, "scatter": 0.1})
    found = described({}, two | {("fastqps_device_active_seconds_total", "device=a"): 9.9})
    assert found.duty_cycle == pytest.approx(0.99)
    assert found.dispatchers is not None
    first, second = found.dispatchers
    assert (first["dispatcher"], first["busy"], first["steps_per_s"], first["items_per_step"]) == (0, 0.7, 20.0, 32.0)
    assert (second["dispatcher"], second["steps_per_s"], second["items_per_step"]) == (1, None, None)


def test_of_several_devices_the_mean() -> None:
    active = {("fastqps_device_active_seconds_total", f"device={d}"): s for d, s in (("a", 9.0), ("b", 4.0))}
    found = described({}, device("a", 0, 9.0) | device("b", 1, 4.0) | active)
    assert found.duty_cycle == pytest.approx(0.65)
    assert [d["duty_cycle"] for d in found.devices or []] == pytest.approx([0.9, 0.4])


def test_stages_batches_and_what_waits() -> None:
    def histogram(name: str, *labels: str, **buckets: float) -> dict[tuple[Any, ...], float]:
        found = {(f"{name}_bucket", *labels, f"le={edge[1:].replace('_', '.')}"): n for edge, n in buckets.items()}
        return found | {(f"{name}_count", *labels): max(buckets.values())}

    stage = "fastqps_stage_duration_seconds"
    after = histogram(stage, "stage=queue", l0_001=50.0, l0_002=100.0, lInf=100.0) | {
        (f"{stage}_sum", "stage=queue"): 0.15
    }
    after |= histogram("fastqps_batch_items", "model=m", l7=10.0, lInf=10.0) | {
        ("fastqps_batch_items_sum", "model=m"): 40.0
    }
    after |= {("fastqps_batch_fill_ratio", "model=m"): 0.25, ("fastqps_inflight_seconds_total",): 35.0}
    after |= {
        ("fastqps_items_total", "model=m", "code=OK"): 90.0,
        ("fastqps_items_total", "model=m", "code=INTERNAL"): 10.0,
    }
    found = described({}, after, status={"OK": 25}, load={"items_per_call": 4})
    assert found.stages_us == {"queue": pytest.approx({"mean": 1500, "p50": 1000, "p99": 1980, "count": 100})}
    assert found.batch == {"items": 4.0, "tokens": None, "fill": 0.25} and found.in_flight == 3.5
    assert found.at_limit == {"queue_wait_p95_s": pytest.approx(0.0019), "dispatcher": 0.0, "frontdoor": 0.0}
    assert found.items_status == {"OK": 90, "INTERNAL": 10} and found.error_ratio == pytest.approx(0.1)
    found.load = {"items_per_call": 1}
    assert found.error_ratio == 0  # the generator saw each of them


def test_what_may_be_the_limit_and_what_saturation_makes_of_it() -> None:
    """The device's load is a mean of 10 s, so that of a shorter time it would be of the time before, too."""
    after = {("fastqps_device_load_ratio",): 0.4, ("fastqps_dispatcher_busy_seconds_total", "dispatcher=0"): 6.0}
    after |= {("fastqps_saturation_term_ratio", "cause=device"): 0.47}
    found = described({}, after)
    assert (found.at_limit["device_load"], found.at_limit["dispatcher"]) == (0.4, 0.6)
    assert found.saturation_terms == {"device": 0.47}
    short = Point("x")
    describe(short, Look(page(100.0, {}), None, 100.0), Look(page(109.0, after), None, 109.0))
    assert "device_load" not in short.at_limit and short.at_limit["dispatcher"] == pytest.approx(6 / 9)


def test_another_server_at_the_same_address_says_nothing() -> None:
    before = device("a", 0, 5.0) | {("fastqps_start_time_seconds",): 1.0}
    after = device("a", 0, 2.0) | {("fastqps_start_time_seconds",): 2.0}
    assert described(before, after).duty_cycle is None


def test_cpu_by_role() -> None:
    point = Point("x")
    describe(point, Look(None, {"frontdoor": 1.0}, 5.0), Look(None, {"frontdoor": 3.0, "dispatcher": 4.0}, 9.0))
    assert point.server_cpu == {"frontdoor": 0.5, "dispatcher": 1.0} and point.dispatchers is None


def test_looks_are_taken_when_they_are_due() -> None:
    taken: list[float] = []

    def take() -> Look:
        taken.append(time.monotonic())
        return Look(None, None, taken[-1])

    begin_s = time.monotonic() + 0.3
    looks = Looks(take)
    looks.between(int(begin_s * 1e9), int((begin_s + 0.4) * 1e9))
    looks.between(0, 0)  # only the first counts
    until(lambda: len(taken) == 2, "both looks")
    found = looks.finish()
    assert found is not None and begin_s <= taken[0] and begin_s + 0.4 <= taken[1]
    assert threading.active_count() < 50


def test_looks_of_a_run_that_is_cut_short() -> None:
    taken: list[Look] = []

    def take() -> Look:
        taken.append(Look(None, None, 0.0))
        return taken[-1]

    def soon(delay_s: float) -> Looks:
        looks = Looks(take)
        now_ns = time.monotonic_ns()
        looks.between(now_ns + int(delay_s * 1e9), now_ns + 600_000_000_000)
        return looks

    looks = soon(0.0)
    until(lambda: taken, "the first look")
    assert looks.finish() is not None  # the second one is taken at the end
    assert soon(300.0).finish() is None  # measuring had not begun
    assert Looks(take).finish() is None and len(taken) == 2


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("command was not ready; it said:\nfastqps: --slots 3 is too few", "--slots 3 is too few"),
        ("09:03:43.902 supervisor: dispatcher 0 cannot start: no effect\n09:03:43.939 supervisor: stopped",
         "dispatcher 0 cannot start: no effect"),
        ("09:03:43.939 supervisor: stopped", "stopped"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_start_is_reported_by_its_own_reason(
    said: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ServerProcess) -> None:
        raise ServerError(said)

    monkeypatch.setattr(ServerProcess, "__enter__", fail)
    monkeypatch.setattr(ServerProcess, "drain", lambda self: 3)
    with pytest.raises(BenchError) as raised:
        Target({}).use({})
    assert (str(raised.value), raised.value.exit_code) == (f"the server did not start: {reason}", 3)
