"""The plots of a report: functions from the result to a ``Plot``, or None where the result has no data for it."""

from __future__ import annotations

from fastqps.bench.report.plots.autoscale import courses, signal_curves, trade_off
from fastqps.bench.report.plots.calibration import calibration
from fastqps.bench.report.plots.compare import differences
from fastqps.bench.report.plots.drift import process_drift
from fastqps.bench.report.plots.duty import duty_by_dispatcher, duty_by_point
from fastqps.bench.report.plots.latency import latency_by_load, spectrum
from fastqps.bench.report.plots.lateness import lateness
from fastqps.bench.report.plots.levers import levers, starvation
from fastqps.bench.report.plots.load import fates_by_load, goodput_by_load
from fastqps.bench.report.plots.plot import Plot
from fastqps.bench.report.plots.stages import stage_shares_plot, stage_times_plot
from fastqps.bench.report.plots.timeline import timeline
from fastqps.bench.report.plots.tune import explored_grid, search_path
from fastqps.bench.report.reading import Json, text_at

_OVER_TIME = (timeline, process_drift)  # of the modes that look at one load over time
_PLOTS = (
    trade_off,
    signal_curves,
    calibration,
    differences,
    explored_grid,
    search_path,
    levers,
    starvation,
    latency_by_load,
    goodput_by_load,
    fates_by_load,
    duty_by_point,
    duty_by_dispatcher,
    stage_shares_plot,
    stage_times_plot,
    spectrum,
    timeline,
    process_drift,
    lateness,
)


def plots_of(result: Json) -> list[Plot]:
    """Those that the result has data for, the most important ones of its mode first."""
    over_time = text_at(result, "mode") in ("soak", "replay")
    order = dict.fromkeys((*_OVER_TIME, *_PLOTS)) if over_time else _PLOTS
    return [*(plot for draw in order if (plot := draw(result)) is not None), *courses(result)]
