"""Pods that behave as recorded, traffic, and what an autoscaler makes of both."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
from pathlib import Path as FilePath

import numpy as np
import pytest
from paths import ROOT
from recordings import CAPACITY, QUEUE_MAX, made_recording

from fastqps.autoscale.behavior import CAUTIOUS, DEFAULT, Behavior
from fastqps.autoscale.cluster import Cluster, Nodes, Start
from fastqps.autoscale.comparison import contest, contest_json, pick, scenarios, targets
from fastqps.autoscale.pod import CELLS, PodCurves, PodModel
from fastqps.autoscale.recording import read_recording
from fastqps.autoscale.shapes import SHAPES, Shape, read_trace, scaled
from fastqps.autoscale.signals import SIGNALS, Path, Trail
from fastqps.autoscale.simulation import PRELUDE_S, Metric, Outcome, Run, Setup
from fastqps.errors import ConfigError

pytestmark = pytest.mark.compute

CURVES = PodCurves(made_recording())


def level(rate: float, seconds: int, cost: float = 1.0) -> Shape:
    return Shape("level", "always the same", np.full(seconds, rate), np.full(seconds, cost))


def run(shape: Shape, key: str = "saturation", target: float = 0.65, **setup: object) -> Outcome:
    return Run(CURVES, shape, Metric(SIGNALS[key], target), Setup(**setup)).run()  # type: ignore[arg-type]


# ---- a pod


def test_a_pod_is_at_each_level_what_was_recorded() -> None:
    for found in made_recording().levels:
        cell = CURVES.cell(found.offered)
        assert CURVES.p99_us[cell] == pytest.approx(found.p99_us, rel=0.05, abs=200), found
        for name, value in found.signals.items():
            assert CURVES.signals[name][cell] == pytest.approx(value, rel=0.05, abs=0.05 * CAPACITY / 25), (found, name)


def test_a_queue_grows_by_what_is_too_much_and_goes_as_fast_as_the_pod_works() -> None:
    pod, most = PodModel(CURVES), 1.05 * CAPACITY
    for _ in range(4):
        second = pod.second(1.2 * CAPACITY, 1, 1.0)
    assert pod.queue == pytest.approx(4 * 0.15 * CAPACITY, rel=0.02)
    assert second.refused == 0
    assert CURVES.p99_us[second.cell] > CURVES.slo_us
    seconds = 0
    while pod.queue:
        pod.second(0.8 * CAPACITY, 1, 1.0)
        seconds += 1
    assert seconds == math.ceil(4 * 0.15 * CAPACITY / (most - 0.8 * CAPACITY))


def test_a_full_queue_refuses_the_rest() -> None:
    pod = PodModel(CURVES)
    for _ in range(60):
        second = pod.second(2 * CAPACITY, 1, 1.0)
    assert pod.queue == pytest.approx(QUEUE_MAX)
    assert second.refused == pytest.approx(0.95 / 2, rel=0.02)
    assert second.cell == CELLS


def test_more_pods_share_the_queue() -> None:
    pod = PodModel(CURVES)
    for _ in range(3):
        pod.second(2 * 1.2 * CAPACITY, 2, 1.0)
    before = 2 * pod.queue
    pod.second(0, 8, 1e-9)
    assert 8 * pod.queue == pytest.approx(before, rel=1e-6)


def test_what_costs_more_is_as_if_there_were_more_of_it() -> None:
    usual, dear = PodModel(CURVES), PodModel(CURVES)
    assert dear.second(1000, 1, 1.0, cost=1.6).cell == usual.second(1600, 1, 1.0).cell


# ---- a recording's file


def test_a_recording_comes_back_as_it_was(tmp_path: FilePath) -> None:
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(made_recording().as_json()))
    assert read_recording(str(path)) == made_recording()


def damaged(**changes: object) -> object:
    found = copy.deepcopy(made_recording().as_json())
    found["levels"] = [dataclasses.asdict(one) for one in made_recording().levels]
    return {**found, **changes}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is no recording; fastqps bench signals writes one"),
        (damaged(schema_version=7), "has schema version 7, this version reads 1"),
        (damaged(capacity=0), "capacity is 0, not a number above 0"),
        (damaged(cpus="two"), 'cpus is "two", not a number above 0'),
        (damaged(device=3), "device is not text"),
        (damaged(levels=[]), "levels is not a list of 4 to 200"),
        (damaged(levels=[{}] * 5), "levels[0] is no level"),
        (damaged(capacity=9000.0), "they have to reach from at most half of the capacity of 9,000/s"),
    ],
)
def test_a_broken_recording_is_told_in_a_line(content: object, told: str, tmp_path: FilePath) -> None:
    path = tmp_path / "recording.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError) as caught:
        read_recording(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_number_of_a_recording_is_looked_at(tmp_path: FilePath) -> None:
    path = tmp_path / "recording.json"
    for where in ("offered", "answered", "good", "p99_us", "saturation"):
        found = json.loads(json.dumps(damaged()))
        row = found["levels"][2]
        (row["signals"] if where == "saturation" else row)[where] = None
        path.write_text(json.dumps(found))
        with pytest.raises(ConfigError, match=rf"levels\[2\].*{where} is missing"):
            read_recording(str(path))


# ---- traffic


def test_shapes_are_what_they_are_called() -> None:
    day = SHAPES["diurnal"](1)
    assert day.seconds == 86_400
    assert 180_000 < float(day.rates.max()) < 225_000
    assert 17_000 < float(day.rates.min()) < 23_000
    ramp = SHAPES["ramp"](1)
    assert float(ramp.rates[:600].max()) < 15
    assert 9_000 < float(ramp.rates[660:2400].mean()) < 11_000
    assert float(SHAPES["heavier"](1).costs.max()) == 1.6
    for make in SHAPES.values():
        assert (make(3).rates == make(3).rates).all()
        assert not (make(3).rates == make(4).rates).all()


def test_a_recorded_course(tmp_path: FilePath) -> None:
    path = tmp_path / "monday.csv"
    path.write_text("seconds,rate\n0,100\n30,200\n60,50\n")
    shape = read_trace(str(path))
    assert shape.seconds == 90
    assert [float(shape.rates[k]) for k in (0, 29, 30, 59, 60, 89)] == [100, 100, 200, 200, 50, 50]
    assert float(scaled(shape, 3).rates[0]) == 300


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("0,1\n", "has 1 rates; at least 2"),
        ("0,1\n5,x\n", ":2: '5,x' is not SECONDS,RATE"),
        ("1,1\n5,2\n", ":1: 1 s; times rise from 0"),
        ("0,1\n5,2\n5,3\n", ":3: 5 s; times rise from 0"),
        ("0,1\n5,-2\n", ":2: a rate of -2/s"),
        ("0,1\n1e9,2\n", ":2: 1e+09 s; times rise from 0 to at most 604800 s (a week)"),
    ],
)
def test_a_broken_course_is_told_in_a_line(content: str, told: str, tmp_path: FilePath) -> None:
    path = tmp_path / "monday.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match="--trace: ") as caught:
        read_trace(str(path))
    assert told in str(caught.value)


# ---- pods that start, and nodes


def test_pods_take_their_time_and_the_newest_go_first() -> None:
    cluster = Cluster(2, Start(pull_s=10, warm_s=20), Nodes(), 0)
    cluster.scale(100, 5)
    assert [cluster.ready(at_s) for at_s in (100, 129, 130)] == [2, 2, 5]
    cluster.scale(140, 9)
    cluster.scale(155, 4)
    assert [(one.count, one.ready_s) for one in cluster.cohorts] == [(2, -math.inf), (2, 130)]


def test_pods_without_room_wait_for_nodes_and_those_beyond_for_ever() -> None:
    cluster = Cluster(4, Start(10, 20), Nodes(spare=1, start_s=100, places_max=8), 0)
    cluster.scale(0, 10)
    assert [cluster.ready(at_s) for at_s in (0, 30, 129, 130, 9999)] == [4, 5, 5, 8, 8]


def test_nodes_that_nobody_needs_go_again() -> None:
    cluster = Cluster(4, Start(10, 20), Nodes(spare=1, start_s=100, idle_s=600), 0)
    cluster.scale(0, 10)
    cluster.scale(400, 4)
    cluster.scale(500, 10)  # the nodes are still there
    assert cluster.ready(530) == 10
    for at_s in range(600, 1600, 15):
        cluster.scale(at_s, 4)
    cluster.scale(1600, 10)
    assert (cluster.ready(1630), cluster.ready(1730)) == (5, 10)


# ---- what is seen of a signal


def test_a_signal_is_seen_late_and_over_its_window() -> None:
    signal = dataclasses.replace(SIGNALS["saturation"], window_s=10, path=Path(scrape_s=5, delay_s=1))
    trail = Trail(signal, 1.0, 0.0)
    for second in range(200):
        trail.append(0.5 if second < 100 else 1.0)
    cluster = Cluster(3, Start(), Nodes(), 0)
    usage = {at_s: trail.pods(cluster.cohorts, at_s, 1)[0].usage for at_s in (100, 105, 106, 107, 111, 150)}
    assert usage == {100: 500, 105: 500, 106: 750, 107: 750, 111: 1000, 150: 1000}


def test_new_pods_are_pending_then_unseen_then_partly_seen() -> None:
    trail = Trail(SIGNALS["saturation"], 1.0, 0.0)
    for _ in range(200):
        trail.append(0.8)
    cluster = Cluster(1, Start(pull_s=10, warm_s=20), Nodes(), 0)
    cluster.scale(100, 2)
    seen = {at_s: trail.pods(cluster.cohorts, at_s, 1)[1] for at_s in (105, 110, 120, 136, 150)}
    assert [(pod.phase, pod.usage, pod.ready) for pod in seen.values()] == [
        ("Pending", None, False),
        ("Running", None, False),  # not scraped since it runs
        ("Running", 0, False),
        ("Running", 400, True),
        ("Running", 800, True),
    ]


# ---- all of it


def test_a_level_load_settles_at_the_target() -> None:
    for target in (0.5, 0.65, 0.8):
        outcome = run(level(40_000, 1200), target=target)
        assert outcome.out_share == 0
        assert outcome.reversals == 0
        share = 40_000 / CAPACITY / (outcome.pod_seconds / outcome.seconds)
        at_target = next(k for k in range(CELLS) if CURVES.signals["saturation"][k] >= target) / CELLS * CURVES.top
        assert share == pytest.approx(at_target / CAPACITY, rel=0.12)


def test_the_books_balance() -> None:
    for name in ("ramp", "spike"):
        outcome = run(SHAPES[name](1))
        assert outcome.offered == pytest.approx(float(SHAPES[name](1).rates.sum()))
        assert outcome.good + outcome.lost <= outcome.offered * (1 + 1e-9)
        assert outcome.seconds == SHAPES[name](1).seconds
        assert outcome.pods_over_least >= 1
        assert outcome.lost > 0  # nobody can start pods before the traffic is there
        assert len(outcome.course) <= 361
        assert sum(row["out_s"] for row in outcome.course) == outcome.seconds_out


def test_slower_starts_and_missing_nodes_cost_time_outside_of_the_slo() -> None:
    spike = SHAPES["spike"](1)
    quick, slow = run(spike, start=Start(5, 5)), run(spike, start=Start(30, 60))
    short = run(spike, start=Start(5, 5), nodes=Nodes(spare=0, start_s=240))
    assert quick.seconds_out < slow.seconds_out
    assert quick.seconds_out < short.seconds_out


def test_too_few_pods_allowed_is_always_outside() -> None:
    outcome = run(level(40_000, 300), replicas_max=4)
    assert outcome.out_share == 1
    assert outcome.pods_max == 4


@pytest.mark.parametrize("behavior", [CAUTIOUS, DEFAULT])
def test_pods_do_not_follow_what_flaps(behavior: Behavior) -> None:
    flapping = SHAPES["flapping"](1)
    outcome = run(flapping, behavior=behavior)
    assert outcome.out_share < 0.01
    assert outcome.reversals <= flapping.seconds / 300  # at most one in five minutes


def test_a_rate_does_not_see_that_requests_have_become_dearer() -> None:
    share = 0.7
    heavier = SHAPES["heavier"](1)
    found = {
        key: run(heavier, key, CURVES.signals[key][CURVES.cell(share * CAPACITY)]) for key in ("saturation", "rate")
    }
    assert found["saturation"].out_share < 0.01
    assert found["rate"].out_share > 0.3


@pytest.mark.parametrize(
    ("scores", "picked"),
    [
        ((), None),
        ((3.0,), 0),
        ((3.0, 2.0), 0),
        ((4.0, 3.0, 2.0, 9.0), 1),
        ((4.0, 3.0, 2.0, 2.5), 2),
        ((1.0, 9.0, 9.0), 0),
    ],
)
def test_the_pick_is_a_tenth_away_from_the_cliff(scores: tuple[float, ...], picked: int | None) -> None:
    assert pick(scores) == picked


def test_a_contest_picks_a_target_and_keeps_its_course() -> None:
    among = scenarios(Setup(), 1, ["spike", "step"])
    assert [one.name for one in among] == ["spike", "step"]
    done: list[int] = []
    tried = ((0.4, 0.4), (0.6, 0.6), (0.95, 0.95))
    found = contest(CURVES, SIGNALS["saturation"], among, 10.0, lambda: done.append(1), tried)
    assert found.picked is not None
    assert len(done) == 2 * len(found.trials) == 6
    assert found.picked == pick([trial.score(10.0) for trial in found.trials])
    written = json.loads(json.dumps(contest_json(found, 10.0), allow_nan=False))
    courses = [[bool(one["course"]) for one in trial["runs"]] for trial in written["trials"]]
    assert courses == [[k == found.picked] * 2 for k in range(len(found.trials))]


def test_targets_are_numbers_that_an_autoscaler_can_be_given() -> None:
    for signal in SIGNALS.values():
        values = [target for target, _ in targets(CURVES, signal)]
        assert values == sorted(set(values))
        assert all(value >= 0.001 for value in values)


RECORDED = ROOT / "bench/results/autoscale-pod.json"


def test_pods_that_start_slowly_are_not_asked_for_again_and_again() -> None:
    """Saturation beyond the knee is the number of pods that are needed, so each turn asks for the same ones."""
    for name, needed in (("spike", 24), ("ramp", 4)):
        for start in (Start(5, 0), Start(10, 20), Start(30, 60), Start(60, 240)):
            outcome = run(SHAPES[name](1), start=start)
            assert needed < outcome.pods_max < 1.3 * needed / 0.65 + 1, (name, start)


def test_what_is_asked_for_is_no_state_that_a_pod_could_be_left_in() -> None:
    """With a queue left over, saturation is what that is evidence of, not what was asked for when it came about."""
    rates = np.concatenate((np.full(60, 40_000.0), np.full(600, 2_000.0)))
    outcome = run(Shape("burst", "", rates, np.ones(660)), replicas_max=400)
    assert outcome.pods_max <= math.ceil(1.1 * 40_000 / CAPACITY / 0.65)


def test_the_most_pods_of_the_spike_are_those_on_the_page() -> None:
    """The table of docs/autoscaling.md, beyond the knee."""
    page = (ROOT / "docs/autoscaling.md").read_text()
    rows = re.findall(r"^\| (?:\d+ s|5 minutes) \| (\d+) \| (\d+)", page, re.MULTILINE)
    curves, told = PodCurves(read_recording(str(RECORDED))), []
    for start in (Start(2, 3), Start(10, 20), Start(30, 60), Start(60, 240)):
        setup = Setup(start=start, replicas_max=1000)
        most = [Run(curves, SHAPES["spike"](1), Metric(SIGNALS[key], target), setup).run().pods_max
                for key, target in (("saturation", 0.65), ("in_flight", 18.0))]  # fmt: skip
        told.append((str(most[0]), str(most[1])))
    assert rows == told


def test_the_page_says_what_the_simulation_does() -> None:
    """The first column of the table in docs/autoscaling.md."""
    page = (ROOT / "docs/autoscaling.md").read_text()
    rows = [line.split("|")[2].strip() for line in page.splitlines() if re.match(r"\| .* \| \d\.\d\d, ", line)]
    curves, told = PodCurves(read_recording(str(RECORDED))), []
    for scenario in scenarios(Setup(replicas_max=1000), 1):
        found = Run(curves, scenario.shape, Metric(SIGNALS["saturation"], 0.65), scenario.setup).run()
        share = f"{100 * found.out_share:.1f}"
        told.append(f"{found.pods_over_least:.2f}, {'0' if share == '0.0' else share} %")
    assert rows == told


def test_the_prelude_is_whole_turns() -> None:
    assert PRELUDE_S % 15 == 0
