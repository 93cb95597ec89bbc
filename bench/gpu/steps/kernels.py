"""Each of the project's own kernels at true shapes: its time, and how much of the memory's bandwidth that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from bench.gpu.models.shapes import Shape
from bench.gpu.profile.bounds import Peaks, measure_peaks
from bench.gpu.run import Run
from bench.gpu.stand import Stand, kernel_us, open_stand

MODELS = ("minilm-l6", "bert-base", "smollm2-135m", "qwen2.5-0.5b", "llama-1b")


@dataclass(frozen=True)
class Timed:
    """One launch. ``bytes``: read and written at least; ``flops``: of matrix products in it."""

    name: str
    work: Callable[[], object]
    bytes: float
    flops: float = 0.0


Make = Callable[[Stand, Shape], Iterator[Timed]]


def measure(run: Run) -> None:
    """All kernels of all models. Raises at the end where one failed."""
    stand = open_stand(run.dry)
    peaks = measure_peaks(stand)
    run.raw("peaks", peaks.as_json())
    found, failed = [], {}
    for model in ("minilm-l6", "smollm2-135m") if run.dry else MODELS:
        shape = run.shape(model)
        kernels: dict[str, Make] = import_module(f"bench.gpu.steps.{shape.kind}_kernels").KERNELS
        for name, make in kernels.items():
            try:
                found += [_one(run, stand, peaks, model, timed) for timed in make(stand, shape)]
            except Exception as error:  # one that fails does not hide the others
                failed[f"{model} {name}"] = f"{type(error).__name__}: {str(error)[:200]}"
    run.raw("kernels", found)
    if failed:
        run.raw("failed", failed)
        raise RuntimeError("; ".join(f"{name}: {error}" for name, error in failed.items()))


def _one(run: Run, stand: Stand, peaks: Peaks, model: str, timed: Timed) -> dict[str, object]:
    us = kernel_us(stand, timed.work, copies=10, seconds=0.03)
    floors = (timed.bytes / peaks.bytes_per_s * 1e6, "memory"), (timed.flops / peaks.flops * 1e6, "products")
    floor_us, by = max(floors)
    note = f"at least {floor_us:.1f} µs by {by}, which is {100 * floor_us / us:.0f} % of it"
    cached = "; it reads and writes the L2 cache, not the memory" if by == "memory" and floor_us > us else ""
    run.figure(f"{model}: {timed.name}", us, "µs", note + cached)
    return {"model": model, "kernel": timed.name, "us": us, "bytes": timed.bytes, "flops": timed.flops} | {
        "floor_us": floor_us, "floor_by": by
    }  # fmt: skip
