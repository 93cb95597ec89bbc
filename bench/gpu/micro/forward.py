"""A whole step at every budget: tokens per microsecond on the device, by its own stamps, and what the host adds."""

from __future__ import annotations

import json
from typing import Any

from bench.gpu.bounds import Peaks, measure_peaks
from bench.gpu.inprocess import EncoderLoop
from bench.gpu.run import Run
from bench.gpu.stand import open_stand
from fastqps.bench.pinning import pinning
from fastqps.bench.step_process import StepProcess

ENCODERS = ("minilm-l6", "bert-base")
DECODERS = ("smollm2-135m",)


def measure(run: Run) -> None:
    """Through the processes that ``fastqps bench calibrate`` uses: the server's runners and lanes, all its shapes."""
    peaks = measure_peaks(open_stand(run.dry))
    for model in ENCODERS[:1] if run.dry else (*ENCODERS, *DECODERS):
        if not run.enough(25) and not run.dry:
            run.say(f"{model}: no time left")
            continue
        settings = {"model": str(run.checkpoint(model)), "device": run.device, "dtype": run.dtype, "dispatchers": 1}
        if model in DECODERS:
            settings |= {"max-input-tokens": 64, "max-output-tokens": 64, "max-running": 8 if run.dry else 1024}
        elif run.dry:
            settings |= {"max-batch-items": 8, "max-batch-tokens": 512}
        with StepProcess(settings, "", pinning("off", 1, own_server=True, local=True).server) as process:
            process.ask({})
            costs = list(process.answers())
        run.raw(model, costs)
        _judge(run, model, peaks, costs)
    _eager(run)


def _eager(run: Run) -> None:
    """What graphs bring: a step of a few texts and one of many, with and without."""
    for items in (4,) if run.dry else (4, 64, 512):
        loop = EncoderLoop(run.device, run.checkpoint("minilm-l6"), items=items, tokens=32, lanes=1, dtype=run.dtype)
        try:
            graph_us, eager_us = loop.wall_us(), loop.wall_us(eager=True)
        except NotImplementedError as error:
            run.say(str(error))
            return
        finally:
            loop.close()
        note = f"{graph_us:.0f} µs from launch to answers, {eager_us:.0f} µs without a graph"
        run.figure(f"minilm-l6, {items} texts of 32 tokens: graph over eager", eager_us / graph_us, "×", note)


def _judge(run: Run, model: str, peaks: Peaks, costs: list[dict[str, Any]]) -> None:
    best = max(costs, key=lambda cost: cost["tokens"] / cost["us"])
    floor_us = peaks.gemm_us(run.shape(model), best["tokens"])
    note = (
        f"{best['items']} items, {best['tokens']} tokens in {best['us']:.0f} µs: matrix products at the measured peak "
    )
    note += f"would take {100 * floor_us / best['us']:.0f} % of it; launching {best['launch_us']:.0f} µs of the host"
    run.figure(f"{model}: best step", best["tokens"] / best["us"], "tokens/µs", note)
    least = min(costs, key=lambda cost: cost["us"])
    note = json.dumps({f"{cost['items']}x{cost['tokens'] // cost['items']}": round(cost["us"]) for cost in costs})
    run.figure(f"{model}: shortest step", least["us"], "µs", f"by items x tokens: {note}")
