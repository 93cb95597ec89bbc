"""tune and breakdown on servers that are formulas: what they ask for, and what they make of it."""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastqps.bench import modes
from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.pinning import Pinning
from fastqps.bench.measure.target import Target
from fastqps.bench.measure.workload import Call, Payloads, Workload
from fastqps.bench.modes.breakdown import covered
from fastqps.bench.report.stages import stage_means, stage_shares
from fastqps.bench.report.summary import facts_of
from fastqps.bench.report.tables import tables_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.search.knobs import knobs_of
from fastqps.bench.slo import Slo
from fastqps.config import load
from fastqps.config.document import settings_file
from fastqps.devices.stored_choice import PRECISION
from fastqps.dispatcher.step_size import STEPS
from fastqps.errors import ConfigError

pytestmark = pytest.mark.compute

Answer = Callable[[dict[str, Any], LoadSpec], Point]


class Silent:
    """Progress that nobody sees."""

    def expect(self, points: int) -> None: ...
    def begin(self, name: str, duration_s: float) -> None: ...
    def tick(self, elapsed_s: float, now: str) -> None: ...
    def end(self, point: dict[str, Any]) -> None: ...
    def say(self, line: str) -> None: ...


class Formula(Context):
    """A context whose points come from ``answer(settings, load)`` instead of a server."""

    answer: Answer
    asked: list[dict[str, Any]]
    loads: list[LoadSpec]

    def measure(
        self,
        settings: Any,
        load: LoadSpec,
        *,
        name: str = "",
        keep: bool = True,
        repetitions: int | None = None,
    ) -> Point:
        self.asked.append(dict(settings))
        self.loads.append(load)
        point = self.answer(dict(settings), load)
        point.name, point.settings = name, dict(settings)
        point.load = load.describe(self.payloads.call)
        if keep:
            self.result.points.append(point)
        return point


def context(
    mode: str,
    tmp_path: Path,
    answer: Answer,
    *flags: str,
    base: dict[str, Any] | None = None,
    slo: str = "",
    address: str = "",
    cpus: tuple[int, ...] = (0, 1, 2, 3),
) -> Formula:
    parser = argparse.ArgumentParser()
    modes.mode(mode).add_arguments(parser)
    parser.set_defaults(address=address)
    base = {} if address else {"model": ["minilm"], "device": "null", **(base or {})}
    found = Formula(
        options=parser.parse_args(flags),
        target=Target(base, address=address),
        payloads=Payloads(tmp_path / "payloads", Call("predict", "/x/Predict", "unary"), b"", 1),
        load=LoadSpec(in_flight=1),
        slo=Slo.parse(slo) if slo else None,
        pinning=Pinning(server=cpus),
        load_threads=1,
        repetitions=1,
        folder=tmp_path,
        progress=Silent(),
        result=Result(mode, started="2026-11-20T16:30:00Z"),
    )
    found.answer, found.asked, found.loads = answer, [], []
    return found


def run(mode: str, found: Formula) -> Result:
    """As the command does: the flags are checked, then the mode runs."""
    common = Common(Workload(found.payloads.call), found.load, found.slo, found.target.base)
    modes.mode(mode).check(found.options, common)
    return modes.mode(mode).run(found)


def peaks(rates: dict[int, float], noise: float = 0.01, seed: int = 1) -> Answer:
    """By the number of dispatchers, whatever else is set."""
    rng = random.Random(seed)

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        rate = rates[settings["dispatchers"]] * rng.gauss(1, noise)
        return Point("", rate=rate, duty_cycle=0.9, status={"OK": 1000})

    return answer


# ---- tune


def test_tune_writes_a_file_that_a_server_takes(tmp_path: Path) -> None:
    found = context(
        "tune", tmp_path, peaks({1: 67, 2: 109, 4: 124, 8: 84}), "--try", "dispatchers=1,2,4,8", base={"slots": 4096}
    )
    said: list[str] = []
    left: list[int] = []
    found.progress.say, found.progress.expect = said.append, left.append  # type: ignore[method-assign]
    result = run("tune", found)
    best = result.best_point
    assert best is not None and best.settings["dispatchers"] == 4
    assert result.verdict == "VALID"
    assert left[0] <= 150 and left == sorted(left, reverse=True)  # --probes, and never more than was said before
    assert any(re.search(r"at most \d+ measurements of settings are left", line) for line in said)
    file = tmp_path / "fastqps.toml"
    config = load({}, {}, str(file)).config
    assert (config.dispatchers, config.slots, config.device, config.model) == (4, 4096, "null", ("minilm",))
    assert config.max_batch_delay_ns == 0
    assert "host" not in tomllib.loads(file.read_text())
    assert file.read_text().startswith("# Found by `fastqps bench tune` on 2026-11-20")


@pytest.mark.parametrize(("values", "kept"), [("none,fp8", True), ("none,auto", False), ("auto", False)])
def test_tune_has_the_choice_of_auto_measured_anew(
    values: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text("{}")
    stored, steps = PRECISION.path(tmp_path), STEPS.path(tmp_path)
    assert stored and steps
    for file in (stored, steps):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    base = {"model": [f"m={tmp_path}"], "device": "cpu", "dispatchers": 1}
    if values == "auto":
        tries, base = "dispatchers=1", {**base, "quantization": "auto"}
        del base["dispatchers"]
    else:
        tries = f"quantization={values}"
    tuned = context(
        "tune", tmp_path, lambda settings, load: Point("", rate=9.0, status={"OK": 1000}), "--try", tries, base=base
    )
    run("tune", tuned)
    assert stored.exists() is kept
    assert not steps.exists(), "max-batch-items auto is the first value that is tried"


@pytest.mark.parametrize(("device", "expected"), [("cpu", ("none", "int8", "auto")), ("null", None)])
def test_tune_tries_the_quantizations_of_the_device(
    device: str, expected: tuple[str, ...] | None, tmp_path: Path
) -> None:
    base = {"model": ["minilm"], "device": device}
    tuned = context("tune", tmp_path, lambda settings, load: Point("", rate=9.0), base=base)
    assert {knob.name: knob.values for knob in knobs_of(tuned)}.get("quantization") == expected


def test_tune_shows_every_candidate_once_with_its_runs(tmp_path: Path) -> None:
    found = context("tune", tmp_path, peaks({1: 67, 2: 109}), "--try", "dispatchers=1,2", "--try", "max-batch-items=64")
    result = run("tune", found)
    settings = [tuple(sorted(point.settings.items())) for point in result.points]
    assert len(settings) == len(set(settings))
    assert all(point.duty_cycle == 0.9 for point in result.points)
    assert sum(max(1, len(point.repetitions)) for point in result.points) == len(found.asked) - 1  # one for the load
    rows = result.extra["tune"]["choices"][0]["values"]
    assert [row["value"] for row in rows] == [1, 2]
    assert len(rows[0]["rates"]) >= 2
    assert any(note.startswith("dispatchers 2 (1: -38") for note in result.notes), result.notes


def test_tune_answers_that_one_dispatcher_is_best(tmp_path: Path) -> None:
    for rates in ({1: 100.0, 2: 100.5}, {1: 100.0, 2: 90.0}):
        result = run("tune", context("tune", tmp_path, peaks(rates), "--try", "dispatchers=1,2"))
        assert result.best_point is not None and result.best_point.settings["dispatchers"] == 1


def test_tune_gives_all_candidates_the_same_load(tmp_path: Path) -> None:
    """So many calls that the widest of them has full batches: 2 for each of 4 dispatchers, and 2 that wait."""
    tries = ("--try", "dispatchers=1,4", "--try", "max-batch-items=16", "--try", "lanes=1")
    found = context("tune", tmp_path, peaks({1: 1000, 4: 1000}), *tries)
    run("tune", found)
    assert {one.in_flight for one in found.loads} == {160}
    found = context("tune", tmp_path, peaks({1: 40, 4: 40}, noise=0), *tries)  # they would take 4 s
    run("tune", found)
    assert [one.in_flight for one in found.loads[:2]] == [160, 80]
    found = context("tune", tmp_path, peaks({1: 1, 4: 1}), *tries, "-c", "77")
    run("tune", found)
    assert {one.in_flight for one in found.loads} == {77}


def queue(capacity: Callable[[dict[str, Any]], float], base_us: float) -> Answer:
    """An M/M/1 queue: p99 of its response time grows with the load, and beyond capacity it is not stable."""

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        full = capacity(settings)
        if load.rate is None:
            return Point("", rate=full, status={"OK": 100})
        share = load.rate / full
        p99 = base_us + 4.6e6 / full / (1 - share) if share < 1 else 1e7
        point = Point("", rate=min(load.rate, full), status={"OK": 100}, verdict="VALID" if share < 1 else "UNSTABLE")
        point.response_time_us = {"p99": p99, "count": 1e6}
        return point

    return answer


def test_tune_within_an_slo(tmp_path: Path) -> None:
    """Two dispatchers have the higher peak, but take too long for each request: one keeps the limit."""

    def capacity(settings: dict[str, Any]) -> float:
        return 1000.0 * settings["dispatchers"]

    one_better = {1: 1000.0, 2: 60_000.0}

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        return queue(capacity, one_better[settings["dispatchers"]])(settings, load)

    tries = ("--try", "dispatchers=1,2", "--try", "lanes=1", "--try", "max-batch-items=64")
    result = run("tune", context("tune", tmp_path, answer, *tries, slo="p99=50ms"))
    best = result.best_point
    assert best is not None and best.settings["dispatchers"] == 1
    assert 800 < best.rate < 910  # 1 ms + 4.6 ms / (1 - share) = 50 ms at 906/s
    assert run("tune", context("tune", tmp_path, answer, *tries)).best_point.settings["dispatchers"] == 2  # type: ignore[union-attr]
    impossible = run("tune", context("tune", tmp_path, answer, *tries, slo="p99=1ms"))
    assert (impossible.best, impossible.verdict, impossible.exit_code) == (None, "SLO_NOT_MET", 8)


def test_tune_believes_what_a_late_generator_found_within_the_slo(tmp_path: Path) -> None:
    """Its lateness makes response times longer, never shorter."""

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        point = queue(lambda s: 1000.0 * s["dispatchers"], 1000.0)(settings, load)
        point.verdict = "INVALID" if settings["dispatchers"] == 2 and point.verdict == "VALID" else point.verdict
        return point

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2", slo="p99=50ms"))
    assert result.best_point is not None and result.best_point.settings["dispatchers"] == 2
    assert result.verdict == "INVALID"  # but there may be more


def test_tune_says_nothing_of_the_server_where_the_generator_was_the_limit(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        slow = queue(lambda s: 1000.0, 1e6)(settings, load)  # a second at least
        slow.verdict = "INVALID"
        return slow

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2", slo="p99=50ms"))
    assert (result.best, result.verdict, result.exit_code) == (None, "INVALID", 7)


def test_tune_goes_on_where_a_server_does_not_start(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        if settings["dispatchers"] > 1:
            raise BenchError("out of memory")
        return Point("", rate=100.0, status={"OK": 100})

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2"))
    assert result.best_point is not None and result.best_point.settings["dispatchers"] == 1
    assert ["out of memory"] in [point.reasons for point in result.points]
    # It has no rate: 0 would be a figure that nobody has measured.
    assert result.verdict == "VALID"
    rows = result.extra["tune"]["choices"][0]["values"]
    assert rows[1]["rates"] == [None, None] and min(rows[0]["rates"]) == 100
    (missing,) = [row for row in result.as_json()["points"] if row["missing"]]
    assert missing["rate"] is None and [run["rate"] for run in missing["repetitions"]] == [None, None]
    assert sum("dispatchers 2 did not run: out of memory" in note for note in result.notes) == 1


def test_tune_keeps_the_figures_of_a_setting_that_ran_only_sometimes(tmp_path: Path) -> None:
    failed: list[int] = []

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        if settings["dispatchers"] == 2 and not failed:
            failed.append(1)
            raise BenchError("the port is in use")
        return Point("", rate=100.0 * settings["dispatchers"], status={"OK": 100})

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2"))
    assert result.best_point is not None and (result.best_point.settings["dispatchers"], result.best_point.rate) == (
        2,
        200,
    )
    assert {run["rate"] for run in result.best_point.repetitions} == {200}


ONE_KNOB = ("--try", "lanes=1", "--try", "max-batch-items=64", "--try", "max-batch-tokens=4096",
            "--try", "max-batch-delay=0us")  # fmt: skip


def test_tune_is_inconclusive_where_noise_hides_the_best(tmp_path: Path) -> None:
    found = context(
        "tune", tmp_path, peaks({1: 100, 2: 100, 4: 100}, noise=0.4), "--try", "dispatchers=1,2,4", *ONE_KNOB
    )
    result = run("tune", found)
    assert (result.verdict, result.exit_code) == ("INCONCLUSIVE", 9)
    assert any(
        note.startswith("the noise hides whether this is faster by more than 10%: dispatchers") for note in result.notes
    )
    text = (tmp_path / "fastqps.toml").read_text()
    assert (
        "\n# INCONCLUSIVE: the noise hides" in text and load({}, {}, str(tmp_path / "fastqps.toml")).config.dispatchers
    )
    assert "runs the best setting so far" in result.notes[-1]
    assert facts_of(result)[0].startswith("best so far: ")


def test_tune_is_inconclusive_where_it_was_not_done(tmp_path: Path) -> None:
    tries = ("--try", "dispatchers=1,2,4,8")
    result = run("tune", context("tune", tmp_path, peaks({1: 67, 2: 109, 4: 124, 8: 84}), *tries, "--probes", "9"))
    assert result.verdict == "INCONCLUSIVE" and not result.extra["tune"]["complete"]
    assert result.best_point is not None and result.best_point.settings["dispatchers"] == 4
    assert any("before it was done: raise --probes" in note for note in result.notes)
    result = run("tune", context("tune", tmp_path, peaks({1: 67, 2: 109, 4: 124, 8: 84}), *tries, "--probes", "1"))
    assert (result.verdict, result.best, result.points) == ("INCONCLUSIVE", None, [])
    assert "--probes ran out" in result.notes[-1]


def test_tune_is_inconclusive_where_the_generator_was_the_limit_of_what_lost(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        late = settings["dispatchers"] == 2
        return Point("", rate=80.0 if late else 100.0, status={"OK": 100}, verdict="INVALID" if late else "VALID")

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2", *ONE_KNOB))
    assert result.verdict == "INCONCLUSIVE"
    assert "the generator was the limit at dispatchers 2: the server may be faster there" in result.notes


def test_tune_is_inconclusive_where_one_run_of_the_best_was_late(tmp_path: Path) -> None:
    runs = itertools.count()

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        late = settings["dispatchers"] == 2 and next(runs) == 0
        rate = 220.0 if late else 100.0 * settings["dispatchers"]  # the median is another one
        return Point("", rate=rate, status={"OK": 100}, verdict="INVALID" if late else "VALID")

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2", *ONE_KNOB))
    assert next(runs) > 1 and result.best_point and result.best_point.settings["dispatchers"] == 2
    assert "the generator was the limit at dispatchers 2: the server may be faster there" in result.notes
    assert result.verdict == "INCONCLUSIVE"


def test_tune_takes_too_few_answers_for_no_answer(tmp_path: Path) -> None:
    """With two dispatchers most calls are lost without an answer: nobody knows their p99. It is not a rate of 0."""

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        point = queue(lambda s: 1000.0, 1000.0)(settings, load)
        if load.rate is not None and settings["dispatchers"] == 2:
            point.rate, point.response_time_us = 0.1 * load.rate, {"p99": None, "count": 100.0}
        return point

    found = context("tune", tmp_path, answer, "--try", "dispatchers=1,2", *ONE_KNOB, slo="p99=50ms")
    result = run("tune", found)
    assert result.verdict == "INCONCLUSIVE" and result.best_point is not None
    assert result.best_point.settings["dispatchers"] == 1
    assert result.extra["tune"]["choices"][0]["values"][1]["rates"] == [None, None]
    assert any(note.startswith("dispatchers 2: too few answers (100) to know p99") for note in result.notes)
    pairs = zip(found.loads, found.asked, strict=True)
    longest = {load.duration_s for load, asked in pairs if asked["dispatchers"] == 2}
    assert max(longest) > 1.2 * min(longest)  # it was measured for longer before that was said


@pytest.mark.parametrize("slo", ["", "p99=50ms"])
def test_tune_takes_a_run_in_which_no_call_ended_for_no_rate_of_0(slo: str, tmp_path: Path) -> None:
    """Steps take longer than a run, so that in most of them nothing is answered."""
    turns = iter(range(1000))

    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        if next(turns) % 7 == 0:
            return queue(lambda s: 1000.0, 1000.0)(settings, load)
        return Point("", verdict="INVALID", reasons=["no call was due in the measured window"])

    result = run("tune", context("tune", tmp_path, answer, "--try", "dispatchers=1,2", *ONE_KNOB, slo=slo))
    assert (result.verdict, result.best) == ("INCONCLUSIVE", None)
    assert not any("generator" in note for note in result.notes) and "runs decide nothing" in result.notes[-1]
    rows = result.extra["tune"]["choices"][0]["values"]
    assert all(rate is None or rate > 0 for row in rows for rate in row["rates"])


def test_tune_says_why_the_best_is_the_best(tmp_path: Path) -> None:
    result = run(
        "tune", context("tune", tmp_path, peaks({1: 67, 2: 109, 4: 124}), "--try", "dispatchers=1,2,4", *ONE_KNOB)
    )
    assert result.verdict == "VALID"
    (choice, *_) = result.extra["tune"]["choices"]
    assert choice["lead"]["over"] == 2 and 0.05 < choice["lead"]["beyond_noise"] < 0.2
    assert "it is faster than 2 by +1" in choice["why"] and "beyond the noise" in choice["why"]
    (table,) = [table for table in tables_of(result) if table.key == "decisions"]
    assert table.rows[0][:2] == ["dispatchers 4", "2"] and table.rows[0][3].endswith(" %")
    assert any(note.startswith("all choices together: +8") for note in result.notes)
    assert facts_of(result)[-1].endswith("over the start")


def test_the_file_of_tune_holds_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    base = {
        "model": ["minilm", "./mine", "named=link/other"],
        "device": "sim:h200-minilm-l6,sim:./slow.toml",
        "auth-token-file": "tokens",
        "prefix": ["named=before.txt"],
        "capacity": "/etc/capacity.json",
    }
    loaded = load(base, {}, None)
    text = settings_file(loaded, ["one\nline"])
    found = tomllib.loads(text)
    assert text.startswith("# one line\n")
    assert found["model"] == ["minilm", f"{tmp_path}/mine", f"named={tmp_path}/link/other"]
    assert found["device"] == f"sim:h200-minilm-l6,sim:{tmp_path}/slow.toml"
    assert found["auth-token-file"] == f"{tmp_path}/tokens" and found["prefix"] == [f"named={tmp_path}/before.txt"]
    assert found["capacity"] == "/etc/capacity.json"


@pytest.mark.parametrize(
    ("flags", "base", "said"),
    [
        (("--try", "dispatchers"), {}, "write KEY=V1,V2"),
        (("--try", "dispatcher=1"), {}, "did you mean --dispatchers"),
        (("--try", "dispatchers=1,,2"), {}, "different values"),
        (("--try", "dispatchers=1,1"), {}, "different values"),
        (("--try", "dispatchers=0"), {}, "not within 1"),
        (("--try", "dispatchers=1,2"), {"dispatchers": 2}, "leave one of them out"),
        (("--gain", "2"), {}, "--gain 2: a share"),
        (("--probes", "0"), {}, "--probes 0"),
    ],
)
def test_tune_refuses(flags: tuple[str, ...], base: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        run("tune", context("tune", tmp_path, peaks({}), *flags, base=base))


def test_a_server_elsewhere_cannot_be_varied(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave out --address"):
        run("tune", context("tune", tmp_path, peaks({}), address="127.0.0.1:1"))


# ---- breakdown


def staged(settings: dict[str, Any], load: LoadSpec) -> Point:
    assert load.in_flight is not None
    means = {"receive": 10.0, "queue": 5.0 * load.in_flight, "device": 100.0, "drain": 5.0}
    stages: dict[str, Any] = {stage: {"mean": us, "p50": us, "p99": us, "count": 10.0} for stage, us in means.items()}
    point = Point("", stages_us=stages, status={"OK": 100})
    point.service_time_us = {"mean": sum(means.values()) + 6.0, "count": 10.0}
    return point


def test_breakdown(tmp_path: Path) -> None:
    found = context("breakdown", tmp_path, staged)
    result = run("breakdown", found)
    assert [one.in_flight for one in found.loads] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    means = stage_means(result.points[0])
    assert means["wire"] == pytest.approx(6.0) and sum(means.values()) == pytest.approx(126.0)
    assert sum(stage_shares(means).values()) == pytest.approx(1.0)
    assert covered(result.points[0]) == pytest.approx(120 / 126)
    assert "95.2 % of the 126 µs" in result.notes[0] and "; 6 µs are the wire" in result.notes[0]


def test_breakdown_says_when_stages_are_more_than_the_whole(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        point = staged(settings, load)
        point.service_time_us["mean"] = 96.0
        return point

    result = run("breakdown", context("breakdown", tmp_path, answer, "--concurrency", "1"))
    assert covered(result.points[0]) == pytest.approx(120 / 96)
    assert any("longer than what the generator saw" in note for note in result.notes)


def test_breakdown_says_when_the_wire_is_more_than_a_tenth(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        point = staged(settings, load)
        point.service_time_us["mean"] = 200.0
        return point

    result = run("breakdown", context("breakdown", tmp_path, answer, "--concurrency", "1,8"))
    assert len(result.points) == 2
    assert "more than a tenth" in result.notes[1]


def test_breakdown_needs_the_admin_port(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="--admin"):
        run("breakdown", context("breakdown", tmp_path, lambda settings, load: Point("", rate=1.0)))


def test_breakdown_by_a_generator_that_was_the_limit(tmp_path: Path) -> None:
    def answer(settings: dict[str, Any], load: LoadSpec) -> Point:
        point = staged(settings, load)
        point.verdict = "INVALID" if load.in_flight != 2 else "VALID"
        return point

    assert run("breakdown", context("breakdown", tmp_path, answer, "--concurrency", "1")).verdict == "INVALID"
    assert run("breakdown", context("breakdown", tmp_path, answer, "--concurrency", "1,2")).verdict == "INVALID"
    assert run("breakdown", context("breakdown", tmp_path, answer, "--concurrency", "2")).verdict == "VALID"


@pytest.mark.parametrize("levels", ["", "0", "1,1", "x", "-3", "1,", "100000"])
def test_breakdown_refuses(levels: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="concurrency"):
        run("breakdown", context("breakdown", tmp_path, staged, "--concurrency", levels))
