"""Where a step's time goes, by kernel, beside what its bytes and FLOPs would take, and what changes would gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from torch.profiler import ProfilerActivity, profile

from bench.gpu.decode_mix import DecodeMix, Made
from bench.gpu.profile.bounds import Peaks, measure_peaks
from bench.gpu.profile.changes import Change, changes_of
from bench.gpu.profile.step_work import DecoderStep, Work, decoder_work, encoder_work
from bench.gpu.profile.timeline import Gaps, Kernel, Kind, gaps_of, kinds_of, steps_of
from bench.gpu.run import Run
from bench.gpu.stand import Stand, open_stand
from bench.gpu.step_lane import equal_texts, open_lane
from fastqps.runners.lane import Lane

STEPS, DRY_STEPS = 20, 2  # that are profiled, and as many before without the profiler
LENGTH = 32  # of an encoder's texts
PROMPT = 50
ENCODER = (176, 512)  # texts: 5,632 tokens, which fill the multiprocessors, and 16,384
DECODER = ((1024, 0), (512, 10))  # sequences that run, and prompts beside them: 1,024 rows, and about as many
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
    stand = open_stand(run.dry)
    peaks = measure_peaks(stand)
    run.raw("peaks", peaks.as_json())
    model = run.argument
    for quantization in ("none", "fp8") if model == "llama-1b" else ("none",):
        if quantization == "none" or run.enough(CASE_S, f"{model} in FP8"):
            run.attempt(f"{model}, {quantization}", partial(_model, run, stand, peaks, quantization))
    run.finish()


def _model(run: Run, stand: Stand, peaks: Peaks, quantization: str) -> None:
    own = {"model": str(run.checkpoint(run.argument)), "device": run.device, "dtype": run.dtype, "dispatchers": 1}
    own |= {"quantization": quantization}
    cases = _encoder if run.shape(run.argument).kind == "encoder" else _decoder
    cases(run, stand, peaks, own, quantization)


def _encoder(run: Run, stand: Stand, peaks: Peaks, own: dict[str, Any], quantization: str) -> None:
    items = (2, 4) if run.dry else ENCODER
    lane = open_lane({**own, "max-batch-items": items[-1], "max-batch-tokens": max(512, items[-1] * LENGTH)})
    _warm_up(stand, lane)
    for count in items:
        if run.enough(8, f"{count * LENGTH} tokens"):
            work = encoder_work(run.shape(run.argument), count, LENGTH, 2 if stand.cuda else 4)
            name = f"{run.argument}, {count * LENGTH:,} tokens"
            once = partial(_prepared, stand, lane, count)
            step_us = _case(run, stand, peaks, Case(name, once, work, run.shape(run.argument).layers))
            if count == items[-1] and run.argument == "minilm-l6":
                run.target("encoder-step", step_us, "one step at a time, by its own stamps, not profiled")
    lane.close()


def _decoder(run: Run, stand: Stand, peaks: Peaks, own: dict[str, Any], quantization: str) -> None:
    places = ((4, 0), (2, 1)) if run.dry else DECODER
    most = {"max-running": places[0][0], "max-input-tokens": 64, "max-output-tokens": 64}
    lane = open_lane({**own, **most})
    _warm_up(stand, lane)
    fp8 = quantization == "fp8"
    for running, prompts in places:
        if run.enough(8, f"{running} running and {prompts} prompts"):
            mix = DecodeMix(lane, running, prompts, PROMPT, partial(_run_once, stand, lane))
            step = DecoderStep(running, prompts, PROMPT, PROMPT + STEPS)
            work = decoder_work(run.shape(run.argument), step, 2 if stand.cuda else 4, fp8)
            name = f"{run.argument}{' FP8' if fp8 else ''}, {running} running"
            name += f" and {prompts} prompts of {PROMPT}" if prompts else ""
            _case(run, stand, peaks, Case(name, mix.once, work, run.shape(run.argument).layers))
            mix.close()
    lane.close()


def _warm_up(stand: Stand, lane: Lane[Any]) -> None:
    """Captures the graphs. A dry run has none: its steps run eagerly."""
    if stand.cuda:
        lane.warm_up()


def _case(run: Run, stand: Stand, peaks: Peaks, case: Case) -> float:
    """The step's time in µs, which comes first: it needs no profiler."""
    steps = STEPS if stand.cuda else DRY_STEPS
    for _ in range(3 if stand.cuda else 0):
        case.once()
    step_us = median(case.once() for _ in range(steps))
    run.figure(f"{case.name}: step", step_us, "µs", "not profiled")
    kernels = _profiled(stand, case.once, steps)
    kinds = kinds_of(kernels, steps, case.work, case.layers, peaks)
    gaps = gaps_of(steps_of(kernels, steps))
    changes = changes_of(kinds, step_us, gaps)
    found = {"step_us": step_us, "kinds": [kind.as_json() for kind in kinds], "gaps": gaps.as_json() if gaps else None}
    run.raw(case.name, found | {"changes": [change.as_json() for change in changes]})
    run.figure(f"{case.name}: step", step_us, "µs", describe(kinds, gaps, step_us))
    _rows(run, case, kinds, gaps)
    _print(run, case.name, kinds, changes, step_us)
    return step_us


def _rows(run: Run, case: Case, kinds: list[Kind], gaps: Gaps | None) -> None:
    """The gaps, and each product by the names of its kernels."""
    if gaps:
        note = f"of {gaps.span_us:.0f} µs under the profiler; median {gaps.median_us:.2f} µs, "
        note += f"largest {gaps.largest_us:.2f} µs behind {gaps.after[:80]}; beside copies {gaps.copies_us:.1f} µs"
        run.figure(f"{case.name}: gaps between its kernels", gaps.sum_us, "µs", note)
    else:
        run.leave_out(f"{case.name}, gaps: the profiled steps are not alike")
    for kind in kinds:
        if kind.sort == "cuBLAS":
            note = f"at least {kind.bound_us:.0f} µs; {kind.describe_names()}"
            run.figure(f"{case.name}: {kind.name}", kind.us, "µs", note)


def _profiled(stand: Stand, once: Callable[[], float], steps: int) -> list[Kernel]:
    """All kernels of so many steps, in the order of the device. ``RuntimeError`` where the profiler saw none."""
    activity = ProfilerActivity.CUDA if stand.cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiled:
        for _ in range(steps):
            once()
        stand.synchronize()
    wanted = "CUDA" if stand.cuda else "CPU"
    found = [event for event in profiled.events() or () if event.device_type.name == wanted]
    events = [event for event in found if stand.cuda or event.cpu_parent is None]
    if not events:
        raise RuntimeError("torch's profiler saw no kernels: CUPTI is missing, or another profiler holds it")
    events.sort(key=lambda event: event.time_range.start)
    return [Kernel(each.name, float(each.time_range.elapsed_us()), float(each.time_range.start)) for each in events]


def _prepared(stand: Stand, lane: Lane[Any], items: int) -> float:
    return _run_once(stand, lane, equal_texts(lane, items, LENGTH))


def _run_once(stand: Stand, lane: Lane[Any], made: Made) -> float:
    """µs by the device's clock; where kernels are interpreted in this thread, since the profiler sees no other."""
    runner = lane.runners[0]
    if not stand.cuda:
        began_ns = time.monotonic_ns()
        getattr(runner, "run_eagerly", runner.run)(*made)
        return (time.monotonic_ns() - began_ns) / 1000
    lane.launch(0, *made)
    lane.wait(0)
    start_ns, end_ns = runner.buffers().stamps.tolist()
    return float(end_ns - start_ns) / 1000


def describe(kinds: list[Kind], gaps: Gaps | None, step_us: float) -> str:
    """Shares of the profiled step, where its span is known: own kernels, products, gaps; then the largest kinds."""
    whole_us = gaps.span_us if gaps else step_us
    by_sort = {sort: sum(kind.us for kind in kinds if kind.sort == sort) for sort in ("own", "cuBLAS", "other")}
    told = [f"{sort} {100 * us / whole_us:.0f} %" for sort, us in by_sort.items() if us]
    told += [f"gaps {100 * gaps.sum_us / whole_us:.1f} %"] if gaps else []
    first = ", ".join(f"{kind.name} {kind.us:.0f} µs ({kind.launches:.0f})" for kind in kinds[:6])
    return f"{', '.join(told)}; {first}"


def _print(run: Run, name: str, kinds: list[Kind], changes: list[Change], step_us: float) -> None:
    run.say(f"{name}: {step_us:.0f} µs a step")
    run.say(f"{'kind':<40} {'sort':<7} {'launches':>8} {'µs':>9} {'%':>5} {'MB':>8} {'GFLOP':>8} {'bound µs':>9}")
    for kind in kinds:
        run.say(
            f"{kind.name:<40} {kind.sort:<7} {kind.launches:>8.1f} {kind.us:>9.1f} {100 * kind.us / step_us:>5.1f} "
            f"{kind.bytes / 1e6:>8.1f} {kind.flops / 1e9:>8.1f} {kind.bound_us:>9.1f}"
        )
    for number, change in enumerate(changes[:3], 1):
        run.say(f"{number}. {change}")
