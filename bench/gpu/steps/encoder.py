"""MiniLM-L6, 32 tokens: in this process, the host path alone, and over gRPC with the generator on the same cores."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.inprocess import EncoderLoop
from bench.gpu.models.payloads import encoder_payloads
from bench.gpu.profile.bounds import Peaks, measure_peaks
from bench.gpu.run import Run
from bench.gpu.sampler import describe as describe_clocks
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by, brief, describe, open_loop
from fastqps.bench.measure.workload import Payloads
from fastqps.host import machine

TOKENS = 32
PLACES = ((512, 2), (176, 2), (512, 1), (1024, 2), (256, 2), (176, 3))  # items of a batch, lanes: the likeliest first
P99_US = 20_000.0
LEVELS = (1024, 2048, 4096, 8192)  # calls in flight
IN_PROCESS, TRANSPORT = 0.3, 0.55  # of the step's time, by the end of each
MODEL = "minilm-l6"


def measure(run: Run) -> None:
    """In process first, then the transport ceiling, then both together; one that fails does not hide the others."""
    began_s = run.left_s
    peaks = measure_peaks(run.dry)
    run.raw("peaks", peaks.as_json())
    items, lanes = run.attempt("in-process", lambda: _in_process(run, peaks, (1 - IN_PROCESS) * began_s)) or PLACES[0]
    with TemporaryDirectory() as folder:
        payloads = encoder_texts(run, folder)
        base = {"model": str(run.checkpoint(MODEL)), "max-queue-items": 1 << 15, "slots": 1 << 14}
        with open_server(run, {**base, "device": "null"}, payloads) as served:
            ceiling = run.attempt("transport", lambda: _transport(run, served, (1 - TRANSPORT) * began_s))
        base |= {"device": run.device, "dtype": run.dtype, "max-batch-items": items}
        base |= {"max-batch-tokens": max(items * TOKENS, 512)}
        with open_server(run, base, payloads) as served:
            run.attempt("gRPC", lambda: _grpc(run, served, peaks, ceiling, lanes))
    run.finish()


def settings_of(run: Run) -> dict[str, Any]:
    """Of a server for these requests."""
    found = {"model": str(run.checkpoint(MODEL)), "device": run.device, "dtype": run.dtype, "slots": 1 << 14}
    found |= {"max-queue-items": 1 << 15, "frontdoors": max(1, len(machine.allowed_cpus()) // 2)}
    return found | ({"max-batch-items": 8, "max-batch-tokens": 512} if run.dry else {})


def encoder_texts(run: Run, folder: str) -> Payloads:
    """Different ones, of exactly TOKENS tokens each."""
    return encoder_payloads(Path(folder) / "texts", run.checkpoint(MODEL), TOKENS, 200 if run.dry else 20_000)


def _in_process(run: Run, peaks: Peaks, until_s: float) -> tuple[int, int]:
    """The batch size and number of lanes that were best; what was best so far stands in the table."""
    rates: dict[str, float] = {}
    best, found = 0.0, PLACES[0]
    for items, lanes in ((4, 2),) if run.dry else PLACES:
        if rates and run.left_s < until_s:
            run.leave_out(f"in process: batches of {items}, {lanes} lanes")
            continue
        loop = EncoderLoop(run.device, run.checkpoint(MODEL), items=items, tokens=TOKENS, lanes=lanes, dtype=run.dtype)
        began_s = time.monotonic()
        rate = loop.rate(run.seconds / 2)
        clocks = describe_clocks(run.gpu.between(began_s, time.monotonic()))
        step_us = loop.step_us(5 if run.dry else 50)
        loop.close()
        rates[f"{items} items, {lanes} lanes"] = rate
        run.raw("in-process", rates)
        run.say(f"batches of {items}, {lanes} lanes: {rate:,.0f} sequences/s, {step_us:.0f} µs a step")
        if rate > best:
            best, found = rate, (items, lanes)
            alone = items / step_us * 1e6
            limit = "the device" if best >= 0.9 * alone else "the host, between steps"
            note = f"batches of {items}, {lanes} lanes; {peaks.share(peaks.encoder_us(run.shape(MODEL), TOKENS), best)}"
            note += f"; a step alone takes {step_us:.0f} µs on the device ({alone:,.0f}/s): {limit}; {clocks}"
            run.target("encoder", best, note)
    return found


def _transport(run: Run, served: Served, until_s: float) -> float:
    """The best of some ways to share the cores between generator, front doors and dispatchers."""
    cores = len(machine.allowed_cpus())
    best = 0.0
    tried: list[tuple[float, int, dict[str, int]]] = []
    for threads, doors, dispatchers in itertools.product((max(1, cores // 4),), _doors(cores), (1, 2)):
        if doors + dispatchers + threads > cores + 1 and cores > 2:
            continue
        settings = {"frontdoors": doors, "dispatchers": dispatchers}
        if run.dry and tried:
            break
        if tried and run.left_s < until_s:
            run.leave_out(f"transport: {describe(settings)}")
            continue
        point = answered(served.measure(settings, 64 if run.dry else 4096, threads=threads))
        tried.append((point.rate, threads, settings))
        run.raw("transport", {"tried": tried})
        run.say(f"null, {threads} generator threads, {describe(settings)}: {point.rate:,.0f}/s ({point.verdict})")
        if point.rate > best:
            best = point.rate
            note = f"{describe(settings)}, {threads} generator threads of {cores} cores; {bound_by(point)}"
            run.target("transport", best, note)
    return best


def _grpc(run: Run, served: Served, peaks: Peaks, ceiling: float | None, lanes: int) -> None:
    settings = {"frontdoors": _doors(len(machine.allowed_cpus()))[0], "dispatchers": 1, "lanes": lanes}
    peak, level = served.peak(settings, (16,) if run.dry else LEVELS)
    run.raw("grpc", {"settings": settings, "in_flight": level, "peak": brief(peak)})
    floor = peaks.share(peaks.encoder_us(run.shape(MODEL), TOKENS), peak.rate)
    note = f"{describe(settings)}; peak {peak.rate:,.0f}/s in a closed loop of {level}, there bound by "
    note += bound_by(peak, floor, ceiling)
    found, rates = served.within(settings, peak.rate, P99_US)
    run.raw("grpc, rates", rates)
    if found:
        run.target("encoder-grpc", found.rate, f"{open_loop(found)}; {note}")
    elif rates:
        run.target("encoder-grpc", 0.0, f"no rate that was tried held p99 < {P99_US / 1000:.0f} ms; {note}")


def _doors(cores: int) -> list[int]:
    return sorted({max(1, cores // 2), max(1, cores * 5 // 8)})
