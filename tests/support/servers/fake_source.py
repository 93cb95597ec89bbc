"""What the metrics page reads, made up: two front doors and three dispatchers of two models."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fastqps._core import (
    CLASSES,
    COUNTERS,
    IDLES,
    METHODS,
    REJECTS,
    STAGES,
    TRANSPORT_COUNTERS,
    histogram_upper,
    now_ns,
)
from fastqps.process.served_models import Readiness, ServedVersion
from fastqps.telemetry.capacity import Capacity
from fastqps.telemetry.live.counts import Counts, read_counts
from fastqps.telemetry.metrics import Metrics
from fastqps.telemetry.metrics.source import Canaries

TenantsOfDoor = tuple[list[tuple[int, int, str, int, int, int]], tuple[int, int, int]]
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def histogram(*values: int) -> SimpleNamespace:
    """As the segment gives one."""
    uppers = np.array([histogram_upper(i) for i in range(320)])
    buckets = np.zeros(320, dtype=np.uint64)
    for value in values:
        buckets[int(np.searchsorted(uppers, value, side="right"))] += 1
    return SimpleNamespace(count=len(values), sum=sum(values), buckets=buckets)


def requests_of(found: SimpleNamespace, model: int = 0, method: str = "Predict") -> list[list[SimpleNamespace]]:
    """The durations of two models' calls, by model and method; all but those of one are empty."""
    wanted = model, METHODS.index(method)
    return [[found if (m, k) == wanted else histogram() for k in range(len(METHODS))] for m in range(2)]


def process(counters: Mapping[str, int] | None = None, **changes: Any) -> SimpleNamespace:
    """What one process counts."""
    zero = {
        "stage": {stage: histogram() for stage in STAGES},
        "class_wait": {kind: histogram() for kind in CLASSES},
        "request": [[histogram() for _ in METHODS] for _ in range(2)],
        "batch_items": histogram(),
        "batch_tokens": histogram(),
        "requests": np.zeros((16, len(METHODS), 17), dtype=np.uint64),
        "items": np.zeros((16, 17), dtype=np.uint64),
        "rejected": dict.fromkeys(REJECTS, 0),
        "expired": dict.fromkeys(STAGES, 0),
        "idle_ns": dict.fromkeys(IDLES, 0),
        "start_ns": {},
        "transport": dict.fromkeys(TRANSPORT_COUNTERS, 0),
    }
    assert changes.keys() <= zero.keys()
    counted = dict.fromkeys((row.name for row in COUNTERS), 0) | dict(counters or {})
    return SimpleNamespace(**{**zero, **changes}, counters=counted)


def means(**changes: Any) -> SimpleNamespace:
    """The load of two models over a window."""
    names = ("seconds", "asked", "errors", "items", "in_flight", "slots", "dispatcher", "frontdoor", "device")
    found = {**dict.fromkeys(names, 0.0), "queue_wait_s": [0.0, 0.0], "step_s": [0.0, 0.0]}
    assert changes.keys() <= found.keys()
    return SimpleNamespace(**{**found, **changes})


class FakeSource:
    """Two doors; dispatchers 0 and 1 serve model a, dispatcher 2 model b."""

    models = ("a", 'b"\n')
    device = "cpu"
    devices = ("cpu",)
    capacity: Capacity | None = Capacity("a", "0123456789ab", "cpu", {}, 400, 8, "", "", "")
    busy = SimpleNamespace(update=lambda: None, busy_ns=lambda device: 25 * 10**7)
    queue_budget_s: float | None = 0.005
    batch_delay_s = 0.0
    target_saturation = 0.5
    ready = True
    credentials = SimpleNamespace(
        expires_s=1.5e9, reloads={"ok": 3, "failed": 0}, refused={"tls": False, "tokens": True}
    )

    def __init__(self, *stats: SimpleNamespace) -> None:
        self.all = list(stats)
        self.load = means()
        self.tenants: list[TenantsOfDoor] = [([], (0, 0, 0)), ([], (0, 0, 0))]
        self.upstreams: list[list[SimpleNamespace]] = [[], [], []]  # of each dispatcher, if sizes.upstreams
        self.window = SimpleNamespace(
            look=lambda: None, long=lambda: self.load, short=lambda: self.load, items_waiting=5, items_running=6
        )
        door = SimpleNamespace(connections=3, running=4, slots_used=5, pid=0)
        self.segment = SimpleNamespace(
            sizes=SimpleNamespace(doors=2, dispatchers=3, slots=64, upstreams=0),
            total_bytes=1 << 20,
            set_load=lambda **values: None,
            stats=lambda i: self.all[i],
            doors=lambda: [door, door],
            dispatchers=lambda: [
                SimpleNamespace(running=6, pid=0, epoch=1),
                SimpleNamespace(running=1, pid=0, epoch=1),
                SimpleNamespace(running=9, pid=0, epoch=1),
            ],
            route=lambda route: SimpleNamespace(cache_slots=0 if route else 100, version="0123456789ab"),
            tenants=lambda door: self.tenants[door],
            upstreams=lambda dispatcher: self.upstreams[dispatcher],
            upstream_totals=lambda dispatcher: SimpleNamespace(
                resent=dispatcher + 1, unroutable=1, wire=histogram(50_000), queue=histogram(), device=histogram(10**6)
            ),
            waiting=lambda route: [(3, 0 if route else now_ns() - 2_000_000_000), (7 + route, 0), (0, 0), (0, 0)],
        )

    def route_of(self, model: int) -> int:
        return 2 * model

    def model_of(self, dispatcher: int) -> int:
        return dispatcher // 2

    def processes(self) -> list[tuple[str, int]]:
        return [("supervisor", os.getpid())]

    def trace_spans(self) -> dict[str, int]:
        return dict.fromkeys(("exported", "failed", "dropped"), 0)

    def device_of(self, dispatcher: int) -> int:
        return 0

    def filled(self) -> dict[int, bool]:
        return {0: True, 1: True, 2: False}

    def doors(self) -> list[bool]:
        return [True, False]

    def versions(self) -> list[ServedVersion]:
        return [ServedVersion("a", "0123456789ab", 2), ServedVersion('b"\n', "ba9876543210", 0)]

    def reload_counts(self) -> dict[tuple[str, str], int]:
        return {("a", "reloaded"): 2, ("a", "failed"): 1}

    def reload_failed(self) -> dict[str, bool]:
        return {"a": True, 'b"\n': False}

    def restarts(self) -> dict[str, int]:
        return {"frontdoor": 1, "dispatcher": 2}

    def kernel_fallbacks(self) -> dict[str, int]:
        return {"add_norm": 2, "pool": 0}

    def canaries(self) -> list[Canaries]:
        return [Canaries(0, 7, 0, 0.5), Canaries(2, 3, 1, 2.5)]

    def readiness(self) -> Readiness:
        return Readiness((), ("dispatcher 1 (cpu) is not ready",), (), answers=True)


LOAD = {
    "saturation": 0.5,
    "cause": "device",
    "terms": {"device": 0.47},
    "device": 0.4,
    "capacity": 200.0,
    "headroom": 9.0,
}


def counts(source: FakeSource, at_s: float = 0.0, **changes: Any) -> Counts:
    """What the source counts at a moment, of a server that was started 192 s ago."""
    found: Any = read_counts(source, time.time() - 192, None)
    return found | {"at_ns": round(at_s * 1e9), "started": 1.0, **changes}


def samples(source: FakeSource, accept: str = "") -> dict[str, float]:
    body, _ = Metrics(source).page(accept)
    parse = parse_openmetrics if accept else parse_text
    found: dict[str, float] = {}
    for family in parse(body.decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, f"{name} twice"
            found[name] = sample.value
    return found
