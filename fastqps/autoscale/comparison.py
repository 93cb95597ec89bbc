"""Signals against each other on the same traffic, each at the target that suits it best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from fastqps.autoscale.cluster import Nodes
from fastqps.autoscale.pod import PodCurves
from fastqps.autoscale.proposals import milli
from fastqps.autoscale.shapes import SHAPES, Shape
from fastqps.autoscale.signals import SIGNALS, Signal
from fastqps.autoscale.simulation import Metric, Outcome, Run, Setup

# A target is what a signal says at such a share of a pod's capacity.
SHARES = tuple(round(0.65 * 1.1**k, 3) for k in range(-6, 5))
DIGITS = 2  # of a target: nobody writes more into a manifest
WORTH = 100.0  # one per cent less time outside of the SLO is worth so many per cent more pods: who promises 99.9 %
SHORTAGE = Nodes(spare=2, start_s=180.0)


@dataclass(frozen=True)
class Scenario:
    """A shape under circumstances."""

    name: str
    shape: Shape
    setup: Setup

    @property
    def description(self) -> str:
        return self.shape.description + ("" if self.setup.nodes == Nodes() else ", and most new pods wait for a node")


def scenarios(setup: Setup, seed: int, names: Iterable[str] = ()) -> list[Scenario]:
    """All of them, or those of these names: every shape, and a step with hardly any room for pods."""
    found = [Scenario(name, make(seed), setup) for name, make in SHAPES.items()]
    short = replace(setup, nodes=SHORTAGE) if setup.nodes == Nodes() else setup
    found.append(Scenario("shortage", SHAPES["step"](seed), short))
    wanted = list(names)
    return [scenario for scenario in found if not wanted or scenario.name in wanted]


@dataclass
class Trial:
    """One target in all scenarios. ``share``: of the capacity, at which the signal says ``target``."""

    target: float
    share: float
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def out_share(self) -> float:
        return fmean(outcome.out_share for outcome in self.outcomes)

    @property
    def pods_over_least(self) -> float:
        return fmean(outcome.pods_over_least for outcome in self.outcomes)

    def score(self, worth: float) -> float:
        """Less is better: pods, and time outside of the SLO as if it were pods."""
        return self.pods_over_least + worth * self.out_share


def targets(curves: PodCurves, signal: Signal) -> list[tuple[float, float]]:
    """(target, share) that are worth a trial: different ones, that an autoscaler can be given."""
    found: dict[float, float] = {}
    for share in SHARES:
        value = curves.signals[signal.key][curves.cell(share * curves.capacity)]
        target = round(value, 2) if signal.kind == "resource" else float(f"{value:.{DIGITS}g}")
        if milli(target) >= (10 if signal.kind == "resource" else 1):
            found[target] = share
    return sorted(found.items())


@dataclass
class Contest:
    """One signal's trials, the lowest target first. ``picked``: the one that does best if it may as well be the next
    one, because no capacity is known to better than a tenth. None: there is no target that could be set."""

    signal: Signal
    trials: list[Trial]
    picked: int | None


def pick(scores: Sequence[float]) -> int | None:
    """Picks the target for which the worse of its own and the next one's score is best. ``trials`` are ordered by
    target."""
    if len(scores) < 2:
        return 0 if scores else None
    return min(range(len(scores) - 1), key=lambda k: max(scores[k], scores[k + 1]))


def contest(
    curves: PodCurves,
    signal: Signal,
    among: Sequence[Scenario],
    worth: float,
    done: Callable[[], None],
    tried: Sequence[tuple[float, float]] = (),
) -> Contest:
    """All targets of a signal in all scenarios, or those of ``tried``. ``done``: called after each run."""
    trials = []
    for target, share in tried or targets(curves, signal):
        trial = Trial(target, share)
        for scenario in among:
            trial.outcomes.append(Run(curves, scenario.shape, Metric(signal, target), scenario.setup).run())
            done()
        trials.append(trial)
    return Contest(signal, trials, pick([trial.score(worth) for trial in trials]))


def contest_json(found: Contest, worth: float) -> dict[str, Any]:
    """The contest for a report, with courses of the picked trial only, because they are long."""
    rows = []
    for k, trial in enumerate(found.trials):
        figures = {"target": trial.target, "share": trial.share, "score": trial.score(worth)}
        figures |= {"out_share": trial.out_share, "pods_over_least": trial.pods_over_least}
        rows.append({**figures, "runs": [_run_json(outcome, k == found.picked) for outcome in trial.outcomes]})
    own = {"key": found.signal.key, "name": found.signal.name, "kind": found.signal.kind}
    return {**own, "picked": found.picked, "trials": rows}


def _run_json(outcome: Outcome, course: bool) -> dict[str, Any]:
    found = asdict(outcome) | {"out_share": outcome.out_share, "pods_over_least": outcome.pods_over_least}
    return found if course else found | {"course": []}


def signals_of(names: Iterable[str]) -> list[Signal]:
    """The signals by key; all of them if no key is given."""
    return [SIGNALS[name] for name in names] or list(SIGNALS.values())
