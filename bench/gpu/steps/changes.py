"""The three changes that would gain most, over all steps that were profiled."""

from __future__ import annotations

from bench.gpu.profile.changes import ranked
from bench.gpu.run import Run

COUNT = 3


def measure(run: Run) -> None:
    """Reads the profiles of the results file. ``RuntimeError`` where there are none."""
    raw = run.results.read()["raw"]
    cases = {
        name: case["changes"]
        for step, found in raw.items()
        if step.startswith("profile:")
        for name, case in found.items()
        if "changes" in case
    }
    if not cases:
        raise RuntimeError("no step was profiled: the profiles failed, or have not run")
    found = ranked(cases)
    run.raw("ranked", [{"what": what, "mean_share": mean, "why": why} for what, mean, why in found])
    for number, (what, mean, why) in enumerate(found[:COUNT], 1):
        name = f"change {number} of {COUNT}: {what}"
        run.figure(name, 100 * mean, "% of a step", f"at most, mean of {len(cases)} steps; {why}")
