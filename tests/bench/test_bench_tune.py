"""tune on servers that are formulas: what it asks for, what it makes of it, and the file that it writes."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from formulas import Answer, Asked, Played, play, prepared

from fastqps.bench.report.summary import facts_of
from fastqps.bench.report.tables import tables_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.bench.search.knobs import knobs_of
from fastqps.config import load
from fastqps.config.document import settings_file
from fastqps.dispatcher.stored_steps import folder_of

pytestmark = pytest.mark.compute

TWO = "--try dispatchers=1,2"
# Only dispatchers are varied.
ONE_KNOB = "--try lanes=1 --try max-batch-items=64 --try max-batch-tokens=4096 --try max-batch-delay=0us"
Tune = Callable[..., Played]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    return partial(play, tmp_path, "tune")


def peaks(*rates: float, noise: float = 0.01) -> Answer:
    """Peaks of 1, 2, 4 and 8 dispatchers, whatever else is set."""
    rng, by_number = random.Random(1), dict(zip((1, 2, 4, 8), rates, strict=False))

    def answer(asked: Asked) -> Point:
        rate = by_number[asked.settings["dispatchers"]] * rng.gauss(1, noise)
        return Point("", rate=rate, duty_cycle=0.9, status={"OK": 1000})

    return answer


def queue(asked: Asked, capacity: float = 1000.0, base_us: float = 1000.0) -> Point:
    """An M/M/1 queue: p99 of its response time grows with the load, and beyond capacity it is not stable."""
    if asked.load.rate is None:
        return Point("", rate=capacity, status={"OK": 100})
    share = asked.load.rate / capacity
    p99 = base_us + 4.6e6 / capacity / (1 - share) if share < 1 else 1e7
    point = Point(
        "", rate=min(asked.load.rate, capacity), status={"OK": 100}, verdict="VALID" if share < 1 else "UNSTABLE"
    )
    point.response_time_us = {"p99": p99, "count": 1e6}
    return point


def best(played: Played) -> int | None:
    """The number of dispatchers that it chose."""
    point = played.result.best_point
    return None if point is None else int(point.settings["dispatchers"])


def raced(played: Played) -> list[dict[str, Any]]:
    """The values of the first race, with their rates."""
    rows: list[dict[str, Any]] = played.result.extra["tune"]["choices"][0]["values"]
    return rows


def test_a_file_that_a_server_takes(tune: Tune, tmp_path: Path) -> None:
    played = tune(peaks(67, 109, 124, 84), "--try dispatchers=1,2,4,8", slots=4096)
    assert best(played) == 4 and played.result.verdict == "VALID"
    assert played.left[0] <= 150 and played.left == sorted(played.left, reverse=True)  # --probes, and never more again
    assert any(re.search(r"at most \d+ measurements of settings are left", line) for line in played.said)
    file = tmp_path / "fastqps.toml"
    config = load({}, {}, str(file)).config
    assert (config.dispatchers, config.slots, config.device, config.model) == (4, 4096, "null", ("minilm",))
    assert config.max_batch_delay_ns == 0
    assert "host" not in tomllib.loads(file.read_text())
    assert file.read_text().startswith("# Found by `fastqps bench tune` on 2026-11-20")


@pytest.mark.parametrize(("flags", "kept"), [("", False), ("--try max-batch-items=64", True)])
def test_the_step_size_is_measured_anew(
    tune: Tune, flags: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text("{}")
    steps = folder_of(tmp_path)
    assert steps
    (steps / "0123.json").write_text("{}")
    flags = f"{flags} --try dispatchers=1"
    tune(lambda asked: Point("", rate=9.0, status={"OK": 1000}), flags, model=[f"m={tmp_path}"], device="cpu")
    assert steps.exists() is kept


@pytest.mark.parametrize(("device", "expected"), [("cpu", ("none", "int8")), ("null", None)])
def test_the_quantizations_of_the_device_are_tried(
    device: str, expected: tuple[str, ...] | None, tmp_path: Path
) -> None:
    tuned = prepared(tmp_path, "tune", lambda asked: Point("", rate=9.0), device=device)
    assert {knob.name: knob.values for knob in knobs_of(tuned)}.get("quantization") == expected


def test_every_candidate_is_shown_once_with_its_runs(tune: Tune) -> None:
    played = tune(peaks(67, 109), f"{TWO} --try max-batch-items=64")
    points = played.result.points
    settings = [tuple(sorted(point.settings.items())) for point in points]
    assert len(settings) == len(set(settings))
    assert all(point.duty_cycle == 0.9 for point in points)
    assert sum(max(1, len(point.repetitions)) for point in points) == len(played.asked) - 1  # one for the load
    rows = raced(played)
    assert [row["value"] for row in rows] == [1, 2] and len(rows[0]["rates"]) >= 2
    assert any(note.startswith("dispatchers 2 (1: -38") for note in played.result.notes), played.result.notes


@pytest.mark.parametrize(
    ("rate", "flags", "in_flight"),
    [
        (1000, "", [160] * 9),  # 2 for each of 4 dispatchers, and 2 that wait, have full batches
        (40, "", [160, *[80] * 8]),  # they would take 4 s
        (1, "-c 77", [77] * 8),
    ],
)
def test_all_candidates_get_the_same_load(tune: Tune, rate: float, flags: str, in_flight: list[int]) -> None:
    answer = peaks(rate, 0, rate, noise=0)
    found = tune(answer, f"--try dispatchers=1,4 --try max-batch-items=16 --try lanes=1 {flags}").loads
    assert [one.in_flight for one in found[: len(in_flight)]] == in_flight
    assert {one.in_flight for one in found} == {*in_flight}


def test_the_slo_decides_which_is_best(tune: Tune) -> None:
    """Two dispatchers have the higher peak, but take too long for each request: one keeps the limit."""

    def answer(asked: Asked) -> Point:
        two = asked.settings["dispatchers"] == 2
        return queue(asked, 2000.0 if two else 1000.0, 60_000.0 if two else 1000.0)

    flags = f"{TWO} --try lanes=1 --try max-batch-items=64"
    within = tune(answer, f"{flags} --slo p99=50ms")
    assert best(within) == 1
    assert 800 < within.result.best_point.rate < 910  # type: ignore[union-attr]  # 1 ms + 4.6 ms / (1 - share) = 50 ms
    assert best(tune(answer, flags)) == 2
    impossible = tune(answer, f"{flags} --slo p99=1ms").result
    assert (impossible.best, impossible.verdict, impossible.exit_code) == (None, "SLO_NOT_MET", 8)


def late(point: Point) -> Point:
    point.verdict = "INVALID" if point.verdict == "VALID" else point.verdict
    return point


def late_of_two(asked: Asked) -> Point:
    """A generator's lateness makes response times longer, never shorter: what it found within the SLO is so."""
    two = asked.settings["dispatchers"] == 2
    return late(queue(asked, 2000.0)) if two else queue(asked)


def late_loser(asked: Asked) -> Point:
    two = asked.settings["dispatchers"] == 2
    return Point("", rate=80.0 if two else 100.0, status={"OK": 100}, verdict="INVALID" if two else "VALID")


def late_once(asked: Asked, turns: Any) -> Point:
    """One run of the best; its median is another one."""
    two = asked.settings["dispatchers"] == 2
    once = two and not turns.append(0) and len(turns) == 1
    rate = 220.0 if once else 200.0 if two else 100.0
    return Point("", rate=rate, status={"OK": 100}, verdict="INVALID" if once else "VALID")


FASTER_THERE = "the generator was the limit at dispatchers 2: the server may be faster there"


@pytest.mark.parametrize(
    ("answer", "slo", "verdict", "chosen", "says"),
    [
        (late_of_two, "p99=50ms", "INVALID", 2, ""),  # there may be more
        (lambda asked: late(queue(asked, base_us=1e6)), "p99=50ms", "INVALID", None, "nothing is known of the server"),
        (late_loser, "", "INCONCLUSIVE", 1, FASTER_THERE),
        (partial(late_once, turns=[]), "", "INCONCLUSIVE", 2, FASTER_THERE),
    ],
)
def test_a_late_generator(tune: Tune, answer: Answer, slo: str, verdict: str, chosen: int | None, says: str) -> None:
    played = tune(answer, f"{TWO} {ONE_KNOB}" + (f" --slo {slo}" if slo else ""))
    assert (played.result.verdict, best(played)) == (verdict, chosen) and says in played.notes


def test_it_goes_on_where_a_server_does_not_start(tune: Tune) -> None:
    def answer(asked: Asked) -> Point:
        if asked.settings["dispatchers"] > 1:
            raise BenchError("out of memory")
        return Point("", rate=100.0, status={"OK": 100})

    played = tune(answer, TWO)
    assert best(played) == 1 and played.result.verdict == "VALID"
    assert ["out of memory"] in [point.reasons for point in played.result.points]
    # It has no rate: 0 would be a figure that nobody has measured.
    rows = raced(played)
    assert rows[1]["rates"] == [None, None] and min(rows[0]["rates"]) == 100
    (missing,) = [row for row in played.result.as_json()["points"] if row["missing"]]
    assert missing["rate"] is None and [run["rate"] for run in missing["repetitions"]] == [None, None]
    assert played.notes.count("dispatchers 2 did not run: out of memory") == 1


def test_a_setting_that_ran_only_sometimes_keeps_its_figures(tune: Tune) -> None:
    failed: list[int] = []

    def answer(asked: Asked) -> Point:
        if asked.settings["dispatchers"] == 2 and not failed:
            failed.append(1)
            raise BenchError("the port is in use")
        return Point("", rate=100.0 * asked.settings["dispatchers"], status={"OK": 100})

    point = tune(answer, TWO).result.best_point
    assert point is not None and (point.settings["dispatchers"], point.rate) == (2, 200)
    assert {run["rate"] for run in point.repetitions} == {200}


def test_noise_that_hides_the_best_is_inconclusive(tune: Tune, tmp_path: Path) -> None:
    played = tune(peaks(100, 100, 100, noise=0.4), f"--try dispatchers=1,2,4 {ONE_KNOB}")
    assert (played.result.verdict, played.result.exit_code) == ("INCONCLUSIVE", 9)
    assert "the noise hides whether this is faster by more than 10%: dispatchers" in played.notes
    text = (tmp_path / "fastqps.toml").read_text()
    assert "\n# INCONCLUSIVE: the noise hides" in text
    assert load({}, {}, str(tmp_path / "fastqps.toml")).config.dispatchers
    assert "runs the best setting so far" in played.result.notes[-1]
    assert facts_of(played.result)[0].startswith("best so far: ")


@pytest.mark.parametrize(
    ("probes", "chosen", "says"), [(9, 4, "before it was done: raise --probes"), (1, None, "--probes ran out")]
)
def test_a_search_that_was_not_done_is_inconclusive(tune: Tune, probes: int, chosen: int | None, says: str) -> None:
    played = tune(peaks(67, 109, 124, 84), f"--try dispatchers=1,2,4,8 --probes {probes}")
    assert played.result.verdict == "INCONCLUSIVE" and not played.result.extra["tune"]["complete"]
    assert best(played) == chosen and says in played.notes
    assert bool(played.result.points) == (chosen is not None)


def test_too_few_answers_are_no_answer(tune: Tune) -> None:
    """With two dispatchers most calls are lost without an answer: nobody knows their p99. It is not a rate of 0."""

    def answer(asked: Asked) -> Point:
        point = queue(asked)
        if asked.load.rate is not None and asked.settings["dispatchers"] == 2:
            point.rate, point.response_time_us = 0.1 * asked.load.rate, {"p99": None, "count": 100.0}
        return point

    played = tune(answer, f"{TWO} {ONE_KNOB} --slo p99=50ms")
    assert played.result.verdict == "INCONCLUSIVE" and best(played) == 1
    assert raced(played)[1]["rates"] == [None, None]
    assert any(note.startswith("dispatchers 2: too few answers (100) to know p99") for note in played.result.notes)
    longest = {asked.load.duration_s for asked in played.asked if asked.settings["dispatchers"] == 2}
    assert max(longest) > 1.2 * min(longest)  # it was measured for longer before that was said


@pytest.mark.parametrize("slo", ["", "--slo p99=50ms"])
def test_a_run_in_which_no_call_ended_is_no_rate_of_0(slo: str, tune: Tune) -> None:
    """Steps take longer than a run, so that in most of them nothing is answered."""
    turns = iter(range(1000))

    def answer(asked: Asked) -> Point:
        if next(turns) % 7 == 0:
            return queue(asked)
        return Point("", verdict="INVALID", reasons=["no call was due in the measured window"])

    played = tune(answer, f"{TWO} {ONE_KNOB} {slo}")
    assert (played.result.verdict, best(played)) == ("INCONCLUSIVE", None)
    assert "generator" not in played.notes and "runs decide nothing" in played.result.notes[-1]
    assert all(rate is None or rate > 0 for row in raced(played) for rate in row["rates"])


def test_the_report_says_why_the_best_is_the_best(tune: Tune) -> None:
    played = tune(peaks(67, 109, 124), f"--try dispatchers=1,2,4 {ONE_KNOB}")
    assert played.result.verdict == "VALID"
    choice = played.result.extra["tune"]["choices"][0]
    assert choice["lead"]["over"] == 2 and 0.05 < choice["lead"]["beyond_noise"] < 0.2
    assert "it is faster than 2 by +1" in choice["why"] and "beyond the noise" in choice["why"]
    (table,) = [table for table in tables_of(played.result) if table.key == "decisions"]
    cells = [cell.text for cell in table.rows[0].cells]
    assert cells[:2] == ["dispatchers 4", "2"] and cells[3].endswith(" %")
    assert "all choices together: +8" in played.notes
    assert facts_of(played.result)[-1].endswith("over the start")


def test_the_file_holds_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "other").mkdir()  # without it, link/other would be a name of the hub
    base = {
        "model": ["minilm", "./mine", "named=link/other"],
        "device": "sim:h200-minilm-l6,sim:./slow.toml",
        "auth-token-file": "tokens",
        "prefix": ["named=before.txt"],
        "capacity": "/etc/capacity.json",
    }
    text = settings_file(load(base, {}, None), ["one\nline"])
    found = tomllib.loads(text)
    assert text.startswith("# one line\n")
    assert found["model"] == ["minilm", f"{tmp_path}/mine", f"named={tmp_path}/link/other"]
    assert found["device"] == f"sim:h200-minilm-l6,sim:{tmp_path}/slow.toml"
    assert found["auth-token-file"] == f"{tmp_path}/tokens" and found["prefix"] == [f"named={tmp_path}/before.txt"]
    assert found["capacity"] == "/etc/capacity.json"
