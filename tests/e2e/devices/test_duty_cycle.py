"""Duty cycles that can be computed, measured on a modelled device: steps of 5 ms, 6 ms of the host to launch each.

What else runs on the machine can only lower a duty cycle, so the best of a few tries counts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench_runs import bench
from duty_cycles import COMMON, FAST_HOST, HELD, LAUNCH_MS, SLOW_HOST, Expected, synchronous, with_launch
from figures import Perf, Unmeasured
from paths import ROOT

from fastqps.config import load

pytestmark = pytest.mark.perf

PROFILE = ROOT / "examples/duty_cycle/step-5ms.toml"
# A busy host below a virtual machine shows in no counter, and makes all hand-overs slower. What is told apart here, a
# device that waits for its host or not, or once more for 1.25 ms, is twice as much and more.
LOWER_MAX, HIGHER_MAX = 0.06, 0.03


def around(computed: float) -> tuple[float, float]:
    return computed - LOWER_MAX, computed + HIGHER_MAX


def launching_in(launch_ms: float, folder: Path) -> Path:
    """The profile of a host that launches a step in so many milliseconds."""
    if launch_ms == LAUNCH_MS:
        return PROFILE
    (profile := folder / "step-5ms.toml").write_text(with_launch(PROFILE, launch_ms))
    return profile


def duty_cycle(folder: Path, profile: Path, **settings: Any) -> float:
    chosen = [f"{key.replace('_', '-')}={value}" for key, value in settings.items()]
    flags = [part for one in chosen for part in ("--set", one)]
    report = bench("rate", folder, *COMMON, "--device", f"sim:{profile}", *flags, "--duration", "1s")
    return float(report["points"][0]["duty_cycle"])


@pytest.mark.parametrize("expected", [*SLOW_HOST[:2], *FAST_HOST], ids=lambda e: e.name)
def test_one_dispatcher(expected: Expected, tmp_path: Path, perf: Perf) -> None:
    profile = PROFILE if expected in SLOW_HOST else launching_in(0, tmp_path)
    at_least, at_most = (expected.duty_cycle, None) if expected.least else around(expected.duty_cycle)

    def measure() -> float:
        return duty_cycle(tmp_path, profile, **expected.settings)

    perf.best(f"duty cycle of {expected.name}", measure, at_least=at_least, at_most=at_most)


def test_a_planted_delay_costs_what_it_takes(tmp_path: Path, perf: Perf) -> None:
    """A synchronous dispatcher whose launches take longer: the device stands still for just that time."""
    planted_ms = 1.25
    profile = launching_in(planted_ms, tmp_path)
    at_least, at_most = around(synchronous(planted_ms))

    def measure() -> float:
        return duty_cycle(tmp_path, profile, dispatchers=1, **{"async-steps": "off"})

    perf.best(f"duty cycle with launches of {planted_ms} ms", measure, at_least=at_least, at_most=at_most)


@pytest.mark.parametrize(("launch_ms", "dispatchers", "least"), [(LAUNCH_MS, 2, 0.9), (0, 1, 0.97)])
def test_the_tuner_finds_how_many_dispatchers_it_takes(
    launch_ms: float, dispatchers: int, least: float, tmp_path: Path, perf: Perf
) -> None:
    """Two where a launch takes longer than the device, one where it does not; and a server takes its file.

    One dispatcher with slow launches keeps the device busy for 83 % of the time at most.
    """
    device = ("--device", f"sim:{launching_in(launch_ms, tmp_path)}")

    def measure() -> float:
        tries = ("--try", "dispatchers=1,2", *HELD, "--duration", "700ms", "--probes", "12")
        report = bench("tune", tmp_path, *COMMON, *device, *tries)
        best = report["points"][report["best"]]
        if best["settings"]["dispatchers"] != dispatchers:
            raise Unmeasured(f"the tuner chose {best['settings']}")
        return float(best["duty_cycle"])

    perf.best(f"duty cycle tuned for launches of {launch_ms} ms", measure, at_least=least)
    config = load({}, {}, str(tmp_path / "fastqps.toml")).config
    assert (config.dispatchers, config.max_batch_items) == (dispatchers, 8)


def test_stages_add_up_to_what_the_generator_saw(tmp_path: Path, perf: Perf) -> None:
    """One call at a time, and 16: less than a tenth of a call is outside the server, and nothing counts twice."""
    flags = ("--device", f"sim:{PROFILE}", "--lengths", "30", "--duration", "1s")

    def measure(in_flight: int) -> float:
        [row] = bench("breakdown", tmp_path, *flags, "--concurrency", str(in_flight))["breakdown"]
        stages = {stage for stage, cost in row["stages"].items() if cost["us"] > 0}
        assert stages >= {"receive", "parse", "tokenize", "queue", "gather", "device", "scatter", "drain", "send"}
        assert row["stages"]["device"]["us"] >= 5000
        return float(row["covered"])

    for in_flight in (1, 16):
        what = f"time of a call in stages, {in_flight} in flight"
        perf.best(what, partial(measure, in_flight), at_least=0.9, at_most=1.01)
