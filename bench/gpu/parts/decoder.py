"""50 tokens in, 50 out, over gRPC: the rate of a small Llama's and of Qwen2.5-0.5B's shape."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.bounds import Peaks, measure_peaks, share
from bench.gpu.payloads import decoder_payloads
from bench.gpu.run import Run
from bench.gpu.served import Served, answered, bound_by, brief, describe
from bench.gpu.stand import open_stand
from bench.gpu.vocabulary import texts
from fastqps.bench.target import Settings

TOKENS_IN = TOKENS_OUT = 50
PROMPTS = 8192
P99_US = 1e6
LANES = (2, 1)
LEVELS = (1024, 2048, 4096)
SECONDS = 6.0  # a request takes a good part of a second: shorter points are of beginnings and ends


def measure(run: Run) -> None:
    """Both shapes: the best of some settings, its peak, and the rate within the limit of p99."""
    peaks = measure_peaks(open_stand(run.dry))
    run.raw("peaks", peaks.as_json())
    for model, target, p99_us in (("smollm2-135m", "decoder-135m", None), ("qwen2.5-0.5b", "decoder-0.5b", P99_US)):
        run.attempt(model, partial(_shape, run, peaks, model, target, p99_us))
    run.finish()


def settings_of(run: Run, model: str, running: int) -> dict[str, object]:
    """Of a server for these requests."""
    return {
        "model": str(run.checkpoint(model)), "device": run.device, "dtype": run.dtype, "max-running": running,
        "max-input-tokens": TOKENS_IN, "max-output-tokens": tokens_out(run), "max-queue-items": 1 << 14,
        "slots": 1 << 14, "default-timeout": "60s", "dispatchers": 1,
    }  # fmt: skip


def tokens_out(run: Run) -> int:
    """For each prompt."""
    return 5 if run.dry else TOKENS_OUT


def prompts(run: Run, model: str) -> list[str]:
    """Different ones, of exactly so many tokens."""
    return texts(run.checkpoint(model), 50 if run.dry else PROMPTS, TOKENS_IN)


def _shape(run: Run, peaks: Peaks, model: str, target: str, p99_us: float | None) -> None:
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, model), tokens_out(run))
        running = 8 if run.dry else 1024
        with Served(run, settings_of(run, model, running), payloads, slow=True) as served:
            best: tuple[float, Settings, int] | None = None
            for lanes in LANES[:1] if run.dry or run.brief else LANES:
                if best and run.left_s < run.limit_s / 3:
                    break
                settings: Settings = {"lanes": lanes, "max-running": max(8, running // lanes)}
                point, level = served.peak(settings, (16,) if run.dry else LEVELS)
                if best is None or point.rate > best[0]:
                    best = point.rate, settings, level
            assert best
            _, settings, level = best
            seconds = run.seconds if run.dry else SECONDS
            peak = answered(served.measure(settings, level, seconds=seconds, repetitions=run.repetitions))
            floor = share(peaks, peaks.decoder_us(run.shape(model), TOKENS_IN, tokens_out(run)), peak.rate)
            note = f"{describe(settings)}, {level} in flight: {bound_by(peak, floor)}"
            run.raw(model, {"settings": settings, "in_flight": level, "peak": brief(peak)})
            measured = peak
            if p99_us:
                point_within, tried = served.within(settings, peak.rate, p99_us)
                run.raw(f"{model}, rates", tried)
                note = f"peak {peak.rate:,.0f}/s, {note}"
                if point_within is None:
                    run.target(target, 0.0, f"no rate that was tried held p99 < {p99_us / 1e6:g} s; {note}")
                    return
                measured = point_within
            p99 = f"p99 {(measured.p99_us or 0) / 1000:,.0f} ms; "
            run.target(target, measured.rate, p99 + note)
            run.figure(f"{model}: generated tokens", measured.rate * tokens_out(run), "/s")
