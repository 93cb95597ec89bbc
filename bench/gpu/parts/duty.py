"""How busy the device is under saturation, by its own clock, beside how full: GPM's SM utilisation and batch fill."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.parts.decoder import prompts, settings_of, tokens_out
from bench.gpu.parts.encoder import encoder_texts
from bench.gpu.parts.encoder import settings_of as encoder_settings
from bench.gpu.payloads import decoder_payloads
from bench.gpu.run import Run
from bench.gpu.served import Served, answered, bound_by, brief, describe
from fastqps.bench.point import Point
from fastqps.bench.target import Settings
from fastqps.bench.workload import Payloads


def measure(run: Run) -> None:
    """A decoder's and an encoder's, each with one and two lanes; the target is the decoder's at its higher rate."""
    with TemporaryDirectory() as folder:
        model = "qwen2.5-0.5b"
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, model), tokens_out(run))
        running = 8 if run.dry else 1024
        best = _best(run, settings_of(run, model, running), payloads, 16 if run.dry else 4096, model)
        run.target("duty", 100 * (best.duty_cycle or 0.0), f"{model}, 50 in / 50 out; {_told(best)}")
        model = "minilm-l6"
        base, texts = encoder_settings(run), encoder_texts(run, folder)
        best = _best(run, base, texts, 16 if run.dry else 8192, model)
        run.figure("device duty cycle, MiniLM over gRPC", 100 * (best.duty_cycle or 0.0), "%", _told(best))


def _best(run: Run, base: Settings, payloads: Payloads, in_flight: int, model: str) -> Point:
    found: list[Point] = []
    with Served(run, base, payloads, slow=True) as served:
        for lanes in (2,) if run.brief else (1, 2):
            point = answered(served.measure({"lanes": lanes}, in_flight))
            run.raw(f"{model}, {describe({'lanes': lanes})}", brief(point))
            run.say(f"{model}, {lanes} lanes: {_told(point)}")
            found.append(point)
    return max(found, key=lambda point: point.rate)  # as one would serve it, not as it looks busiest


def _told(point: Point) -> str:
    fill = (point.batch or {}).get("fill")
    reasons = ", ".join(f"{reason} {100 * part:.2f} %" for reason, part in (point.idle_reasons or {}).items() if part)
    batch = f"; batches {100 * fill:.0f} % full" if fill is not None else ""
    return f"{point.rate:,.0f}/s{batch}; idle: {reasons or 'never'}; bound by {bound_by(point)}"
