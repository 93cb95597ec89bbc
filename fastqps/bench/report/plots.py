"""The plots of a report, as images for its page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from fastqps.bench.report import drawings, wording
from fastqps.bench.results.result import Result

_STYLE = Path(__file__).with_name("page.mplstyle")
Draw = Callable[[Result, Figure], str]


@dataclass(frozen=True)
class Plot:
    """``image``: a data URI. ``alt``: what it shows, for readers who cannot see it. ``reading``: how to read it."""

    key: str
    title: str
    image: str
    alt: str
    reading: str


def plots_of(result: Result) -> list[Plot]:
    """The plots for which the result has data."""
    plots = []
    for draw, title, reading in _PLOTS:
        with rc_context(fname=_STYLE):
            if alt := draw(result, figure := Figure()):
                key = draw.__name__.replace("_", "-")
                plots.append(Plot(key, title, _image(key, figure), wording.one_line(alt), reading))
    return plots


def _image(key: str, figure: Figure) -> str:
    raw = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names in a script that the font lacks
        figure.savefig(raw, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(raw.getvalue()).decode()}"


_PLOTS: tuple[tuple[Draw, str, str], ...] = (
    (
        drawings.latency,
        "Latency against offered load",
        "Flat lines are a server with room; where they turn upwards, requests begin to queue. Times count from when a "
        "request should have been sent.",
    ),
    (
        drawings.goodput,
        "Goodput against offered load",
        "A good server leaves the dotted line at its capacity and stays level beyond. A curve that falls says that "
        "overload costs work that is then thrown away.",
    ),
    (
        drawings.stages,
        "Where the time goes",
        "Orange is the device, yellow the wait for it, grey (wire) what the client saw beyond the server's own stamps. "
        "The rest is the host's own work.",
    ),
    (
        drawings.duty_cycle,
        "Duty cycle and reasons for idling",
        "Orange is time in which the device ran something, the other colours what dispatchers waited for meanwhile.",
    ),
    (
        drawings.timeline,
        "Second by second",
        "A steady server draws level lines. Spikes of p99 with a dip of the answers are stalls. Open calls that climb "
        "without end say that the load is beyond capacity.",
    ),
    (
        drawings.processes,
        "Memory and descriptors",
        "A line that climbs after the first minutes is a leak: of memory, or of connections and files.",
    ),
    (
        drawings.spectrum,
        "Percentile spectrum",
        "Where service time (from the actual sending) and response time (from the intended one) part, requests waited "
        "before they could be sent.",
    ),
)
