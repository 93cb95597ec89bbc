"""Duty cycles that can be computed, measured on a modelled device: steps of 5 ms, 6 ms of the host to launch each.

What else runs on the machine can only lower a duty cycle, so the best of a few tries counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from figures import Perf, Unmeasured
from paths import ROOT

from fastqps.bench.modes.breakdown import covered
from fastqps.bench.report.points import stage_means
from fastqps.bench.results.point import Point
from fastqps.config import load
from fastqps.errors import GENERATOR_BOUND, INCONCLUSIVE

pytestmark = pytest.mark.perf

PROFILE = ROOT / "examples/duty_cycle/step-5ms.toml"
STEP_MS, LAUNCH_MS = 5.0, 6.0  # of that profile
RUN_S_MAX = 75.0
# A busy host below a virtual machine shows in no counter, and makes all hand-overs slower. What is told apart here, a
# device that waits for its host or not, or once more for 1.25 ms, is twice as much and more.
LOWER_MAX, HIGHER_MAX = 0.06, 0.03
# Few short texts in a step, so that real work stays small beside the modelled. The server and the generator share all
# CPUs: two dispatchers that launch need more than one.
COMMON = ("--model", "minilm", "--pin", "off", "--lengths", "4", "--set", "max-batch-items=8", "-c", "256")
HELD = ("--try", "lanes=1", "--try", "max-batch-delay=0us", "--try", "max-batch-tokens=4096")


def bench(mode: str, folder: Path, launch_ms: float, *flags: str) -> dict[str, Any]:
    """The report of a run on a host that launches a step in so many milliseconds."""
    (profile := folder / "step-5ms.toml").write_text(
        PROFILE.read_text().replace(f"launch_us = {1000 * LAUNCH_MS:g}", f"launch_us = {1000 * launch_ms:g}")
    )
    assert f"launch_us = {1000 * launch_ms:g}" in profile.read_text()
    command = [sys.executable, "-m", "fastqps", "bench", mode, "--output", str(folder), "--warmup", "300ms"]
    command += ["--device", f"sim:{profile}", *flags]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, env=env, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"no result within {RUN_S_MAX:g} s") from None
    if done.returncode in (GENERATOR_BOUND, INCONCLUSIVE):
        raise Unmeasured(done.stderr)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


@pytest.mark.parametrize(
    ("launch_ms", "async_steps", "computed"),
    [
        (LAUNCH_MS, "off", STEP_MS / (STEP_MS + LAUNCH_MS)),  # the device waits while the host launches
        (1.25, "off", STEP_MS / (STEP_MS + 1.25)),
        (LAUNCH_MS, "on", STEP_MS / LAUNCH_MS),  # the host launches while the device runs, but takes longer
        (0, "on", 1.0),  # the next step is there long before the device wants it
    ],
)
def test_one_dispatcher(launch_ms: float, async_steps: str, computed: float, tmp_path: Path, perf: Perf) -> None:
    chosen = ("--set", "dispatchers=1", "--set", f"async-steps={async_steps}", "--duration", "1s")

    def measure() -> float:
        return float(bench("rate", tmp_path, launch_ms, *COMMON, *chosen)["points"][0]["duty_cycle"])

    name = f"duty cycle, launches of {launch_ms:g} ms, async-steps {async_steps}"
    perf(name, measure, at_least=computed - (LOWER_MAX if launch_ms else 0.01), at_most=computed + HIGHER_MAX)


@pytest.mark.parametrize(("launch_ms", "dispatchers", "least"), [(LAUNCH_MS, 2, 0.9), (0, 1, 0.97)])
def test_the_tuner_finds_how_many_dispatchers_it_takes(
    launch_ms: float, dispatchers: int, least: float, tmp_path: Path, perf: Perf
) -> None:
    """Two where a launch takes longer than the device, one where it does not; and a server takes its file.

    One dispatcher with slow launches keeps the device busy for 83 % of the time at most.
    """

    def measure() -> float:
        tries = ("--try", "dispatchers=1,2", *HELD, "--duration", "700ms", "--probes", "12")
        report = bench("tune", tmp_path, launch_ms, *COMMON, *tries)
        best = report["points"][report["best"]]
        if best["settings"]["dispatchers"] != dispatchers:
            raise Unmeasured(f"the tuner chose {best['settings']}")
        return float(best["duty_cycle"])

    perf(f"duty cycle tuned for launches of {launch_ms:g} ms", measure, at_least=least)
    config = load({}, {}, str(tmp_path / "fastqps.toml")).config
    assert (config.dispatchers, config.max_batch_items) == (dispatchers, 8)


def test_stages_add_up_to_what_the_generator_saw(tmp_path: Path, perf: Perf) -> None:
    """One call at a time, and 16: less than a tenth of a call is outside the server, and nothing counts twice."""

    def measure(in_flight: int) -> float:
        flags = ("--lengths", "30", "--duration", "1s", "--concurrency", str(in_flight))
        point = Point(**bench("breakdown", tmp_path, LAUNCH_MS, *flags)["points"][0])
        means = stage_means(point)
        stages = {stage for stage, us in means.items() if us > 0}
        assert stages >= {"receive", "parse", "tokenize", "queue", "gather", "device", "scatter", "drain", "send"}
        assert means["device"] >= 1000 * STEP_MS
        return covered(point)

    for in_flight in (1, 16):
        perf(f"part in stages, {in_flight} in flight", partial(measure, in_flight), at_least=0.9, at_most=1.01)
