"""One load for long: whether latency, memory or descriptors drift."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from typing import Any

from fastqps.bench.flags import Common, parse_rate
from fastqps.bench.measure.closed_loop import find_peak
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.processes import Usage, usage
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result
from fastqps.bench.statistics.intervals import Drift, drift
from fastqps.bench.verdict import MATTERS, conclude

SHARE = 0.7  # of the peak, without --rate
SAMPLES = 200  # of the processes, over the run
SETTLED = 0.2  # of a run is for caches and pools to fill
LEAST = {"memory": 0.05, "descriptors": 0.05}  # growth that is worth a word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the load; --duration sets its length."""
    parser.add_argument("--rate", type=parse_rate, metavar="R", help="calls per second (default: 70 %% of the peak)")
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="supervisor of a server at --address, to watch its processes"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """The rate."""
    if options.rate is not None:
        common.load.at_rate(options.rate)


def run(context: Context) -> Result:
    """One long point, and what drifted meanwhile in ``drift``. UNSTABLE: something grew. INCONCLUSIVE: nothing did, as
    far as there are samples to tell."""
    options, result = context.options, context.result
    rate = SHARE * find_peak(context) if options.rate is None else options.rate
    load = context.load.at_rate(rate)
    context.progress.expect(1)
    pid = context.server().pid or options.pid
    watch = _Watch(pid, load.duration_s / SAMPLES)
    with watch:
        point = context.measure({}, load, name=f"{rate:,.0f}/s for {load.duration_s:g} s")
    drifts = [*of_processes(watch.samples), *_of_latency(point)]
    result.extra |= {"drift": [one.as_json() for one in drifts], "processes": watch.samples}
    grown = [one for one in drifts if one.grows]
    result.notes += [str(one) for one in grown] or _nothing_grew(drifts)
    if pid is None and not context.target.own:
        result.notes.append("memory and descriptors were not watched: name the server's supervisor with --pid")
    elif pid is not None and not watch.samples:
        result.notes.append("memory and descriptors are not known: the run was too short, or the processes had gone")
    unknown = any(one.slope_per_hour is None for one in drifts) or not drifts or (pid is not None and not watch.samples)
    conclude(result, [point], "UNSTABLE" if grown else "INCONCLUSIVE" if unknown else "VALID")
    result.best = 0
    return result


def _nothing_grew(drifts: Sequence[Drift]) -> list[str]:
    """The verdict if no series grew: none for a series with too few samples."""
    if not drifts:
        return ["no second was measured: nothing is known of what grew"]
    unknown = [one.name for one in drifts if one.slope_per_hour is None]
    if not unknown:
        return ["nothing grew"]
    known = ["nothing else grew"] if len(unknown) < len(drifts) else []
    return [f"too few samples to tell whether this grew: {', '.join(unknown)}; measure longer (--duration)", *known]


class _Watch:
    """Looks at a server's processes now and then."""

    def __init__(self, pid: int | None, every_s: float) -> None:
        self.samples: list[dict[str, Any]] = []
        self._pid, self._every_s = pid, max(0.5, every_s)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began_s = time.monotonic()
        while self._pid and not self._over.wait(self._every_s):
            self.samples.append(sample(usage(self._pid), time.monotonic() - began_s))


def sample(processes: Sequence[Usage], t_s: float) -> dict[str, Any]:
    """Totals by role. Shared memory counts in each process that touches it, so it is left out."""
    memory: dict[str, int] = {}
    descriptors: dict[str, int] = {}
    for process in processes:
        private = process.resident_bytes - process.shared_bytes
        memory[process.role] = memory.get(process.role, 0) + private
        descriptors[process.role] = descriptors.get(process.role, 0) + process.descriptors
    return {"t_s": round(t_s, 1), "memory_bytes": memory, "descriptors": descriptors}


def of_processes(samples: Sequence[dict[str, Any]]) -> list[Drift]:
    """The drift of each role's memory and descriptors, after the run has settled."""
    settled = samples[int(SETTLED * len(samples)) :]
    drifts = []
    for key, kind, unit in (("memory_bytes", "memory", "bytes"), ("descriptors", "descriptors", "")):
        roles = settled[-1][key] if settled else {}
        for role in roles:
            series = [(s["t_s"], float(s[key].get(role, 0))) for s in settled]
            drifts.append(drift(f"{kind} of {role}", unit, series, LEAST[kind]))
    return drifts


def _of_latency(point: Point) -> list[Drift]:
    rows = point.timeline[int(SETTLED * len(point.timeline)) :]
    drifts = []
    for name in ("p50", "p99"):
        series = [(float(row["t_s"]), float(row[f"{name}_us"])) for row in rows if row.get(f"{name}_us") is not None]
        drifts.append(drift(name, "us", series, MATTERS[f"{name}_us"]))
    return drifts
