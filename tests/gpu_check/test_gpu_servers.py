"""The GPU suite's servers: one start for many points, refused calls, and what limits a point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import pages

from bench.gpu.servers.modelled import ModelledServer
from bench.gpu.servers.observations import answered, bound_by, brief
from bench.gpu.servers.served import SETTLE_S, limits_of, post_limits
from bench.gpu.steps.decoder import payloads, settings_of
from fastqps.bench.results.point import INVALID, Point
from fastqps.bench.results.result import BenchError

pytestmark = pytest.mark.compute


# ---- one server for many points


@pytest.fixture
def admin() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An admin port that sets limits, of which lanes are 2 at most: its address, and what it was asked."""
    asked: list[dict[str, Any]] = []

    def answer(body: bytes) -> tuple[int, list[bytes]]:
        asked.append(json.loads(body))
        code = 400 if asked[-1]["lanes"] > 2 else 200
        answer = {"error": "lanes: 3 is not between 1 and 2"} if code == 400 else {"model": "m", **asked[-1]}
        return code, [json.dumps(answer | ({"lanes": 2} if asked[-1].get("items") == 13 else {})).encode()]

    with pages(answer) as address:
        yield f"http://{address}", asked


def test_limits_are_set_on_the_server(admin: tuple[str, list[dict[str, Any]]]) -> None:
    address, asked = admin
    post_limits(address, {"lanes": 1, "running": 512})
    assert asked == [{"lanes": 1, "running": 512}]
    with pytest.raises(BenchError, match="lanes: 3 is not between 1 and 2"):
        post_limits(address, {"lanes": 3})
    with pytest.raises(BenchError, match=r"the server runs with \{'lanes': 2\}"):
        post_limits(address, {"lanes": 1, "items": 13})
    with pytest.raises(BenchError, match="refused"):
        post_limits("http://127.0.0.1:1", {"lanes": 1})


def test_only_limits_that_the_server_started_with_change() -> None:
    base = {"lanes": 2, "max-running": 2048, "dispatchers": 1}
    assert limits_of(base, {"lanes": 1}) == {"lanes": 1, "running": 2048}, "what a point does not name is as at first"
    for settings in ({"dispatchers": 2}, {"max-batch-items": 8}):
        with pytest.raises(ValueError, match=f"cannot change {next(iter(settings))}"):
            limits_of(base, settings)


class Server(ModelledServer):
    """Keeps what it was told."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.posted: list[dict[str, Any]] = []
        self.warm_s: list[float] = []

    def _post(self, server: Any, wanted: dict[str, Any]) -> None:
        self.posted.append(wanted)
        super()._post(server, wanted)

    def _measure(self, load: Any) -> Point:
        self.warm_s.append(load.warmup_s)
        return super()._measure(load)


def test_points_share_a_server_whose_limits_change(dry: Any, tmp_path: Path) -> None:
    """The first point with other limits has more load in front."""
    run = dry("decoder:llama-1b")
    base = settings_of(run, "llama-1b") | {"device": "cpu", "lanes": 1, "max-running": 8}
    calls = payloads(run, "llama-1b", str(tmp_path))
    run.dry = False
    with Server(run, base, calls, slow=True) as served:
        assert served.address == "", "a formula has none, but now it has started"
        rates = [served.measure({"max-running": count}, 4).rate for count in (8, 2, 2, 8)]
        assert served.posted == [{"lanes": 1, "running": 2}, {"lanes": 1, "running": 8}], "only where they change"
        assert rates == pytest.approx([8e6 / 180, 2e6 / 120, 2e6 / 120, 8e6 / 180])
        assert served.warm_s == [2 + SETTLE_S, 2 + SETTLE_S, 2, 2]
        with pytest.raises(BenchError, match="more than it started with"):
            served.measure({"max-running": 9}, 4)


def test_refused_calls_are_named() -> None:
    some = Point("", rate=800, duty_cycle=0.99, status={"OK": 88, "RESOURCE_EXHAUSTED": 12})
    assert answered(some) is some
    assert bound_by(some).startswith("12.0 % of the calls refused, the rate is of the answered ones; the device")
    for status in ({"OK": 88, "INTERNAL": 12}, {"RESOURCE_EXHAUSTED": 12}):
        with pytest.raises(BenchError, match="of the calls failed"):
            answered(Point("", rate=800 if "OK" in status else 0, status=status))


# ---- what limits a point


@pytest.mark.parametrize(
    ("point", "ceiling", "said"),
    [
        (Point("", rate=10, verdict=INVALID, reasons=["late"]), None, "the load generator (INVALID): late"),
        (Point("", rate=10, duty_cycle=0.97), 11.0, "the device; device busy 97.0 %; 91 % of the transport's ceiling"),
        (Point("", rate=10, duty_cycle=0.5), 11.0, "the transport; device busy 50.0 %"),
        (Point("", rate=10, duty_cycle=0.5, idle_reasons={"no_work": 0.1, "launch": 0.4}), 100.0, "the host; "),
        (
            Point("", rate=10, duty_cycle=0.5, idle_reasons={"no_work": 0.1, "launch": 0.4}),
            None,
            "idle for launch 40.0 %",
        ),
    ],
)
def test_bound_by(point: Point, ceiling: float | None, said: str) -> None:
    assert said in bound_by(point, ceiling=ceiling)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((800, 900, 1000, 1000), "not settled: its rate rose by 18 %; the device"),
        ((1000, 1001, 999, 1002), "the device"),
    ],
)
def test_a_rate_that_still_rises_is_named(counts: tuple[int, ...], said: str) -> None:
    point = Point("", rate=950, duty_cycle=0.99, timeline=[{"ok": count, "length_s": 1.0} for count in counts])
    assert bound_by(point).startswith(said)
    assert brief(point)["by_second"] == list(counts)
