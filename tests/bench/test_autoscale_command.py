"""``fastqps bench signals`` and ``fastqps bench autoscale``: what they make of flags, files and a server's page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from paths import ROOT
from recordings import CAPACITY, made_recording

from fastqps.autoscale.behavior import CAUTIOUS, Policy
from fastqps.autoscale.comparison import WORTH, Contest
from fastqps.autoscale.recording import SIGNALS, read_recording
from fastqps.autoscale.simulation import Setup
from fastqps.bench.modes import autoscale, signals
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.slo import Slo
from fastqps.cli import main
from fastqps.errors import ConfigError
from fastqps.telemetry.scrape import Scrape

pytestmark = pytest.mark.compute


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(made_recording().as_json()))
    return str(path)


def simulate(*flags: str) -> Result:
    parser = argparse.ArgumentParser()
    autoscale.add_arguments(parser)
    return autoscale.run_alone(parser.parse_args(list(flags)))


def test_one_signal_at_one_target(recording: str) -> None:
    flags = ("--recording", recording, "--scenarios", "ramp,step", "--signals", "saturation", "--target", "0.7")
    result = simulate(*flags)
    found = result.as_json()["autoscale"]
    assert [one["name"] for one in found["scenarios"]] == ["ramp", "step"]
    (contest,) = found["contests"]
    (trial,) = contest["trials"]
    assert (contest["key"], contest["picked"], trial["target"]) == ("saturation", 0, 0.7)
    assert [run["seconds"] for run in trial["runs"]] == [3600, 7200]
    assert simulate(*flags).as_json()["autoscale"] == found  # nothing is left to chance


def test_a_course_of_ones_own(recording: str, tmp_path: Path) -> None:
    trace = tmp_path / "monday.csv"
    trace.write_text("0,5000\n600,20000\n1200,5000\n")
    flags = ("--recording", recording, "--trace", str(trace), "--signals", "saturation", "--target", "0.65")
    found = simulate(*flags, "--scale", "0.5").as_json()["autoscale"]
    assert found["scenarios"] == [{"name": "monday", "told": "the course in monday.csv", "seconds": 1800}]
    assert found["contests"][0]["trials"][0]["runs"][0]["offered"] == 600 * (2500 + 10_000 + 2500)


def test_no_target_is_no_valid_answer(recording: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--recording", recording, "--scenarios", "step", "--signals", "saturation")
    assert simulate(*flags).verdict == "VALID"
    monkeypatch.setattr(autoscale, "contest", lambda curves, signal, *more: Contest(signal, [], None))
    result = simulate(*flags)
    assert (result.verdict, result.exit_code) == ("INCONCLUSIVE", 9) and "no target could be set" in result.notes[0]


def test_where_saturation_is_beaten_is_said_and_only_there(recording: str) -> None:
    names = ("spike", "step")
    flags = ("--recording", recording, "--scenarios", ",".join(names), "--signals", "saturation,queue_wait_s")
    result = simulate(*flags)
    contests = {c["key"]: c["trials"][c["picked"]]["runs"] for c in result.extra["autoscale"]["contests"]}
    scores = {
        key: [run["pods_over_least"] + WORTH * run["out_share"] for run in runs] for key, runs in contests.items()
    }
    beaten = [name for k, name in enumerate(names) if scores["queue_wait_s"][k] < scores["saturation"][k] - 0.01]
    assert 0 < len(beaten) < len(names)
    assert [note.partition(":")[0] for note in result.notes] == beaten
    assert all("beaten by queue wait p95" in note for note in result.notes)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--scenarios", "ramp,strom"], "--scenarios strom: there are diurnal, ramp, spike, flapping"),
        (["--signals", "satturation"], "--signals satturation: there are saturation"),
        (["--target", "0.65"], "--target 0.65: name the one signal"),
        (["--signals", "saturation", "--target", "0"], "--target 0: at least 0.001"),
        (["--worth", "-1"], "--worth -1: 0 to 1000"),
        (["--min", "5", "--max", "4"], "--min, --max: 5 to 4 pods"),
        (["--max", "0"], "--min, --max: 2 to 0 pods"),
        (["--scale", "0"], "--scale 0: "),
        (["--seed", "-1"], "--seed -1: "),
        (["--pull", "soon"], "--pull: "),
        (["--spare-pods", "-1"], "--spare-pods -1: at least 0"),
        (["--trace", "/nowhere/at.csv"], "--trace: cannot read /nowhere/at.csv: No such file or directory"),
        (["--trace", "x.csv", "--scenarios", "ramp"], "--trace is a scenario of its own"),
        (["--recording", "/nowhere/at.json"], "--recording: cannot read /nowhere/at.json: No such file or directory"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(flags: list[str], told: str, recording: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulate("--recording", recording, *flags)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_manifests_have_the_behavior_and_the_target_that_were_simulated() -> None:
    (hpa,) = (ROOT / "k8s/components/hpa").glob("horizontal*.yaml")
    spec = yaml.safe_load(hpa.read_text())["spec"]
    (scaled,) = (ROOT / "k8s/components/keda").glob("scaledobject.yaml")
    keda = yaml.safe_load(scaled.read_text())["spec"]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == spec["behavior"]
    for direction, rules in (("scaleUp", CAUTIOUS.up), ("scaleDown", CAUTIOUS.down)):
        written = spec["behavior"][direction]
        assert written["stabilizationWindowSeconds"] == rules.window_s
        assert written["selectPolicy"] == rules.select
        policies = {Policy(p["type"], p["value"], p["periodSeconds"]) for p in written["policies"]}
        assert policies == set(rules.policies)
    assert spec["minReplicas"] == keda["minReplicaCount"] == Setup().replicas_min


# ---- the recorder, on a server that is a formula


class FormulaPages:
    """A server's short page each second, whose figures are means over ten."""

    def __init__(self, share: float, seconds: int) -> None:
        made = {level.offered / CAPACITY: level for level in made_recording(signals.SHARES).levels}
        self.level = made[min(made, key=lambda at: abs(at - share))]
        self.pages = [self._page(float(second)) for second in range(seconds)]

    def _page(self, at_s: float) -> Scrape:
        found = self.level.signals
        lag = min(1.0, at_s / signals.SETTLED_S)
        return Scrape(
            {
                ("fastqps_queue_wait_p95_seconds", ()): found["queue_wait_s"] * lag,
            },
            at_s,
        )

    def __enter__(self) -> FormulaPages:
        return self

    def __exit__(self, *error: object) -> None: ...

    def last(self, seconds: float) -> list[Scrape]:
        return [page for page in self.pages if page.at_s >= len(self.pages) - 1 - max(0.0, seconds)]


def context(folder: Path, capacity: str, **changes: Any) -> Any:
    result = Result("signals", target={"model": "made", "device": "sim:made"})

    def measure(settings: dict[str, Any], load: Any, *, name: str) -> Point:
        found = FormulaPages(load.rate / CAPACITY, 1).level
        point = Point(name, offered_rate=found.offered, rate=found.answered, goodput=found.good * found.offered)
        point.p99_us, point.duty_cycle = found.p99_us, found.signals["duty"]
        point.waiting, point.in_flight = found.signals["waiting"], found.signals["in_flight"]
        point.saturation_terms = {
            "offered": found.signals["saturation"],
            "device": 0.01,
            "in_flight": found.signals["evidence"],
        }
        point.server_cpu = {
            "frontdoor": 1.5 * found.signals["cpu"],
            "dispatcher": 0.5 * found.signals["cpu"],
            "kernel": 9,
        }
        for key, value in changes.items():
            setattr(point, key, value)
        result.points.append(point)
        assert settings == {"capacity": capacity}
        return point

    return SimpleNamespace(
        options=SimpleNamespace(capacity=capacity),
        result=result,
        payloads=SimpleNamespace(call=SimpleNamespace(items=1)),
        target=SimpleNamespace(own=True),
        server=lambda settings: SimpleNamespace(admin="127.0.0.1:1"),
        pinning=SimpleNamespace(server=[0, 1]),
        progress=SimpleNamespace(expect=lambda n: None),
        load=SimpleNamespace(at_rate=lambda rate: SimpleNamespace(rate=rate, duration_s=20.0, deadline_s=10.0)),
        measure=measure,
        note=result.notes.append,
        slo=Slo.parse("p99=50ms"),
        folder=folder,
    )


def capacity_file(folder: Path) -> str:
    path = folder / "capacity.json"
    texts = dict.fromkeys(("model", "version", "device", "measured", "commit", "command"), "x")
    path.write_text(json.dumps({"schema_version": 1, **texts, "settings": {}, "rate": CAPACITY, "in_flight": 25.0}))
    return str(path)


def test_a_recording_says_what_the_server_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter(signals.SHARES)
    monkeypatch.setattr(signals, "Gauges", lambda admin: FormulaPages(next(shares), 21))
    result = signals.run(context(tmp_path, capacity_file(tmp_path)))
    found = read_recording(str(tmp_path / signals.RECORDING))
    assert found.capacity == CAPACITY
    assert len(found.levels) == len(signals.SHARES) == len(result.points)
    for level, made in zip(found.levels, made_recording(signals.SHARES).levels, strict=True):
        assert level.good == pytest.approx(made.good)
        for name in SIGNALS:
            assert level.signals[name] == pytest.approx(made.signals[name], rel=1e-6), name
    assert result.best_point is not None and result.best_point.name == "1 × capacity"
    assert result.verdict == "VALID"


@pytest.mark.parametrize(("change", "verdict"), [({"verdict": "INVALID"}, "INVALID"), ({"p99_us": None}, "VALID")])
def test_a_recording_of_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], verdict: str
) -> None:
    """Where the generator was the limit the recording is its own, and a p99 of no answers is not 0."""
    shares = iter(signals.SHARES)
    monkeypatch.setattr(signals, "Gauges", lambda admin: FormulaPages(next(shares), 21))
    assert signals.run(context(tmp_path, capacity_file(tmp_path), **change)).verdict == verdict
    levels = read_recording(str(tmp_path / signals.RECORDING)).levels
    assert (min(level.p99_us for level in levels) == 10e6) == ("p99_us" in change)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("elsewhere")
def test_from_a_server_to_a_target() -> None:
    """The three commands of docs/autoscaling.md, on the pod that it tells of."""
    pod = ["--device", f"sim:{ROOT / 'bench/autoscale-pod.toml'}", "--slo", "p99=200ms,err=1%"]
    flags = ["--", "--dispatchers", "1", "--frontdoors", "1"]
    find = ["bench", "find-max", *pod, "--duration", "4s", "--probes", "12", "--output", "knee", *flags]
    assert main(find) in (0, 7)  # 7: the generator was late, which costs rate
    record = [
        "bench",
        "signals",
        *pod,
        "--capacity",
        "knee/capacity.json",
        "--duration",
        "12s",
        "--connections",
        "64",
        "--output",
        "pod",
        *flags,
    ]
    assert main(record) == 0
    said = {round(one.offered / found.capacity, 1): one.signals["saturation"]
            for found in [read_recording("pod/recording.json")] for one in found.levels}  # fmt: skip
    assert said[0.2] < said[0.5] < said[1.0] < said[2.0]
    # A busy machine's generator sends late, and then all at once: never less than the capacity, never much beyond it.
    assert 0.4 < said[0.5] < 0.8 and 0.8 < said[1.0] < 1.6 and 1.2 < said[2.0] < 2.6
    assert (
        main(["bench", "autoscale", "--recording", "pod/recording.json", "--scenarios", "step", "--output", "as"]) == 0
    )
    assert "course-0" in Path("as/report.html").read_text()


def test_a_server_that_says_nothing_is_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "Gauges", lambda admin: FormulaPages(0.05, 0))
    with pytest.raises(BenchError, match="metrics could not be read"):
        signals.run(context(tmp_path, capacity_file(tmp_path)))
    monkeypatch.setattr(signals, "Gauges", lambda admin: FormulaPages(0.05, 21))
    with pytest.raises(BenchError, match="metrics could not be read"):
        signals.run(context(tmp_path, capacity_file(tmp_path), duty_cycle=None))
    with pytest.raises(BenchError, match="metrics could not be read"):
        signals.run(context(tmp_path, capacity_file(tmp_path), saturation_terms={}))
    assert not (tmp_path / signals.RECORDING).exists()
