"""50 tokens in, 50 out, over gRPC: how many sequences should run on how many lanes, and what FP8 gains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.models.vocabulary import texts
from bench.gpu.plan import START_S
from bench.gpu.profile.bounds import Peaks, measure_peaks
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by, brief, open_loop
from fastqps.bench.measure.target import Settings
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point

TOKENS_IN = TOKENS_OUT = 50
PROMPTS = 8192
SECONDS = 4.0  # a request takes a good part of a second: shorter points are of beginnings and ends
POINT_S = 7.0  # with warm-up, and the answers behind the end
P99_US = 1e6
DRY = 256  # as many times fewer sequences run in a dry run


@dataclass(frozen=True)
class Place:
    """``running`` sequences on each lane; twice as many calls are in flight as run in all."""

    lanes: int
    running: int

    @property
    def in_flight(self) -> int:
        return 2 * self.lanes * self.running

    def __str__(self) -> str:
        return f"{self.lanes} × {self.running:,}"


BASELINE = Place(2, 512)
BEST = Place(2, 1024)  # where no sweep says which is


@dataclass(frozen=True)
class Sweep:
    """``places`` of one shape, tried in this order on one server for each of ``quantizations``."""

    shape: str
    quantizations: tuple[str, ...]
    places: tuple[Place, ...]


SWEEPS = {
    "smollm2-135m": Sweep("smollm2-135m", ("none",), (BEST, BASELINE, Place(1, 2048), Place(2, 2048), Place(1, 4096))),
    "qwen2.5-0.5b": Sweep("qwen2.5-0.5b", ("fp8", "none"), (Place(1, 1024), Place(1, 2048))),
    "smollm2-135m-fp8": Sweep("smollm2-135m", ("fp8",), ()),  # at the best place of the first
}
Points = dict[tuple[str, Place], Point]


def measure(run: Run) -> None:
    """The sweep that the step names: closed loops, and in bf16 with a limit of p99 an open one at last."""
    sweep = SWEEPS[run.argument]
    best = None if sweep.places else _best_in_bf16(run)
    peaks = measure_peaks(run.dry)
    run.raw("peaks", peaks.as_json())
    found: Points = {}
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, sweep.shape), tokens_out(run))
        for quantization in sweep.quantizations:
            if found and not run.enough(START_S[1] + POINT_S, f"{sweep.shape}, {quantization}"):
                continue
            places = sweep.places or (best[0] if best else BEST,)
            work = partial(_sweep, run, sweep, peaks, payloads, quantization, places, found)
            run.attempt(quantization, work)
    if best and found:
        [point], (place, rate) = found.values(), best
        note = f"{point.rate:,.0f}/s in FP8, {rate:,.0f}/s in bf16, both {place}; bound by {bound_by(point)}"
        run.figure(f"{sweep.shape}: FP8 over bf16", point.rate / rate, "×", note)
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


def _best_in_bf16(run: Run) -> tuple[Place, float] | None:
    """The fastest place of the shape's sweep in the same results, and its rate."""
    raw = run.results.read()["raw"].get("decoder:smollm2-135m", {})
    found = {Place(*made["place"]): made["point"]["rate"] for made in raw.values() if "place" in made}
    return max(found.items(), key=lambda item: item[1]) if found else None


def _sweep(
    run: Run, sweep: Sweep, peaks: Peaks, payloads: Payloads, quantization: str, places: tuple[Place, ...],
    found: Points,
) -> None:  # fmt: skip
    most = max(place.running for place in places)
    base = settings_of(run, sweep.shape, _running(run, most))
    base |= {"lanes": max(place.lanes for place in places), "quantization": quantization}
    with open_server(run, base, payloads, slow=True) as served:
        for number, place in enumerate(places):
            if number and not run.enough(POINT_S, f"{sweep.shape}, {_named(quantization, place)}"):
                continue
            settings = {"lanes": place.lanes, "max-running": _running(run, place.running)}
            in_flight, seconds = (16, run.seconds) if run.dry else (place.in_flight, SECONDS)
            point = found[quantization, place] = answered(served.measure(settings, in_flight, seconds=seconds))
            if not number and BASELINE in places:
                note = f"a dispatcher of {base['lanes']} lanes × {base['max-running']:,}: {served.stages}"
                run.target("start", served.start_s, note)
            name = _named(quantization, place)
            run.raw(name, {"place": (place.lanes, place.running), "in_flight": in_flight, "point": brief(point)})
            run.figure(f"{sweep.shape}, {name}", point.rate, "requests/s", _note(run, sweep, peaks, point, in_flight))
            _tell(run, sweep, peaks, found)
        if len(sweep.quantizations) > 1 and quantization == "none":
            _within(run, served, peaks, sweep, found)


def _tell(run: Run, sweep: Sweep, peaks: Peaks, found: Points) -> None:
    """The targets of this shape, as far as they are known."""
    if BASELINE in sweep.places:
        place, point = _best(found, "none")
        run.target("decoder-135m", point.rate, f"{place}, {_note(run, sweep, peaks, point, place.in_flight)}")
        if base := found.get(("none", BASELINE)):
            run.target("running", point.rate / base.rate, _versus(str(place), point, str(BASELINE), base))
    elif any(kind == "none" for kind, _ in found) and sweep.places:
        place, point = _best(found, "none")
        run.target("duty", 100 * (point.duty_cycle or 0.0), f"bf16, {place}; bound by {bound_by(point)}")
        fp8, bf16 = _held(found, "fp8"), _held(found, "none")
        if fp8 and bf16:
            (fast, over), (slow, base) = _best(fp8, "fp8"), _best(bf16, "none")
            note = _versus(f"FP8 {fast}", over, f"bf16 {slow}", base)
            run.target("fp8-0.5b", over.rate / base.rate, f"closed loops with p99 < {P99_US / 1e6:g} s; {note}")


def _versus(name: str, point: Point, other: str, base: Point) -> str:
    """Two points, for people."""
    first, second = (f"{n} {p.rate:,.0f}/s, bound by {bound_by(p)}" for n, p in ((name, point), (other, base)))
    return f"{first}; {second}"


def _within(run: Run, served: Served, peaks: Peaks, sweep: Sweep, found: Points) -> None:
    """The highest rate of an open loop within p99, at the fastest place that held it in a closed one."""
    place, best = _best(_held(found, "none") or found, "none")
    settings: Settings = {"lanes": place.lanes, "max-running": _running(run, place.running)}
    point, tried = served.within(settings, best.rate, P99_US)
    run.raw("rates within p99", tried)
    note = f"{place}; closed loop: {_note(run, sweep, peaks, best, place.in_flight)}"
    if point:
        run.target("decoder-0.5b", point.rate, f"{open_loop(point)}; {note}")
    elif tried:
        run.target("decoder-0.5b", 0.0, f"no rate that was tried held p99 < {P99_US / 1e6:g} s; {note}")


def _running(run: Run, running: int) -> int:
    return running // DRY if run.dry else running


def _named(quantization: str, place: Place) -> str:
    return f"{'bf16' if quantization == 'none' else quantization.upper()}, {place} sequences"


def _best(found: Points, quantization: str) -> tuple[Place, Point]:
    """The highest rate: as one would serve it, not as it looks busiest."""
    of_kind = {place: point for (kind, place), point in found.items() if kind == quantization}
    return max(of_kind.items(), key=lambda item: item[1].rate)


def _held(found: Points, quantization: str) -> Points:
    """The points of this kind within the limit of p99."""
    return {key: p for key, p in found.items() if key[0] == quantization and p.p99_us and p.p99_us < P99_US}


def _note(run: Run, sweep: Sweep, peaks: Peaks, point: Point, in_flight: int) -> str:
    floor = peaks.share(peaks.decoder_us(run.shape(sweep.shape), TOKENS_IN, tokens_out(run)), point.rate)
    p99 = f"p99 {(point.p99_us or 0) / 1000:,.0f} ms"
    return f"{in_flight:,} in flight: {point.rate:,.0f}/s, {p99}; bound by {bound_by(point, floor)}"
