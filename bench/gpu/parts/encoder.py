"""MiniLM-L6, 32 tokens: in this process, over gRPC with the generator on the same cores, and the host path alone."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.bounds import Peaks, measure_peaks, share
from bench.gpu.inprocess import EncoderLoop
from bench.gpu.payloads import encoder_payloads
from bench.gpu.run import Run
from bench.gpu.served import Served, answered, bound_by, brief, describe
from bench.gpu.stand import open_stand
from fastqps import machine
from fastqps.bench.workload import Payloads

TOKENS = 32
ITEMS = (512, 256, 1024, 176)  # of a batch
LANES = (2, 1, 3)
P99_US = 20_000.0
LEVELS = (1024, 2048, 4096, 8192)  # calls in flight
MODEL = "minilm-l6"


def measure(run: Run) -> None:
    """In-process first, then the transport's ceiling, then both together; one that fails does not hide the others."""
    peaks = measure_peaks(open_stand(run.dry))
    run.raw("peaks", peaks.as_json())
    items, lanes = run.attempt("in-process", lambda: _in_process(run, peaks)) or (ITEMS[0], LANES[0])
    with TemporaryDirectory() as folder:
        payloads = encoder_texts(run, folder)
        base = {"model": str(run.checkpoint(MODEL)), "max-queue-items": 1 << 15, "slots": 1 << 14}
        with Served(run, {**base, "device": "null"}, payloads) as served:
            ceiling = run.attempt("transport", lambda: _transport(run, served))
        base |= {"device": run.device, "dtype": run.dtype, "max-batch-items": items}
        base |= {"max-batch-tokens": max(items * TOKENS, 512)}
        with Served(run, base, payloads) as served:
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


def _in_process(run: Run, peaks: Peaks) -> tuple[int, int]:
    """The batch size and number of lanes that were best."""
    rates: dict[tuple[int, int], float] = {}
    sizes = (4,) if run.dry else ITEMS
    step_us: dict[int, float] = {}
    for lanes, items in itertools.product(LANES[:2] if run.dry else LANES, sizes):
        if rates and run.left_s < 0.6 * run.limit_s and not run.dry:
            break
        loop = EncoderLoop(run.device, run.checkpoint(MODEL), items=items, tokens=TOKENS, lanes=lanes, dtype=run.dtype)
        rates[items, lanes] = statistics.median(loop.rate(run.seconds / 4) for _ in range(run.repetitions))
        step_us[items] = loop.step_us(5 if run.dry else 50)
        loop.close()
        run.say(f"batches of {items}, {lanes} lanes: {rates[items, lanes]:,.0f} sequences/s")
    run.raw("in-process", {f"{items} items, {lanes} lanes": rate for (items, lanes), rate in rates.items()})
    (items, lanes), best = max(rates.items(), key=lambda found: found[1])
    floor_us = peaks.encoder_us(run.shape(MODEL), TOKENS)
    alone = items / step_us[items] * 1e6
    note = f"batches of {items}, {lanes} lanes; {share(peaks, floor_us, best)}; a step alone takes "
    note += f"{step_us[items]:.0f} µs on the device ({alone:,.0f}/s): " + (
        "the device" if best >= 0.9 * alone else "the host, between steps"
    )
    run.target("encoder", best, note)
    return items, lanes


def _transport(run: Run, served: Served) -> float:
    """The best of the ways to share the cores between generator, front doors and dispatchers."""
    cores = len(machine.allowed_cpus())
    tried: list[tuple[float, int, dict[str, int]]] = []
    threads_of = sorted({max(1, cores // part) for part in ((4,) if run.brief else (4, 3))})
    for threads, doors, dispatchers in itertools.product(threads_of, _doors(cores), (1, 2)):
        if doors + dispatchers + threads > cores + 1 and cores > 2:
            continue
        if run.dry and tried:
            break
        settings = {"frontdoors": doors, "dispatchers": dispatchers}
        point = served.measure(settings, 64 if run.dry else 4096, seconds=min(1.5, run.seconds), threads=threads)
        tried.append((point.rate, threads, settings))
        run.say(f"null, {threads} generator threads, {describe(settings)}: {point.rate:,.0f}/s ({point.verdict})")
    _, threads, settings = max(tried, key=lambda found: found[0])
    point = answered(served.measure(settings, 64 if run.dry else 4096, repetitions=run.repetitions, threads=threads))
    run.raw("transport", {"tried": [(rate, t, s) for rate, t, s in tried], "best": brief(point)})
    note = f"{describe(settings)}, {threads} generator threads of {cores} cores; {bound_by(point)}"
    run.target("transport", point.rate, note)
    return point.rate


def _grpc(run: Run, served: Served, peaks: Peaks, ceiling: float | None, lanes: int) -> None:
    cores = len(machine.allowed_cpus())
    best = None
    tried = []
    for doors, count in itertools.product(_doors(cores), dict.fromkeys((lanes, 2))):
        if best and (run.dry or not run.enough(90)):
            break
        settings = {"frontdoors": doors, "dispatchers": 1, "lanes": count}
        point, level = served.peak(settings, (16,) if run.dry else LEVELS)
        tried.append({"settings": settings, "in_flight": level, "rate": point.rate, "verdict": point.verdict})
        if best is None or point.rate > best[0].rate:
            best = point, settings
    assert best
    peak, settings = best
    found, rates = served.within(settings, peak.rate, P99_US)
    run.raw("grpc", {"tried": tried, "peak": brief(peak), "rates": rates})
    floor = share(peaks, peaks.encoder_us(run.shape(MODEL), TOKENS), peak.rate)
    note = f"{describe(settings)}; peak {peak.rate:,.0f}/s in a closed loop, there bound by "
    note += bound_by(peak, floor, ceiling)
    if found is None:
        run.target("encoder-grpc", 0.0, f"no rate that was tried held p99 < {P99_US / 1000:.0f} ms; {note}")
    else:
        run.target("encoder-grpc", found.rate, f"p99 {(found.p99_us or 0) / 1000:.1f} ms, open loop; {note}")


def _doors(cores: int) -> list[int]:
    return sorted({max(1, cores // 2), max(1, cores * 5 // 8)})
