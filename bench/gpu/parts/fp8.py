"""bf16, FP8 and the choice between them, where matrix products are most of the time: a Llama of a billion."""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.bounds import measure_peaks, share
from bench.gpu.parts.decoder import prompts, settings_of, tokens_out
from bench.gpu.payloads import decoder_payloads
from bench.gpu.run import Run
from bench.gpu.served import Served, answered, bound_by, brief
from bench.gpu.stand import open_stand
from fastqps.bench.point import Point
from fastqps.bench.result import BenchError

MODEL = "llama-1b"
KINDS = ("none", "fp8", "auto")
ORDER = ("none", "fp8", "auto", "fp8", "none")  # each a start of the server


def measure(run: Run) -> None:
    """Each kind's server in turn, with the same load, and again while there is time; the ratio is of the medians."""
    peaks = measure_peaks(open_stand(run.dry))
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    last: dict[str, Point] = {}
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", prompts(run, MODEL), tokens_out(run))
        running = 8 if run.dry else 512
        with Served(run, settings_of(run, MODEL, running), payloads, slow=True) as served:
            for kind in ORDER:
                if rates[kind] and (run.dry or not run.enough(90)):
                    continue
                try:
                    points = [
                        answered(served.measure({"quantization": kind}, 2 * running)) for _ in range(run.repetitions)
                    ]
                except BenchError as error:
                    run.say(f"{kind}: {error}")
                    run.raw(f"{kind} failed", str(error))
                    continue
                last[kind] = points[-1]
                rates[kind] += [point.rate for point in points]
                run.say(f"{kind}: {last[kind].rate:,.0f} requests/s")
    run.raw("rates", rates)
    run.raw("points", {kind: brief(point) for kind, point in last.items()})
    rate = {kind: statistics.median(found) for kind, found in rates.items() if found}
    if missing := [kind for kind in ("none", "fp8") if kind not in rate]:
        raise BenchError(f"no figures of --quantization {', '.join(missing)}")
    floor = share(peaks, peaks.decoder_us(run.shape(MODEL), 50, tokens_out(run)), rate["none"])
    note = (
        f"{running} sequences; bf16 {rate['none']:,.0f}/s, of which in bf16 {floor}; bound by {bound_by(last['fp8'])}"
    )
    run.target("fp8", rate["fp8"] / rate["none"], note)
    if "auto" in rate:
        run.figure("FP8 auto over bf16, Llama-1B shape", rate["auto"] / rate["none"], "×")
    run.figure("Llama-1B shape, 50 in / 50 out, bf16", rate["none"], "requests/s", bound_by(last["none"], floor))
