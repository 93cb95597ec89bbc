"""bf16, FP8 and the choice between them, where matrix products are most of the time: a Llama of a billion."""

from __future__ import annotations

import contextlib
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.plan import START_S
from bench.gpu.profile.bounds import Peaks, measure_peaks
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by, brief
from bench.gpu.steps.decoder import POINT_S, SECONDS, prompts, settings_of, tokens_out
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError

MODEL = "llama-1b"
ORDER = ("none", "fp8", "fp8", "none", "auto")  # each kind has a server of its own; the first two are needed
RUNNING = 512


def measure(run: Run) -> None:
    """Each kind in turn, with the same load, while there is time; the ratio is of the medians."""
    peaks = measure_peaks(run.dry)
    rates: dict[str, list[float]] = {}
    last: dict[str, Point] = {}
    running = 8 if run.dry else RUNNING
    seconds = run.seconds if run.dry else SECONDS
    servers: dict[str, Served] = {}
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, MODEL), tokens_out(run))
        for number, kind in enumerate(ORDER):
            needed_s = POINT_S + (0.0 if kind in servers else START_S[1])
            if number >= 2 and not run.enough(needed_s, f"--quantization {kind}, turn {number + 1}"):
                continue
            if kind not in servers:
                base = settings_of(run, MODEL, running) | {"quantization": kind}
                servers[kind] = stack.enter_context(open_server(run, base, payloads, slow=True))
            try:
                point = answered(servers[kind].measure({}, 2 * running, seconds=seconds))
            except BenchError as error:
                run.leave_out(f"--quantization {kind}: {error}")
                continue
            rates.setdefault(kind, []).append(point.rate)
            last[kind] = point
            run.raw("rates", rates)
            run.raw(f"{kind}, turn {number + 1}", brief(point))
            run.say(f"{kind}: {point.rate:,.0f} requests/s")
            _tell(run, peaks, rates, last)
    if missing := [kind for kind in ORDER[:2] if kind not in rates]:
        raise BenchError(f"no figures of --quantization {', '.join(missing)}")


def _tell(run: Run, peaks: Peaks, rates: dict[str, list[float]], last: dict[str, Point]) -> None:
    """What is known so far, by the medians."""
    rate = {kind: statistics.median(found) for kind, found in rates.items()}
    if "none" not in rate:
        return
    floor = peaks.share(peaks.decoder_us(run.shape(MODEL), 50, tokens_out(run)), rate["none"])
    name = "Llama-1B shape, 50 in / 50 out, bf16"
    run.figure(name, rate["none"], "requests/s", bound_by(last["none"], floor))
    turns = ", ".join(f"{kind} {rate[kind]:,.0f}/s ({len(found)} turns)" for kind, found in rates.items())
    if "fp8" in rate:
        run.target("fp8", rate["fp8"] / rate["none"], f"{turns}; bound by {bound_by(last['fp8'])}")
    if "auto" in rate:
        run.figure("FP8 auto over bf16, Llama-1B shape", rate["auto"] / rate["none"], "×", turns)
