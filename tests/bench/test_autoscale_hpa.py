"""The autoscaler's algorithm against what Kubernetes documents, and against the figures of its own tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from fastqps.autoscale.behavior import CAUTIOUS, DEFAULT, DEFAULT_DOWN, DEFAULT_UP, Behavior, Policy, Rules
from fastqps.autoscale.hpa import History, Hpa, Proposal, Spec, down_limit, up_limit
from fastqps.autoscale.pods import Pods, Tally, tally
from fastqps.autoscale.proposals import NoMetric, from_pods, from_resource, milli

pytestmark = pytest.mark.compute


def constant(pods: int) -> Proposal:
    """A metric that asks for so many."""
    return lambda: pods


def broken() -> int:
    """A metric that cannot be had."""
    raise NoMetric


def pods(levels: Sequence[int | None], **of_all: object) -> list[Pods]:
    return [Pods(level, **of_all) for level in levels]  # type: ignore[arg-type]


# ---- The page "Horizontal Pod Autoscaling" of the Kubernetes documentation.


@pytest.mark.parametrize(
    ("average", "target", "current", "wanted"),
    [
        (200, 100, 3, 6),  # 200m where 100m is desired: doubled
        (50, 100, 6, 3),  # 50m: halved
        (109, 100, 10, 10),  # within a tenth
        (90, 100, 10, 10),
        (110, 100, 10, 10),
        (111, 100, 10, 12),
        (89, 100, 10, 9),
    ],
)
def test_the_documented_ratio(average: int, target: int, current: int, wanted: int) -> None:
    seen = tally([Pods(average, count=current)], 0)
    assert from_pods(seen, target, current) == wanted


def test_the_documented_tolerance() -> None:
    """100 MiB with a scale-up tolerance of 5 %: nothing up to 105 MiB."""
    tolerance = Spec(1, 100, Behavior(Rules(0, DEFAULT_UP.policies, tolerance=0.05), DEFAULT_DOWN)).tolerance
    for mebibytes, wanted in ((100, 4), (105, 4), (106, 5), (91, 4), (89, 4), (70, 3)):
        assert from_pods(Tally(mebibytes * 1000 * 4, 0, 4), 100_000, 4, tolerance) == wanted, mebibytes


def test_the_documented_way_down_from_80_to_10() -> None:
    """4 pods or a tenth in a minute, whichever is more: 80, 72, 64, … and by 4 from 40 on."""
    down = Rules(0, (Policy("Pods", 4, 60), Policy("Percent", 10, 60)))
    hpa = Hpa(Spec(1, 100, Behavior(DEFAULT_UP, down)))
    replicas, course = 80, []
    for turn in itertools.count():
        replicas, before = hpa.decide(15.0 * turn, replicas, constant(10)), replicas
        if replicas != before:
            course.append(replicas)
        if replicas == 10:
            break
    assert course == [72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10]


def test_the_documented_limit_of_five_a_minute() -> None:
    """With selectPolicy Min at most 5 pods a minute go, also where a tenth would be more."""
    down = Rules(0, (Policy("Percent", 10, 60), Policy("Pods", 5, 60)), select="Min")
    for replicas, wanted in ((100, 95), (50, 45), (40, 36), (10, 9)):
        hpa = Hpa(Spec(1, 100, Behavior(DEFAULT_UP, down)))
        assert hpa.decide(0, replicas, constant(1)) == wanted
        assert hpa.decide(45, wanted, constant(1)) == wanted  # not again within the minute
        assert hpa.decide(61, wanted, constant(1)) < wanted


def test_the_documented_defaults() -> None:
    """Upwards at once, by 4 pods or by as many again every 15 s; downwards after five minutes."""
    hpa = Hpa(Spec(1, 1000, DEFAULT))
    replicas, course = 1, [1]
    for turn in range(1, 7):
        replicas = hpa.decide(16.0 * turn, replicas, constant(100))
        course.append(replicas)
    assert course == [1, 5, 10, 20, 40, 80, 100]
    asked_last_s = 16.0 * 6
    turns_s = [asked_last_s + 15 * k for k in range(1, 22)]
    assert [at_s for at_s in turns_s if hpa.decide(at_s, 100, constant(1)) == 1] == [
        at_s for at_s in turns_s if at_s >= asked_last_s + 300
    ]


def test_scaling_down_can_be_disabled() -> None:
    hpa = Hpa(Spec(1, 100, Behavior(DEFAULT_UP, Rules(0, (), select="Disabled"))))
    assert hpa.decide(0, 10, constant(1)) == 10
    assert hpa.decide(15, 10, constant(12)) == 12


def test_without_the_metric_nothing_happens() -> None:
    hpa = Hpa(Spec(2, 6))
    assert hpa.decide(0, 5, broken) == 5
    assert hpa.why == "FailedGetMetric"


# ---- The figures of replica_calculator_test.go (Kubernetes 1.35). Two containers each: requests of 2, usage twice.


def resource(
    levels: Sequence[int | None], target: int, current: int, requests: Sequence[int] = (), **states: object
) -> int:
    requests = requests or [1000] * len(levels)
    ready = states.get("ready", [True] * len(levels))
    hot = states.get("hot", [False] * len(levels))
    gone = states.get("gone", ["Running"] * len(levels))
    now_s = 10_000.0
    found = [
        Pods(
            None if level is None else 2 * level,
            request=2 * request,
            ready=ready[i],  # type: ignore[index]
            phase=gone[i],  # type: ignore[index]
            started_s=now_s - (30 if hot[i] else 600),  # type: ignore[index]
            turned_s=now_s - (30 if hot[i] else 600),  # type: ignore[index]
            sampled_s=now_s,
            window_s=60,
        )
        for i, (level, request) in enumerate(zip(levels, requests, strict=True))
    ]
    return from_resource(tally(found, now_s, cpu=True, initialization_s=120, readiness_s=10), target, current)


@pytest.mark.parametrize(
    ("levels", "target", "current", "states", "wanted"),
    [
        ((300, 500, 700), 30, 3, {}, 5),
        ((300, 500, 700), 30, 3, {"ready": (False, True, True)}, 4),
        ((300, 500, 700), 30, 3, {"hot": (True, False, False)}, 4),
        ((400, 500, 700), 30, 3, {"ready": (True, False, False)}, 3),
        ((500, 700, None, None), 30, 2, {"gone": ("Running", "Running", "Failed", "Failed")}, 4),
        ((100, 300, 500, 250, 250), 50, 5, {}, 3),
        ((100, 300, 500, 250, 250), 50, 5, {"ready": (True, True, True, False, False)}, 2),
        ((100, 300, 500, 250, 250), 50, 5, {"hot": (False, False, False, True, True)}, 2),
        ((100, None, None, None, None), 50, 5, {"gone": ("Running",) + ("Pending",) * 4}, 1),
        ((4000, 9500, 3000, 7000), 100, 4, {}, 24),
        ((400, 95, None, None), 100, 4, {}, 3),
        ((1000, None), 100, 2, {}, 2),
        ((1900, None), 100, 2, {}, 2),
        ((600, None), 100, 2, {}, 2),
        ((100, 450, None), 50, 3, {"ready": (False, True, True)}, 3),
        ((100, 450, None), 50, 3, {"hot": (True, False, False)}, 3),
        ((100, 2000, None), 50, 3, {"ready": (False, True, True)}, 4),
        ((100, 100, 100, None), 50, 4, {"ready": (False, True, True, True)}, 3),
        ((100, 100, None), 50, 2, {}, 2),  # a rolling update with one more pod than there shall be
    ],
)
def test_resource_metrics(levels: Sequence[int | None], target: int, current: int, states: dict, wanted: int) -> None:  # type: ignore[type-arg]
    ready = states.get("ready")
    if ready is not None:  # they have never been ready: what they turned is what they were from the start
        states = {**states, "hot": tuple(not one for one in ready)} if "hot" not in states else states
    assert resource(levels, target, current, **states) == wanted


def test_a_target_above_what_is_requested() -> None:
    found = resource((200, 100, 100, None), 300, 4, (1000, 1000, 2000, 2000), ready=(False, True, True, True),
                     hot=(True, False, False, False))  # fmt: skip
    assert found == 2


def test_tolerance_decides_to_the_percent() -> None:
    """50 % used: a target of 56 % is breached by its tolerance, one of 55 % is not."""
    requests = [300 + by for by in (100, -100, 10, -10, 2, -2, 1, -1, 0, 0)]
    assert resource([150] * 10, 56, 10, requests) == 9
    assert resource([150] * 10, 55, 10, requests) == 10


@pytest.mark.parametrize(
    ("levels", "target", "current", "wanted"),
    [
        ((20_000, 10_000, 30_000), 15_000, 3, 4),
        ((50_000, 10_000, 30_000), 15_000, 3, 6),  # readiness does not matter to metrics that are not CPU
        ((50_000, 15_000, 30_000), 15_000, 3, 7),
        ((20_000, 19_000, 21_000, None, None), 20_000, 5, 5),
        ((10_000, 10_000, None), 17_000, 2, 2),
    ],
)
def test_pods_metrics(levels: Sequence[int | None], target: int, current: int, wanted: int) -> None:
    assert from_pods(tally(pods(levels, ready=False), 0), target, current) == wanted


def test_no_pod_shows_the_metric() -> None:
    for propose in (lambda: from_pods(Tally(missing=3), 1, 3), lambda: from_resource(Tally(unready=3), 50, 3)):
        with pytest.raises(NoMetric):
            propose()


NEW = {"started_s": 940.0, "turned_s": 970.0, "sampled_s": 1000.0}


@pytest.mark.parametrize(
    ("pod", "which"),
    [
        (Pods(1, **NEW, window_s=30), "counted"),
        (Pods(1, **NEW, window_s=60), "unready"),  # a part of the window was before it was ready
        (Pods(1, ready=False, started_s=400.0, turned_s=406.0), "unready"),  # never was ready
        (Pods(1, ready=False, started_s=400.0, turned_s=460.0), "counted"),  # was, once
        (Pods(1, started_s=820.0, turned_s=820.0, sampled_s=880.0, window_s=60), "counted"),
        (Pods(1), "unready"),  # nothing is known of its start
        (Pods(None, started_s=820.0), "missing"),
        (Pods(None, phase="Pending"), "unready"),
        (Pods(1, phase="Pending", deleted=True), ""),
        (Pods(1, phase="Failed"), ""),
    ],
)
def test_which_pods_count(pod: Pods, which: str) -> None:
    seen = tally([pod], 1000.0, cpu=True, initialization_s=120, readiness_s=10)
    found = {"counted": seen.counted, "unready": seen.unready, "missing": seen.missing}
    assert found == {name: int(name == which) for name in found}


# ---- The figures of horizontal_test.go (Kubernetes 1.35): limits with what was done before, and windows.


def rules(pods: int, pods_s: int, percent: int, percent_s: int, window_s: int) -> Rules:
    policies = [Policy("Pods", pods, pods_s)] if pods else []
    policies += [Policy("Percent", percent, percent_s)] if percent else []
    return Rules(window_s, tuple(policies))


def spread(changes: Sequence[int], period_s: int, now_s: float) -> list[tuple[float, int]]:
    """In the middle of equal parts of the period before now."""
    part_s = period_s / max(1, len(changes))
    return [(now_s - int(period_s - part_s * (k + 1) + part_s / 2), by) for k, by in enumerate(changes)]


@pytest.mark.parametrize(
    ("replicas", "asked", "least", "most", "up", "down", "added", "removed", "wanted", "why"),
    [
        (5, 7, 3, 8, None, None, (), (), 7, "DesiredWithinRange"),
        (3, 1, 2, 8, None, None, (), (), 2, "TooFewReplicas"),
        (1, 0, 0, 10, None, None, (), (), 0, "DesiredWithinRange"),
        (100, 1000, 100, 150, None, None, (), (), 150, "TooManyReplicas"),
        (3, 1000, 1, 2000, (0, 0, 1, 60, 0), None, (), (), 4, "ScaleUpLimit"),
        (1000, 3, 3, 2000, None, (20, 60, 0, 0, 0), (), (), 980, "ScaleDownLimit"),
        (10, 50, 1, 1000, None, None, (), (), 20, "ScaleUpLimit"),
        (10, 500, 1, 1000, (100, 60, 100, 60, 0), None, (), (), 110, "ScaleUpLimit"),
        (10, 500, 1, 1000, (2, 60, 100, 60, 0), None, (), (), 20, "ScaleUpLimit"),
        (10, 50, 1, 1000, (100, 60, 0, 0, 0), None, (), (), 50, "DesiredWithinRange"),
        (10, 50, 1, 1000, (30, 60, 0, 0, 0), None, (), (), 40, "ScaleUpLimit"),
        (10, 50, 1, 1000, (0, 0, 200, 60, 0), None, (), (), 30, "ScaleUpLimit"),
        (100, 2, 1, 1000, None, (20, 60, 1, 60, 0), (), (), 80, "ScaleDownLimit"),
        (100, 2, 1, 1000, None, (2, 60, 1, 60, 0), (), (), 98, "ScaleDownLimit"),
        (10, 0, 1, 1000, None, (100, 60, 0, 0, 0), (), (), 1, "TooFewReplicas"),
        (10, 2, 5, 1000, None, (0, 0, 100, 60, 0), (), (), 5, "TooFewReplicas"),
        (10, 2, 1, 1000, None, (5, 60, 0, 0, 0), (), (), 5, "ScaleDownLimit"),
        (10, 5, 1, 1000, None, (0, 0, 50, 60, 0), (), (), 5, "DesiredWithinRange"),
        (100, 500, 1, 200, (300, 60, 0, 0, 0), None, (1, 5, 9), (), 200, "TooManyReplicas"),
        (100, 500, 1, 200, (0, 0, 10000, 60, 0), None, (1, 5, 9), (), 200, "TooManyReplicas"),
        (100, 500, 1, 1000, (5, 120, 0, 0, 0), None, (1, 5, 9), (), 100, "ScaleUpLimit"),
        (100, 500, 1, 1000, (150, 120, 0, 0, 0), None, (1, 5, 9), (), 235, "ScaleUpLimit"),
        (100, 500, 1, 1000, (0, 0, 200, 120, 0), None, (1, 5, 9), (), 255, "ScaleUpLimit"),
        (6, 24, 1, 1000, (0, 0, 300, 300, 0), None, (4,), (2,), 16, "ScaleUpLimit"),
        (10, 5, 1, 1000, None, (0, 0, 100, 15, 0), (), (1, 5, 9), 5, "DesiredWithinRange"),
        (100, 0, 1, 1000, None, (115, 120, 0, 0, 0), (), (1, 5, 9), 1, "TooFewReplicas"),
        (100, 0, 5, 1000, None, (130, 120, 0, 0, 0), (), (1, 5, 9), 5, "TooFewReplicas"),
        (100, 2, 5, 1000, None, (0, 0, 100, 120, 0), (), (1, 5, 9), 5, "TooFewReplicas"),
        (100, 2, 1, 1000, None, (5, 120, 0, 0, 0), (), (1, 5, 9), 100, "ScaleDownLimit"),
        (100, 0, 1, 1000, None, (0, 0, 50, 120, 0), (), (2, 4, 6), 56, "ScaleDownLimit"),
        (10, 1, 1, 1000, None, (0, 0, 50, 180, 0), (2,), (4,), 6, "ScaleDownLimit"),
        (100, 0, 1, 1000, None, (0, 0, 10, 120, 0), (), (10, 10, 10), 100, "ScaleDownLimit"),
        (10, 5, 1, 1000, None, (0, 0, 1000, 120, 0), (), (10, 10, 10), 5, "DesiredWithinRange"),
        (100, 200, 1, 1000, (1000, 60, 0, 0, 0), None, (8, 12, 9, 11), (), 200, "DesiredWithinRange"),
        (100, 200, 1, 1000, (1000, 30, 100, 60, 0), None, (8, 12, 9, 11), (), 200, "DesiredWithinRange"),
        (100, 5, 1, 1000, None, (1000, 30, 100, 60, 0), (), (8, 12, 9, 11), 5, "DesiredWithinRange"),
    ],
)
def test_limits(
    replicas: int, asked: int, least: int, most: int, up: tuple[int, ...] | None, down: tuple[int, ...] | None,
    added: Sequence[int], removed: Sequence[int], wanted: int, why: str,
) -> None:  # fmt: skip
    now_s = 1000.0
    past = History(
        added=spread(added, 120, now_s) if added else [], removed=spread(removed, 120, now_s) if removed else []
    )
    past.asked.append((0.0, replicas))  # long ago: windows are not what is looked at
    behavior = Behavior(rules(*up) if up else DEFAULT_UP, rules(*down) if down else Rules(0, DEFAULT_DOWN.policies))
    hpa = Hpa(Spec(least, most, behavior), past)
    assert (hpa.decide(now_s, replicas, constant(asked)), hpa.why) == (wanted, why)


def test_outside_of_minimum_and_maximum_metrics_do_not_matter() -> None:
    for replicas, wanted in ((1, 2), (6, 5), (0, 0)):  # none at all: somebody has switched it off
        assert Hpa(Spec(2, 5)).decide(0, replicas, broken) == wanted


@pytest.mark.parametrize(
    ("replicas", "asked", "now", "up_s", "down_s", "wanted"),
    [
        (100, [], 5, 0, 0, 5),
        (100, [(-120, 4), (-60, 5)], 3, 0, 180, 5),
        (1, [(-120, 4), (-60, 5)], 7, 300, 0, 4),
        (100, [(-120, 1), (-60, 2)], 3, 300, 0, 3),
        (1, [(-120, 4), (-60, 5)], 3, 0, 300, 3),
        (100, [(-600, 10), (-540, 9)], 3, 0, 0, 3),
        (1, [(-600, 10), (-540, 9)], 100, 0, 0, 100),
        (100, [(-600, 10), (-60, 4), (-120, 5), (-540, 9)], 3, 0, 180, 5),
        (1, [(-6000, 10), (-60, 6), (-120, 5), (-180, 9)], 100, 300, 0, 5),
        (2, [(-6000, 2), (-180, 3)], 1, 300, 300, 2),
        (2, [(-6000, 2), (-180, 1)], 3, 300, 300, 2),
    ],
)
def test_windows(replicas: int, asked: list[tuple[int, int]], now: int, up_s: int, down_s: int, wanted: int) -> None:
    free = (Policy("Pods", 10_000, 1),)
    past = History(asked=[(10_000.0 + s, pods) for s, pods in asked] or [(0.0, 0)])
    hpa = Hpa(Spec(0, 1000, Behavior(Rules(up_s, free), Rules(down_s, free))), past)
    assert hpa.decide(10_000, replicas, constant(now)) == wanted


@pytest.mark.parametrize(
    ("limit", "replicas", "wanted"), [(up_limit, 1, 2), (down_limit, 5, 3)]
)  # of 2 pods and of 50 %, both a minute
def test_the_smaller_change(limit: Callable[..., int], replicas: int, wanted: int) -> None:
    smaller = Rules(300, (Policy("Pods", 2, 60), Policy("Percent", 50, 60)), select="Min")
    assert limit(smaller, lambda period_s: replicas) == wanted


def test_what_is_remembered_has_an_end() -> None:
    """A day of turns leaves no more than the windows hold."""
    past = History()
    hpa = Hpa(Spec(1, 1000, CAUTIOUS), past)
    replicas = 10
    for turn in range(5760):
        replicas = hpa.decide(15.0 * turn, replicas, constant(10 + turn * 7919 % 50))
    assert len(past.asked) <= 300 / 15 + 2
    assert len(past.added) <= 6
    assert len(past.removed) <= 6


@pytest.mark.parametrize(("value", "as_milli"), [(0.65, 650), (0.0004, 0), (1.9999, 1999), (0.005, 5), (3, 3000)])
def test_thousandths(value: float, as_milli: int) -> None:
    assert milli(value) == as_milli


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Spec(3, 2),
        lambda: Spec(0, 0),
        lambda: Spec(-1, 2),
        lambda: Policy("Pods", 0, 15),
        lambda: Policy("Percent", 10, 1801),
        lambda: Rules(3601, DEFAULT_UP.policies),
        lambda: Rules(0, ()),
        lambda: Rules(0, DEFAULT_UP.policies, tolerance=1.0),
    ],
)
def test_what_the_api_refuses(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"[0-9]"):
        wrong()
