"""50 tokens in, 50 out, over gRPC: rate, the highest rate within a limit of p99, and how busy the device is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.models.vocabulary import texts
from bench.gpu.profile.bounds import Peaks, measure_peaks, share
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by, brief, describe, open_loop
from bench.gpu.stand import open_stand
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.point import Point

TOKENS_IN = TOKENS_OUT = 50
PROMPTS = 8192
RUNNING = 1024  # sequences, over all lanes
IN_FLIGHT = 4096
SECONDS = 5.0  # a request takes a good part of a second: shorter points are of beginnings and ends


@dataclass(frozen=True)
class Asked:
    """Targets of one shape: of its rate, within ``p99_us`` where that is given, and of its duty cycle."""

    rate: str
    lanes: tuple[int, ...]
    p99_us: float | None = None
    duty: str = ""


ASKED = {"smollm2-135m": Asked("decoder-135m", (2,)), "qwen2.5-0.5b": Asked("decoder-0.5b", (1, 2), 1e6, "duty")}


def measure(run: Run) -> None:
    """The shape that the step names: a closed loop for each number of lanes, then its rate within p99."""
    model = run.argument
    asked, peaks = ASKED[model], measure_peaks(open_stand(run.dry))
    run.raw("peaks", peaks.as_json())
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, model), tokens_out(run))
        running = 8 if run.dry else RUNNING
        with open_server(run, settings_of(run, model, running), payloads, slow=True) as served:
            best: _Saturated | None = None
            for lanes in asked.lanes:
                found = _saturated(run, served, peaks, model, lanes, running)
                if best is None or found.rate > best.rate:  # as one would serve it, not as it looks busiest
                    best = found
                    _tell(run, asked, best)
            assert best
            if asked.p99_us:
                _within(run, served, asked, best)


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


@dataclass(frozen=True)
class _Saturated:
    settings: Settings
    point: Point
    note: str

    @property
    def rate(self) -> float:
        return self.point.rate


def _saturated(run: Run, served: Served, peaks: Peaks, model: str, lanes: int, running: int) -> _Saturated:
    """A closed loop with more calls than run at a time."""
    settings: Settings = {"lanes": lanes, "max-running": max(1, running // lanes)}
    level, seconds = (16, run.seconds) if run.dry else (IN_FLIGHT, SECONDS)
    point = answered(served.measure(settings, level, seconds=seconds))
    floor = share(peaks, peaks.decoder_us(run.shape(model), TOKENS_IN, tokens_out(run)), point.rate)
    reasons = ", ".join(f"{why} {100 * part:.2f} %" for why, part in (point.idle_reasons or {}).items() if part)
    filled = (point.batch or {}).get("fill")
    fill = f"; batches {100 * filled:.0f} % full" if filled is not None else ""
    note = f"{describe(settings)}, {level} in flight: {point.rate:,.0f}/s, p99 {(point.p99_us or 0) / 1000:,.0f} ms"
    note += f"{fill}; idle: {reasons or 'never'}; bound by {bound_by(point, floor)}"
    run.raw(f"{lanes} lanes", {"settings": settings, "in_flight": level, "point": brief(point)})
    run.figure(f"{model}, {lanes} lanes: duty cycle", 100 * (point.duty_cycle or 0.0), "%", note)
    return _Saturated(settings, point, note)


def _tell(run: Run, asked: Asked, found: _Saturated) -> None:
    """The targets of a closed loop."""
    if asked.p99_us is None:
        run.target(asked.rate, found.rate, found.note)
    if asked.duty:
        run.target(asked.duty, 100 * (found.point.duty_cycle or 0.0), found.note)


def _within(run: Run, served: Served, asked: Asked, found: _Saturated) -> None:
    assert asked.p99_us
    point, tried = served.within(found.settings, found.rate, asked.p99_us)
    run.raw("rates within p99", tried)
    if point is None:
        limit = f"no rate that was tried held p99 < {asked.p99_us / 1e6:g} s"
        run.target(asked.rate, 0.0, f"{limit}; closed loop: {found.note}")
    else:
        run.target(asked.rate, point.rate, f"{open_loop(point)}; closed loop: {found.note}")
