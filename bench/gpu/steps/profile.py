"""Where a step's time goes, by kernel, beside what its bytes and FLOPs would take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench.gpu.lanes import DecodeMix, Made, equal_texts, open_lane
from bench.gpu.profile.bounds import DecoderStep, Peaks, Work, decoder_work, encoder_work, measure_peaks
from bench.gpu.profile.timeline import Gaps, Kernel, Kind, gaps_of, kinds_of, steps_of
from bench.gpu.run import Run
from bench.gpu.sampler import describe as describe_clocks
from fastqps.runners.lane import Lane

STEPS, DRY_STEPS = 20, 2  # that are profiled, and as many before without the profiler
LENGTH = 32  # of an encoder's texts
PROMPT = 50
ENCODER = (176, 512)  # texts: 5,632 tokens, which fill the multiprocessors, and 16,384
DECODER = ((1024, 0), (512, 10))  # sequences that run, and prompts beside them: 1,024 rows, and about as many
SMALL = 0.01  # of a step: kernels that take less have no row
CASE_S = 25.0  # about what another case takes, with its start


@dataclass(frozen=True)
class Case:
    """One kind of step. ``once`` runs it and says how many µs it took by the device's clock."""

    name: str
    once: Callable[[], float]
    work: dict[str, Work]
    layers: int


def measure(run: Run) -> None:
    """All cases of the model that the step names; of a large decoder in FP8 too."""
    peaks = measure_peaks(run)
    model = run.argument
    cases = _encoder if run.shape(model).kind == "encoder" else _decoder
    for quantization in ("none", "fp8") if model == "llama-1b" else ("none",):
        if quantization == "none" or run.enough(CASE_S, f"{model} in FP8"):
            run.attempt(f"{model}, {quantization}", partial(cases, run, peaks, quantization))
    run.finish()


def _encoder(run: Run, peaks: Peaks, quantization: str) -> None:
    items = (2, 4) if run.dry else ENCODER
    limits = {"max-batch-items": items[-1], "max-batch-tokens": max(512, items[-1] * LENGTH)}
    lane = _open(run, quantization, limits)
    for count in items:
        if run.enough(8, f"{count * LENGTH} tokens"):
            work = encoder_work(run.shape(run.argument), count, LENGTH, 4 if run.dry else 2)
            name = f"{run.argument}, {count * LENGTH:,} tokens"
            once = partial(_prepared, run, lane, count)
            step_us = _case(run, peaks, Case(name, once, work, run.shape(run.argument).layers))
            if count == items[-1] and run.argument == "minilm-l6":
                run.target("encoder-step", step_us, "one step at a time, by its own stamps, not profiled")
    lane.close()


def _decoder(run: Run, peaks: Peaks, quantization: str) -> None:
    places = ((4, 0), (2, 1)) if run.dry else DECODER
    lane = _open(run, quantization, {"max-running": places[0][0], "max-input-tokens": 64, "max-output-tokens": 64})
    fp8 = quantization == "fp8"
    for running, prompts in places:
        if run.enough(8, f"{running} running and {prompts} prompts"):
            mix = DecodeMix(lane, running, prompts, PROMPT, partial(_run_once, run, lane))
            step = DecoderStep(running, prompts, PROMPT, PROMPT + STEPS)
            work = decoder_work(run.shape(run.argument), step, 4 if run.dry else 2, fp8)
            name = f"{run.argument}{' FP8' if fp8 else ''}, {running} running"
            name += f" and {prompts} prompts of {PROMPT}" if prompts else ""
            _case(run, peaks, Case(name, mix.once, work, run.shape(run.argument).layers))
            mix.close()
    lane.close()


def _open(run: Run, quantization: str, limits: dict[str, Any]) -> Lane[Any]:
    """The model on one lane, with its graphs. A dry run has none: its steps run eagerly."""
    own = {"model": str(run.checkpoint(run.argument)), "device": run.device, "dtype": run.dtype, "dispatchers": 1}
    lane = open_lane({**own, "quantization": quantization, **limits})
    if not run.dry:
        lane.warm_up()
    return lane


def _case(run: Run, peaks: Peaks, case: Case) -> float:
    """The step's time in µs, which comes first: it needs no profiler."""
    steps = DRY_STEPS if run.dry else STEPS
    for _ in range(0 if run.dry else 3):
        case.once()
    began_s = time.monotonic()
    step_us = median(case.once() for _ in range(steps))
    clocks = describe_clocks(run.gpu.between(began_s, time.monotonic()))
    run.figure(f"{case.name}: step", step_us, "µs", f"not profiled; {clocks}")
    kernels = _profiled(run, case.once, steps)
    kinds = kinds_of(kernels, steps, case.work, case.layers, peaks)
    gaps = gaps_of(steps_of(kernels, steps))
    run.raw(case.name, {"step_us": step_us, "kinds": list(map(asdict, kinds)), "gaps": asdict(gaps) if gaps else None})
    run.figure(f"{case.name}: step", step_us, "µs", f"{shares(kinds, gaps, step_us)}; {clocks}")
    if gaps:
        run.figure(f"{case.name}: gaps between its kernels", gaps.sum_us, "µs", gaps.describe())
    else:
        run.leave_out(f"{case.name}, gaps: the profiled steps are not alike")
    for kind in (kind for kind in kinds if kind.us >= SMALL * step_us):
        run.figure(f"{case.name}: {kind.name}", kind.us, "µs", kind.describe())
    return step_us


def _profiled(run: Run, once: Callable[[], float], steps: int) -> list[Kernel]:
    """All kernels of so many steps, in the order of the device. ``RuntimeError`` where the profiler saw none."""
    with profile(activities=[ProfilerActivity.CPU if run.dry else ProfilerActivity.CUDA]) as profiled:
        for _ in range(steps):
            once()
        if not run.dry:
            torch.cuda.synchronize()
    wanted = "CPU" if run.dry else "CUDA"
    on_device = [event for event in profiled.events() or () if event.device_type.name == wanted]
    events = [event for event in on_device if not run.dry or event.cpu_parent is None]
    if not events:
        raise RuntimeError("torch's profiler saw no kernels: CUPTI is missing, or another profiler holds it")
    events.sort(key=lambda event: event.time_range.start)
    return [Kernel(each.name, float(each.time_range.elapsed_us()), float(each.time_range.start)) for each in events]


def _prepared(run: Run, lane: Lane[Any], items: int) -> float:
    return _run_once(run, lane, equal_texts(lane, items, LENGTH))


def _run_once(run: Run, lane: Lane[Any], made: Made) -> float:
    """µs by the device's clock; where kernels are interpreted in this thread, since the profiler sees no other."""
    runner = lane.runners[0]
    if run.dry:
        began_ns = time.monotonic_ns()
        getattr(runner, "run_eagerly", runner.run)(*made)
        return (time.monotonic_ns() - began_ns) / 1000
    lane.launch(0, *made)
    lane.wait(0)
    start_ns, end_ns = runner.buffers().stamps.tolist()
    return float(end_ns - start_ns) / 1000


def shares(kinds: list[Kind], gaps: Gaps | None, step_us: float) -> str:
    """Shares of the profiled step, if its span is known: own kernels, products, gaps."""
    whole_us = gaps.span_us if gaps else step_us
    by_sort = {sort: sum(kind.us for kind in kinds if kind.sort == sort) for sort in ("own", "cuBLAS", "other")}
    parts = [f"{sort} {100 * us / whole_us:.0f} %" for sort, us in by_sort.items() if us]
    return ", ".join(parts + ([f"gaps {100 * gaps.sum_us / whole_us:.1f} %"] if gaps else []))
