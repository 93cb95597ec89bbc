"""The plots of a report: functions from the result to a ``Plot``, or None where the result has no data for it."""

from __future__ import annotations

from fastqps.bench.report.plots.alternatives import calibration, differences
from fastqps.bench.report.plots.bars import (
    duty_by_dispatcher,
    duty_by_point,
    fates_by_load,
    stage_share_bars,
    stage_time_bars,
)
from fastqps.bench.report.plots.latency import goodput_by_load, latency_by_load, lateness, spectrum
from fastqps.bench.report.plots.plot import Plot
from fastqps.bench.report.plots.timeline import process_drift, timeline
from fastqps.bench.report.plots.tune import explored_grid, search_path
from fastqps.bench.results.result import Result

_OVER_TIME = (timeline, process_drift)  # first of the mode that looks at one load over time
_PLOTS = (
    calibration,
    differences,
    explored_grid,
    search_path,
    latency_by_load,
    goodput_by_load,
    fates_by_load,
    duty_by_point,
    duty_by_dispatcher,
    stage_share_bars,
    stage_time_bars,
    spectrum,
    timeline,
    process_drift,
    lateness,
)


def plots_of(result: Result) -> list[Plot]:
    """The plots for which the result has data, the most important ones of its mode first."""
    order = dict.fromkeys((*_OVER_TIME, *_PLOTS)) if result.mode == "soak" else _PLOTS
    return [plot for draw in order if (plot := draw(result)) is not None]
