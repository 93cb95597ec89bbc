"""The families about the server itself: its processes, credentials, versions and load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fastqps import __version__
from fastqps._core import ProcessStats
from fastqps.telemetry.metrics.families import NS, counter, gauge
from fastqps.telemetry.metrics.meter import WINDOW_S, LoadMeter
from fastqps.telemetry.metrics.saturation import CAUSES
from fastqps.telemetry.metrics.source import Source

STARTED_S = time.time()


def credential_families(source: Source, doors: list[ProcessStats]) -> Iterator[Any]:
    """Metrics of credentials. Those of TLS are left out without TLS, since an expiry of 0 would raise an alarm."""
    credentials = source.credentials
    refused = sum(door.transport["unauthenticated"] for door in doors)
    yield counter("unauthenticated", "Calls without one of the tokens.", refused)
    expires = [((), credentials.expires_s)] if credentials.expires_s else []
    yield gauge("tls_certificate_expiry_timestamp_seconds", "When the certificate expires, since 1970.", expires)
    what = "Times that TLS files had changed: ok, taken over; failed, useless."
    yield counter("tls_reloads", what, credentials.reloads.items() if credentials.expires_s else [], "outcome")
    what = "1: the files that lie there now are useless."
    yield gauge("credentials_refused", what, credentials.refused.items(), "files")


def saturation_families(source: Source, meter: LoadMeter) -> Iterator[Any]:
    """The load of the server, and its limits."""
    last = f"of the last {WINDOW_S} s"
    what = f"The largest of the saturation terms, 1 at the limit; mean {last}."
    yield gauge("saturation_ratio", what, meter.saturation)
    yield gauge("saturation_peak_ratio", f"The highest saturation of any second {last}.", meter.peak)
    terms = [(cause, meter.terms[cause]) for cause in CAUSES if cause in meter.terms]
    yield gauge("saturation_term_ratio", "Saturation terms by cause.", terms, "cause")
    causes = [(cause, cause == meter.cause) for cause in CAUSES]
    yield gauge("saturation_cause", "1 for the cause of the saturation.", causes, "cause")
    what = f"Share of time that the busiest device would need for its work in full steps; mean {last}."
    yield gauge("device_load_ratio", what, meter.load.device)
    what = "Servers that this one's load needs; summed over all servers, their right number."
    yield gauge("advised_replicas", what, meter.advised_replicas)
    yield gauge("target_saturation_ratio", "The target of the saturation.", source.target_saturation)
    if source.capacity is not None and meter.headroom is not None:
        what = "Items per second at the knee, as measured."
        yield gauge("capacity_requests_per_second", what, source.capacity.rate)
        yield gauge("headroom_requests_per_second", "Items per second that still fit.", meter.headroom)


def process_families(source: Source, stats: list[ProcessStats]) -> Iterator[Any]:
    """Which processes there are, whether they serve, and what they started with."""
    lines = enumerate(source.segment.doors())
    yield gauge(
        "connections", "Open client connections.", [(str(i), line.connections) for i, line in lines], "frontdoor"
    )
    serving = {"frontdoor": dict(enumerate(source.doors())), "dispatcher": source.filled()}
    ready = [((role, str(i)), serves) for role, workers in serving.items() for i, serves in workers.items()]
    yield gauge("process_ready", "1: the process serves.", ready, "role", "index")
    first = {"frontdoor": 0, "dispatcher": source.segment.sizes.doors}
    starts = [
        ((role, str(i), stage), ns * NS)
        for role, workers in serving.items()
        for i in workers
        for stage, ns in stats[first[role] + i].start_ns.items()
        if ns
    ]
    what = "Time that the start of a process took, by stage."
    yield gauge("process_start_seconds", what, starts, "role", "index", "stage")
    yield gauge("ready", "1: load balancers should send requests here.", source.ready)
    what = "Kernels that failed their check, so that torch's operation replaces them."
    yield counter("kernel_fallbacks", what, source.kernel_fallbacks().items(), "kernel")
    yield counter("restarts", "Processes started again.", source.restarts().items(), "role")
    yield gauge("build_info", "Always 1.", [((__version__, source.device), 1)], "version", "device")
    yield gauge("start_time_seconds", "When the server was started, since 1970.", STARTED_S)
    yield counter("trace_spans", "Spans by outcome.", source.trace_spans().items(), "outcome")


def version_families(source: Source) -> Iterator[Any]:
    """The versions and reloads of each model. A failed reload stays visible until a later one succeeds."""
    yield counter("reloads", "Reloads, and how they ended.", source.reload_counts().items(), "model", "outcome")
    yield gauge("reload_failed", "1: the model's last reload failed.", source.reload_failed().items(), "model")
    served = [((each.model, each.version, str(each.generation)), 1) for each in source.versions()]
    yield gauge("model_info", "Always 1.", served, "model", "version", "generation")


def canary_families(source: Source) -> Iterator[Any]:
    """The families of all dispatchers that run."""
    canaries = source.canaries()
    what = "The server's own requests, by which idle dispatchers show that they get on."
    counts = [((str(c.dispatcher), name), getattr(c, name)) for c in canaries for name in ("answered", "missed")]
    yield counter("canaries", what, counts, "dispatcher", "outcome")
    what = "Since the dispatcher was last seen to finish a step, a canary's or a client's."
    ages = [(str(c.dispatcher), c.age_s) for c in canaries if c.age_s is not None]
    yield gauge("canary_age_seconds", what, ages, "dispatcher")
