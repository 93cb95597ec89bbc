"""The server's own figures of a measured time: duty cycle, idle reasons, stages, batches, CPU."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.results.point import Point, Summary
from fastqps.host.gpus import find_gpus
from fastqps.telemetry.metrics.gpm import Gpm, GpmLook
from fastqps.telemetry.metrics.meter import WINDOW_S
from fastqps.telemetry.scrape import Difference, Histogram, Scrape, ScrapeError, scrape

BUSY, IDLE = "fastqps_device_busy_seconds_total", "fastqps_device_idle_seconds_total"
ACTIVE, STEPS = "fastqps_device_active_seconds_total", "fastqps_steps_total"
START = "fastqps_start_time_seconds"
STAGE, STEP_ITEMS = "fastqps_stage_duration_seconds", "fastqps_step_items_total"
UPSTREAM = "fastqps_upstream_duration_seconds"


@dataclass(frozen=True)
class Look:
    """One reading of a server. None: it has no admin port, its processes are not visible, or no GPU reports."""

    page: Scrape | None
    cpu_s: dict[str, float] | None
    at_s: float
    gpus: GpmLook | None = None


def look(admin: str, pid: int | None, gpm: Gpm | None = None) -> Look:
    """Now. A page that cannot be read is None, so that an overloaded server does not end the measurement."""
    page = None
    if admin:
        with contextlib.suppress(ScrapeError):
            page = scrape(admin)
    return Look(page, cpu_by_role(pid) if pid else None, time.monotonic(), gpm.look() if gpm else None)


class Looks:
    """Reads a server's pages at the beginning and at the end of a measurement, on its own thread."""

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
    if before.page is None or after.page is None:
        return
    change = Difference(before.page, after.page)
    if change.seconds <= 0 or before.page.find(START) != after.page.find(START):  # or it is another server by now
        return
    point.dispatchers = _dispatchers(change)
    point.devices = _devices(change, point.dispatchers)
    shares = [d["duty_cycle"] for d in point.devices]
    point.duty_cycle = fmean(shares) if shares and None not in shares else None
    if point.dispatchers:
        reasons = list(dict.fromkeys(r for d in point.dispatchers for r in d["idle"]))
        point.idle_reasons = {r: fmean(d["idle"].get(r, 0.0) for d in point.dispatchers) for r in reasons}
    point.steps = change.find(STEPS)
    point.stages_us = _stages(change)
    point.batch = _batch(change, after.page)
    point.items_status = {code: round(n) for code, n in change.by("fastqps_items_total", "code").items() if n}
    inflight_s = change.find("fastqps_inflight_seconds_total")
    point.in_flight = None if inflight_s is None else inflight_s / change.seconds
    waited_s = change.find("fastqps_queue_wait_seconds_total")
    point.waiting = None if waited_s is None else waited_s / change.seconds
    point.saturation = after.page.find("fastqps_saturation_ratio")
    point.saturation_terms = after.page.by("fastqps_saturation_term_ratio", "cause")
    point.at_limit = _limits(change, after.page)


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


def _dispatchers(change: Difference) -> list[dict[str, Any]]:
    found = []
    for labels, busy_s in change.series(BUSY):
        own = {"device": labels["device"], "dispatcher": labels["dispatcher"]}
        steps, items = change.find(STEPS, **own), change.find(STEP_ITEMS, **own)
        found.append(
            {
                "dispatcher": int(own["dispatcher"]),
                "device": own["device"],
                "busy": min(1.0, busy_s / change.seconds),
                "idle": {reason: s / change.seconds for reason, s in change.by(IDLE, "reason", **own).items()},
                "steps_per_s": None if steps is None else steps / change.seconds,
                "items_per_step": items / steps if items is not None and steps else None,
            }
        )
    return sorted(found, key=lambda d: d["dispatcher"])


def _devices(change: Difference, dispatchers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The server knows the union over a device's dispatchers. For a single dispatcher it is that one's busy time."""
    found = []
    for device in dict.fromkeys(d["device"] for d in dispatchers):
        own = [d["busy"] for d in dispatchers if d["device"] == device]
        active_s = change.find(ACTIVE, device=device)
        duty = min(1.0, active_s / change.seconds) if active_s is not None else own[0] if len(own) == 1 else None
        found.append({"device": device, "duty_cycle": duty, "sm_utilization": None})
    return found


def _stages(change: Difference) -> dict[str, Summary]:
    """All stages. Of an edge ``device`` is the whole hop to another server, so its parts stand instead: ``upstream`` is
    neither here nor there, ``upstream_queue`` is that server's queue, and ``device`` its device."""
    found = {stage: _summary(change.histogram(STAGE, stage=stage)) for stage in change.by(f"{STAGE}_count", "stage")}
    if any(change.by(f"{UPSTREAM}_count", "part").values()):
        names = {"wire": "upstream", "queue": "upstream_queue", "device": "device"}
        found |= {name: _summary(change.histogram(UPSTREAM, part=part)) for part, name in names.items()}
    return found


def _summary(histogram: Histogram) -> Summary:
    seconds = {"mean": histogram.mean, "p50": histogram.quantile(0.5), "p99": histogram.quantile(0.99)}
    found: Summary = {key: None if s is None else s * 1e6 for key, s in seconds.items()}
    return found | {"count": histogram.count}


def _limits(change: Difference, after: Scrape) -> dict[str, float]:
    """The possible limits, as in ``fastqps.telemetry.metrics.saturation``."""
    found = {
        "queue_wait_p95_s": change.histogram(STAGE, stage="queue").quantile(0.95) or 0.0,
    }
    device = after.find("fastqps_device_load_ratio")
    if device is not None and change.seconds > 0.98 * WINDOW_S:  # else it is of the time before, too
        found["device_load"] = device
    for role in ("dispatcher", "frontdoor"):
        busy_s = change.by(f"fastqps_{role}_busy_seconds_total", role).values()
        found[role] = min(1.0, max(busy_s, default=0.0) / change.seconds)
    return found


def _batch(change: Difference, after: Scrape) -> dict[str, float | None]:
    items, tokens = change.histogram("fastqps_batch_items"), change.histogram("fastqps_batch_tokens")
    fill = list(after.by("fastqps_batch_fill_ratio", "model").values())
    return {"items": items.mean, "tokens": tokens.mean, "fill": fmean(fill) if fill else None}
