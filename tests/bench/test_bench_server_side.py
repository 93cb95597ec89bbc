"""What a server says of a measured time: from two readings of its counters to the fields of a point."""

from __future__ import annotations

import threading
import time
from typing import Any

import fake_source
import numpy as np
import pytest
from serving import until

from fastqps._core import IDLES, STAGES
from fastqps.bench.measure.server_side import Look, Looks, describe
from fastqps.bench.measure.target import Target
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerError, ServerProcess
from fastqps.telemetry.live.counts import _merged

SECOND = 10**9
NS = dict.fromkeys(IDLES, 0)


def looked(*stats: Any, at_s: float = 0.0, active_s: tuple[float, ...] = (0.0,), **changes: Any) -> Look:
    """Two doors and three dispatchers, the first of which are as given."""
    idle = [fake_source.process() for _ in range(5 - len(stats))]
    devices = {"ab"[i]: round(s * SECOND) for i, s in enumerate(active_s)}
    source = fake_source.FakeSource(*stats, *idle)
    return Look(fake_source.counts(source, at_s, devices=devices, **changes), None, at_s)


def described(after: Look, before: Look | None = None, **point: Any) -> Point:
    found = Point("x", **point)
    describe(found, before or looked(), after)
    return found


def test_dispatchers_and_their_device() -> None:
    """In ten seconds. The steps of dispatchers overlap; the server knows by how much."""
    first = fake_source.process(
        {"busy_ns": 8 * SECOND, "steps": 200, "step_items": 6400}, idle_ns=NS | {"gather": SECOND, "no_work": SECOND}
    )
    second = fake_source.process({"busy_ns": 5 * SECOND}, idle_ns=NS | {"gather": 3 * SECOND})  # 2 s are not over
    door = fake_source.process()
    found = described(looked(door, door, first, second, at_s=10.0, active_s=(9.9,)))
    assert found.duty_cycle == pytest.approx(0.99) and found.steps == 200
    assert found.devices == [{"device": "a", "duty_cycle": pytest.approx(0.99), "sm_utilization": None}]
    assert found.dispatchers is not None and found.idle_reasons is not None
    one, two, _ = found.dispatchers
    assert (one["dispatcher"], one["busy"], one["steps_per_s"], one["items_per_step"]) == (0, 0.8, 20.0, 32.0)
    assert (two["dispatcher"], two["busy"], two["items_per_step"]) == (1, 0.5, None)
    assert two["idle"]["gather"] == pytest.approx(0.3)
    assert (found.idle_reasons["gather"], found.idle_reasons["no_work"]) == pytest.approx((0.4 / 3, 0.1 / 3))


def test_of_several_devices_the_mean() -> None:
    found = described(looked(at_s=10.0, active_s=(9.0, 4.0)), looked(active_s=(0.0, 0.0)))
    assert found.duty_cycle == pytest.approx(0.65)
    assert [d["duty_cycle"] for d in found.devices or []] == pytest.approx([0.9, 0.4])


def test_stages_batches_and_what_waits() -> None:
    items = np.zeros((16, 17), dtype=np.uint64)
    items[0, 0], items[0, 13] = 90, 10
    queue = {stage: fake_source.histogram() for stage in STAGES} | {"queue": fake_source.histogram(*[1_500_000] * 100)}
    door = fake_source.process({"inflight_ns": 35 * SECOND, "queue_wait_ns": 5 * SECOND}, items=items, stage=queue)
    batches = {"step_tokens": 25, "step_capacity_tokens": 100, "awake_ns": 6 * SECOND}
    busy = fake_source.process(batches, batch_items=fake_source.histogram(*[4] * 10))
    after = looked(door, fake_source.process({"awake_ns": SECOND}), busy, at_s=10.0, load=fake_source.LOAD)
    found = described(after, status={"OK": 25}, load={"items_per_call": 4})
    assert found.stages_us is not None and [*found.stages_us] == list(STAGES)
    near = pytest.approx(1500, rel=0.126)
    assert found.stages_us["queue"] == {"mean": 1500, "p50": near, "p99": near, "count": 100}
    assert found.batch == {"items": 4.0, "tokens": None, "fill": 0.25}
    assert (found.in_flight, found.waiting) == (3.5, 0.5)
    assert found.at_limit == {
        "queue_wait_p95_s": pytest.approx(0.0015, rel=0.126), "device_load": 0.4, "dispatcher": 0.6, "frontdoor": 0.1
    }  # fmt: skip
    assert (found.saturation, found.saturation_terms) == (0.5, {"device": 0.47})
    assert found.items_status == {"OK": 90, "INTERNAL": 10} and found.error_ratio == pytest.approx(0.1)
    found.load = {"items_per_call": 1}
    assert found.error_ratio == 0  # the generator saw each of them


def test_batches_of_several_models_are_weighted_by_their_steps() -> None:
    """Dispatchers 0 and 1 have the first model."""
    door = fake_source.process()
    many = fake_source.process(
        {"step_tokens": 90, "step_capacity_tokens": 100}, batch_items=fake_source.histogram(*[4] * 9),
        batch_tokens=fake_source.histogram(*[10] * 9),
    )  # fmt: skip
    one = fake_source.process(
        {"step_tokens": 30, "step_capacity_tokens": 100}, batch_items=fake_source.histogram(14),
        batch_tokens=fake_source.histogram(30),
    )  # fmt: skip
    found = described(looked(door, door, many, fake_source.process(), one, at_s=10.0))
    assert found.batch == {"items": 5.0, "tokens": 12.0, "fill": 0.6}


def test_the_load_of_a_short_time_would_be_of_the_time_before_too() -> None:
    """The device's load is a mean of 10 s."""
    assert "device_load" not in described(looked(at_s=9.0, load=fake_source.LOAD)).at_limit


def test_the_hop_of_an_edge_stands_for_its_device() -> None:
    hop = {
        part: _merged([fake_source.histogram(us * 1000)]) for part, us in (("wire", 9), ("queue", 20), ("device", 70))
    }
    none = dict.fromkeys(hop, _merged([]))
    stages = described(looked(at_s=10.0, hop=hop), looked(hop=none)).stages_us or {}
    assert {name: stages[name]["mean"] for name in ("upstream", "upstream_queue", "device")} == {
        "upstream": 9, "upstream_queue": 20, "device": 70
    }  # fmt: skip


def test_another_server_at_the_same_address_says_nothing() -> None:
    assert described(looked(at_s=10.0, active_s=(9.0,)), looked(started=2.0)).duty_cycle is None


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
        ("2026-11-27T09:03:43.902+00:00 ERROR supervisor: dispatcher 0 cannot start: no effect\n"
         "2026-11-27T09:03:43.939+00:00 INFO supervisor: stopped",
         "dispatcher 0 cannot start: no effect"),
        ("2026-11-27T09:03:43.939+00:00 INFO supervisor: stopped", "stopped"),
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
