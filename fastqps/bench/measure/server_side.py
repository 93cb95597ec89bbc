"""The server's own figures of a measured time: duty cycle, idle reasons, stages, batches, CPU."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.results.point import Point, Summary
from fastqps.host.gpus import find_gpus
from fastqps.telemetry.live.counts import Counts
from fastqps.telemetry.live.remote import FetchError, fetch_counts
from fastqps.telemetry.live.spread import Spread
from fastqps.telemetry.live.view import View, view
from fastqps.telemetry.metrics.gpm import Gpm, GpmLook
from fastqps.telemetry.metrics.meter import WINDOW_S
from fastqps.telemetry.metrics.upstreams import HOP

_HOP_STAGES = dict(zip(HOP, ("upstream", "upstream_queue", "device"), strict=True))


@dataclass(frozen=True)
class Look:
    """One reading of a server. None: it has no admin port, its processes are not visible, or no GPU reports."""

    counts: Counts | None
    cpu_s: dict[str, float] | None
    at_s: float
    gpus: GpmLook | None = None


def look(admin: str, pid: int | None, gpm: Gpm | None = None) -> Look:
    """Now. Counters that cannot be read are None, so that an overloaded server does not end the measurement."""
    counts = None
    if admin:
        with contextlib.suppress(FetchError):
            counts = fetch_counts(admin)
    return Look(counts, cpu_by_role(pid) if pid else None, time.monotonic(), gpm.look() if gpm else None)


class Looks:
    """Reads a server's counters at the beginning and at the end of a measurement, on its own thread."""

    def __init__(self, take: Callable[[], Look]) -> None:
        self._take = take
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._taken: list[Look] = []

    def between(self, begin_ns: int, end_ns: int) -> None:
        """The measured time, by CLOCK_MONOTONIC. Only the first call counts."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(begin_ns, end_ns), name="looks", daemon=True)
            self._thread.start()

    def finish(self) -> tuple[Look, Look] | None:
        """Both looks; the second one is taken now where the time is not over. None: it had not begun."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        return (self._taken[0], self._taken[1]) if len(self._taken) == 2 else None

    def _run(self, *times_ns: int) -> None:
        for at_ns in times_ns:
            cut_short = self._over.wait(max(0.0, (at_ns - time.monotonic_ns()) * 1e-9))
            if cut_short and not self._taken:
                return
            self._taken.append(self._take())


def describe(point: Point, before: Look, after: Look) -> None:
    """Fills in the fields of a point that are the server's."""
    if before.cpu_s is not None and after.cpu_s is not None:
        elapsed_s = max(1e-9, after.at_s - before.at_s)
        roles = {role: (s - before.cpu_s.get(role, 0.0)) / elapsed_s for role, s in after.cpu_s.items()}
        point.server_cpu = {role: max(0.0, cores) for role, cores in roles.items()}
    then, now = before.counts, after.counts
    if then is None or now is None or then["started"] != now["started"]:  # it is another server by now
        return
    seen = view(then, now)
    point.dispatchers = [
        {
            "dispatcher": d.index,
            "device": d.device,
            "busy": (d.busy or 0.0) * d.accounted,
            "idle": {reason: share * d.accounted for reason, share in d.idle.items()},
            "steps_per_s": d.steps,
            "items_per_step": d.items / d.steps if d.steps else None,
        }
        for d in seen.dispatchers
    ]
    point.devices = [
        {"device": name, "duty_cycle": share, "sm_utilization": None} for name, share in seen.devices.items()
    ]
    point.duty_cycle = fmean(seen.devices.values()) if seen.devices else None
    reasons = dict.fromkeys(reason for d in seen.dispatchers for reason in d.idle)
    point.idle_reasons = {r: fmean(d["idle"].get(r, 0.0) for d in point.dispatchers) for r in reasons}
    point.steps = seen.seconds * sum(d.steps for d in seen.dispatchers)
    point.stages_us = _stages(seen)
    point.batch = _batch(then, now)
    point.items_status = {code: n for code, count in now["codes"].items() if (n := count - then["codes"].get(code, 0))}
    point.in_flight, point.waiting = seen.in_flight, seen.queued
    if load := seen.load:
        point.saturation, point.saturation_terms = load["saturation"], load["terms"]
    point.at_limit = _limits(seen)


def describe_gpus(point: Point, gpm: Gpm, before: Look, after: Look) -> None:
    """The use of each visible GPU, together with the server's own figures of its device cuda:INDEX."""
    if before.gpus is None or after.gpus is None:
        return
    names = {gpu.number: f"cuda:{gpu.index}" for gpu in find_gpus().visible}
    devices = point.devices if point.devices is not None else []
    for gpu in gpm.between(before.gpus, after.gpus):
        name = names.get(gpu.index)
        if name is None:
            continue
        if not (own := next((d for d in devices if d["device"] == name), None)):
            own = {"device": name, "duty_cycle": None}
            devices.append(own)
        own |= {"gpu": gpu.name, "sm_utilization": gpu.sm, "sm_occupancy": gpu.occupancy}
        own |= {"tensor_utilization": gpu.tensor, "memory_bandwidth": gpu.memory}
    point.devices = devices or None
    before.gpus.release()
    after.gpus.release()


def _stages(seen: View) -> dict[str, Summary]:
    """All stages. Of an edge ``device`` is the whole hop to another server, so its parts stand instead: ``upstream`` is
    neither here nor there, ``upstream_queue`` is that server's queue, and ``device`` its device."""
    stages = dict(seen.stages)
    if any(spent.count for spent in seen.hop.values()):
        stages |= {name: seen.hop[part] for part, name in _HOP_STAGES.items()}
    return {stage: _summary(spent) for stage, spent in stages.items()}


def _summary(spent: Spread) -> Summary:
    return {"mean": spent.mean, "p50": spent.p50, "p99": spent.p99, "count": float(spent.count)}


def _limits(seen: View) -> dict[str, float]:
    """The possible limits, as in ``fastqps.telemetry.metrics.saturation``."""
    limits = {"queue_wait_p95_s": (seen.stages["queue"].p95 or 0.0) * 1e-6}
    if seen.load and seen.seconds > 0.98 * WINDOW_S:  # else it is of the time before, too
        limits["device_load"] = seen.load["device"]
    limits["dispatcher"] = max((d.awake for d in seen.dispatchers), default=0.0)
    limits["frontdoor"] = max((door.awake for door in seen.doors), default=0.0)
    return limits


def _batch(then: Counts, now: Counts) -> dict[str, float | None]:
    """Means over the steps of all models; None: there were none."""
    ratios: dict[str, float | None] = {}
    before = _totals(then)
    for name, (part, total) in _totals(now).items():
        more = total - before[name][1]
        ratios[name] = max(0, part - before[name][0]) / more if more > 0 else None
    return ratios


def _totals(counts: Counts) -> dict[str, tuple[int, int]]:
    """Items and tokens, each with the steps that had them, and tokens of steps with their room."""
    models = counts["models"]
    totals = {
        kind: (sum(each["sum"] for each in had), sum(steps for each in had for _, steps in each["buckets"]))
        for kind, had in (("items", [m["items"] for m in models]), ("tokens", [m["tokens"] for m in models]))
    }
    return totals | {"fill": (sum(m["step_tokens"] for m in models), sum(m["step_room"] for m in models))}
