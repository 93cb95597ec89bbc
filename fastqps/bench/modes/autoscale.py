"""Simulates a cluster's autoscaler on a pod's signals: which signal to scale on, and at what target."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from fastqps.autoscale.behavior import CAUTIOUS, DEFAULT
from fastqps.autoscale.cluster import Nodes, Start
from fastqps.autoscale.comparison import (
    WORTH,
    Contest,
    Scenario,
    contest,
    contest_json,
    scenarios,
    signals_of,
    targets,
)
from fastqps.autoscale.pod import PodCurves
from fastqps.autoscale.recording import Recording, read_recording
from fastqps.autoscale.shapes import SHAPES, read_trace, scaled
from fastqps.autoscale.signals import SIGNALS
from fastqps.autoscale.simulation import Setup
from fastqps.bench.results.result import Result
from fastqps.config.units import parse_duration
from fastqps.errors import ConfigError

BEHAVIORS = {"cautious": CAUTIOUS, "default": DEFAULT}
SCENARIOS = (*SHAPES, "shortage")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The pod, the traffic, the cluster."""
    parser.add_argument("--recording", metavar="FILE", required=True, help="of a pod, by fastqps bench signals")
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument(
        "--scenarios", metavar="NAME,…", default="", help=f"of {', '.join(SCENARIOS)} (default: all of them)"
    )
    traffic.add_argument("--trace", metavar="FILE", help="a course of your own: lines of SECONDS,REQUESTS_PER_SECOND")
    traffic.add_argument("--scale", type=float, default=1.0, metavar="X", help="all rates times X (default: 1)")
    traffic.add_argument("--seed", type=int, default=1, metavar="N")
    scaler = parser.add_argument_group("autoscaler")
    scaler.add_argument("--signals", metavar="NAME,…", default="", help=f"of {', '.join(SIGNALS)} (default: all)")
    scaler.add_argument("--target", type=float, metavar="X", help="of the only signal; default: the best is looked for")
    scaler.add_argument(
        "--behavior",
        choices=tuple(BEHAVIORS),
        default="cautious",
        help="cautious: as in k8s/; default: Kubernetes' own",
    )
    scaler.add_argument("--min", type=int, default=2, metavar="PODS", help="at least so many (default: 2)")
    scaler.add_argument("--max", type=int, default=1000, metavar="PODS", help="at most so many (default: 1000)")
    scaler.add_argument(
        "--worth", type=float, default=WORTH, metavar="X",
        help=f"1 %% less time outside of the SLO is worth X %% more pods (default: {WORTH:g})",
    )  # fmt: skip
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--pull", default="10s", metavar="DURATION", help="until a pod's container runs (default: 10s)"
    )
    cluster.add_argument("--warm-up", default="20s", metavar="DURATION", help="from there to ready (default: 20s)")
    cluster.add_argument("--spare-pods", type=int, metavar="N", help="room for so many; others wait for a node")
    cluster.add_argument("--node-start", default="150s", metavar="DURATION", help="of a node (default: 150s)")


def run_alone(options: argparse.Namespace) -> Result:
    """``autoscale``: {recording, scenarios, contests, worth, setup}. See docs/autoscaling.md."""
    recording = read_recording(options.recording)
    signals = signals_of(_names(options.signals, "--signals", tuple(SIGNALS)))
    among = _scenarios(options)
    if options.target is not None and len(signals) != 1:
        raise ConfigError(f"--target {options.target:g}: name the one signal that it is for: --signals saturation")
    if not 0 <= options.worth <= 1000:
        raise ConfigError(f"--worth {options.worth:g}: 0 to 1000")
    curves = PodCurves(recording)
    tried = [(_target(options.target), 0.0)] if options.target is not None else []
    progress = _Progress(sum(len(tried or targets(curves, signal)) for signal in signals) * len(among))
    contests = [contest(curves, signal, among, options.worth, progress.done, tried) for signal in signals]
    progress.end()
    result = Result("autoscale", seeds={"traffic": options.seed})
    result.target = {"model": recording.model, "device": recording.device}
    result.slo = {"p99_us": recording.slo_us}
    result.extra["autoscale"] = _as_json(options, recording, curves, among, contests)
    result.notes += _notes(among, contests, options.worth)
    if all(found.picked is None for found in contests):
        result.verdict = "INCONCLUSIVE"
    return result


def _scenarios(options: argparse.Namespace) -> list[Scenario]:
    try:
        setup = Setup(
            start=Start(_seconds(options.pull, "--pull"), _seconds(options.warm_up, "--warm-up")),
            nodes=_nodes(options),
            behavior=BEHAVIORS[options.behavior],
            replicas_min=options.min,
            replicas_max=options.max,
        )
    except ValueError as error:
        raise ConfigError(f"--min, --max: {error}") from None
    if not 1e-6 <= options.scale <= 1e6:
        raise ConfigError(f"--scale {options.scale:g}: 0.000001 to 1000000")
    if not 0 <= options.seed < 1 << 31:
        raise ConfigError(f"--seed {options.seed}: 0 to {(1 << 31) - 1}")
    if options.trace:
        if options.scenarios:
            raise ConfigError("--trace is a scenario of its own: leave --scenarios out")
        shape = read_trace(options.trace)
        return [Scenario(shape.name, scaled(shape, options.scale), setup)]
    found = scenarios(setup, options.seed, _names(options.scenarios, "--scenarios", SCENARIOS))
    return [replace(one, shape=scaled(one.shape, options.scale)) for one in found]


def _nodes(options: argparse.Namespace) -> Nodes:
    if options.spare_pods is None:
        return Nodes()
    if options.spare_pods < 0:
        raise ConfigError(f"--spare-pods {options.spare_pods}: at least 0")
    return Nodes(spare=options.spare_pods, start_s=_seconds(options.node_start, "--node-start"))


def _names(text: str, flag: str, known: tuple[str, ...]) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := next((name for name in found if name not in known), None):
        raise ConfigError(f"{flag} {unknown}: there are {', '.join(known)}")
    return found


def _seconds(text: str, flag: str) -> float:
    try:
        return parse_duration(text) / 1e9
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def _target(value: float) -> float:
    if not 0.001 <= value <= 1e9:
        raise ConfigError(f"--target {value:g}: at least 0.001, as autoscalers know no smaller numbers")
    return value


def _as_json(
    options: argparse.Namespace,
    recording: Recording,
    curves: PodCurves,
    among: list[Scenario],
    contests: list[Contest],
) -> dict[str, Any]:
    setup = {key: getattr(options, key) for key in ("behavior", "min", "max", "pull", "warm_up")}
    setup |= {"spare_pods": options.spare_pods, "node_start": options.node_start, "scale": options.scale}
    return {
        "recording": recording.as_json(),
        "scenarios": [{"name": one.name, "told": one.description, "seconds": one.shape.seconds} for one in among],
        "contests": [contest_json(found, options.worth) for found in contests],
        "worth": options.worth,
        "setup": setup,
    }


def _notes(among: list[Scenario], contests: list[Contest], worth: float) -> list[str]:
    """Notes on scenarios in which saturation is not the best signal."""
    notes = [f"{found.signal.name}: no target could be set, it says next to nothing below the capacity"
             for found in contests if found.picked is None]  # fmt: skip
    picked = {found.signal.key: found.trials[found.picked] for found in contests if found.picked is not None}
    own = picked.pop("saturation", None)
    if own is None or not picked:
        return notes
    for k, scenario in enumerate(among):

        def score(key: str, k: int = k) -> float:
            outcome = (own if key == "saturation" else picked[key]).outcomes[k]
            return outcome.pods_over_least + worth * outcome.out_share

        better = sorted((key for key in picked if score(key) < score("saturation") - 0.01), key=score)
        if better:
            told = ", ".join(f"{SIGNALS[key].name} ({score(key):.2f})" for key in better)
            notes.append(f"{scenario.name}: saturation ({score('saturation'):.2f}) is beaten by {told}")
    return notes


class _Progress:
    """Runs done, on a terminal."""

    def __init__(self, runs: int) -> None:
        self._runs, self._done = runs, 0
        self._shown = sys.stderr.isatty()

    def done(self) -> None:
        self._done += 1
        if self._shown and self._done % 10 == 0:
            print(f"\rautoscale {self._done}/{self._runs}", end="", file=sys.stderr)

    def end(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr)
