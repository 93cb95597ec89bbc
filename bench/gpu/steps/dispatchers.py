"""N dispatchers on one GPU, with MPS and time-sliced, against a tuned one, at the same number of calls in flight."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import answered, bound_by, brief, describe
from bench.gpu.steps.decoder import prompts, settings_of, tokens_out
from bench.gpu.steps.encoder import encoder_texts
from bench.gpu.steps.encoder import settings_of as encoder_settings
from fastqps.bench.measure.target import Settings
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.errors import ConfigError
from fastqps.supervisor.gpu.mps import PROGRAM, find_program

# What is tried, in this order, as far as the time goes.
ONE: tuple[dict[str, Any], ...] = ({"lanes": 2}, {"lanes": 1}, {"lanes": 4})
MANY: tuple[dict[str, Any], ...] = (
    {"dispatchers": 2, "mps": "on", "lanes": 1},
    {"dispatchers": 4, "mps": "on", "lanes": 1},
    {"dispatchers": 2, "mps": "off", "lanes": 1},
    {"dispatchers": 3, "mps": "on", "lanes": 1},
    {"dispatchers": 2, "mps": "on", "lanes": 2},
    {"dispatchers": 4, "mps": "off", "lanes": 1},
)
SLOWER = 1.5  # a start with more dispatchers than before takes longer
DECODER_S = 60.0  # about what the first comparison of a decoder takes


def measure(run: Run) -> None:
    """MiniLM, where the host is most of the work, then a decoder; the target is the larger gain."""
    found: list[tuple[float, str]] = []
    with TemporaryDirectory() as folder:
        for name, work in (("encoder", _encoder), ("decoder", _decoder)):
            if name == "decoder" and not run.enough(DECODER_S, f"N dispatchers of a {name}"):
                continue
            if gain := run.attempt(name, partial(work, run, folder)):
                found.append(gain)
                run.target("dispatchers", *max(found))
    run.finish()


def _encoder(run: Run, folder: str) -> tuple[float, str]:
    texts = encoder_texts(run, folder)
    return _grid(run, "minilm-l6", encoder_settings(run), texts, 16 if run.dry else 4096, {})


def _decoder(run: Run, folder: str) -> tuple[float, str]:
    model, running = "smollm2-135m", 8 if run.dry else 1024
    payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, model), tokens_out(run))
    base = settings_of(run, model, running)
    del base["dispatchers"], base["max-running"]
    return _grid(run, model, base, payloads, 2 * running, {"max-running": running})


def _places(run: Run) -> list[dict[str, Any]]:
    """One dispatcher and many by turns, so that there is something to compare soon."""
    tuned = [{"dispatchers": 1, "mps": "off", **lanes} for lanes in ONE]
    many = list(MANY)
    if find_program() is None and not run.dry:
        run.leave_out(f"dispatchers under MPS: {PROGRAM} is not here")
        many = [place for place in many if place["mps"] == "off"]
    return [tuned[0], *many[:2], tuned[1], *many[2:], *tuned[2:]]


def _grid(
    run: Run, model: str, base: Settings, payloads: Payloads, in_flight: int, divided: dict[str, int]
) -> tuple[float, str]:
    """The gain of the best of N over the best of one, and what to say. ``divided``: settings of which each dispatcher
    and lane gets its part, so that as many sequences run in all."""
    points: dict[str, Point] = {}
    failed: dict[str, str] = {}
    grid = _places(run)
    longest_s = 0.0

    def settings(place: dict[str, Any]) -> Settings:
        parts = place["dispatchers"] * place["lanes"]
        return place | {key: max(1, value // parts) for key, value in divided.items()}

    with open_server(run, base, payloads, slow=True) as served:
        for place in grid:
            if len(points) > 1 and not run.enough(SLOWER * longest_s, f"{model}, {describe(place)}"):
                continue
            before_s = run.left_s
            try:
                point = answered(served.measure(settings(place), in_flight))
            except (BenchError, ConfigError) as error:
                failed[describe(place)] = str(error)
                run.leave_out(f"{model}, {describe(place)}: {error}")
                continue
            points[describe(place)] = point
            longest_s = max(longest_s, before_s - run.left_s)
            run.raw(model, {name: brief(point) for name, point in points.items()} | {"failed": failed})
            run.say(f"{model}, {describe(place)}: {point.rate:,.0f}/s, p99 {(point.p99_us or 0) / 1000:.1f} ms")
        alone = {name: point.rate for name, point in points.items() if name.startswith("dispatchers 1,")}
        many = {name: point.rate for name, point in points.items() if name not in alone}
        if not alone or not many:
            raise BenchError(f"{model}: nothing to compare: {failed}")
        one, best = max(alone, key=lambda n: alone[n]), max(many, key=lambda n: many[n])
        # The best of several single points are also those with most luck: the two are compared once more.
        again = run.enough(2 * SLOWER * longest_s, f"{model}: both winners once more")
        places = {describe(place): place for place in grid}
        for name in (one, best) if again else ():
            points[name] = answered(served.measure(settings(places[name]), in_flight))
    run.raw(f"{model}, the best again", {name: brief(points[name]) for name in (one, best)})
    gain = points[best].rate / points[one].rate
    won = "N dispatchers win" if gain > 1 else "one dispatcher wins"
    rates = f"{best}: {points[best].rate:,.0f}/s, {one}: {points[one].rate:,.0f}/s"
    note = f"{model}, {in_flight} in flight: {won}; {rates}, "
    note += "each measured once more" if again else "single points"
    run.figure(
        f"{model}: best N dispatchers over the best one", gain, "×", f"{note}; bound by {bound_by(points[best])}"
    )
    for name, rate in many.items():
        run.figure(f"{model}: {name}", rate / alone[one], "×", f"over {one}; {rate:,.0f}/s; single points")
    return gain, note
