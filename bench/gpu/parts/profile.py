"""What a step's time goes into: its kernels by name, from torch's profiler, and the gaps between them."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import Any

from torch.profiler import ProfilerActivity, profile

from bench.gpu.run import Run
from bench.gpu.stand import Stand, open_stand
from fastqps.bench.step_costs import Shape as StepShape
from fastqps.bench.step_costs import Steps, open_steps

STEPS = 20
_PRODUCTS = re.compile(r"gemm|cutlass|xmma|nvjet|cublas|splitk|mm_", re.IGNORECASE)
# Model, settings, and the step: (items, tokens of each); of a decoder one row each, as most of its steps have.
CASES: dict[str, tuple[dict[str, Any], StepShape]] = {
    "minilm-l6": ({"max-batch-items": 512, "max-batch-tokens": 16384}, (512, 32)),
    "smollm2-135m": ({"max-running": 512, "max-input-tokens": 64, "max-output-tokens": 64}, (512, 1)),
    "qwen2.5-0.5b": ({"max-running": 512, "max-input-tokens": 64, "max-output-tokens": 64}, (512, 1)),
}
_SMALL = {"max-batch-items": 4, "max-batch-tokens": 512, "max-running": 4}


def measure(run: Run) -> None:
    """For each model one kind of full step."""
    stand = open_stand(run.dry)
    for model, (settings, shape) in list(CASES.items())[: 2 if run.dry else None]:
        if not run.enough(40) and not run.dry:
            run.say(f"{model}: no time left")
            continue
        if run.dry:
            settings = {key: _SMALL.get(key, value) for key, value in settings.items()}
            shape = 4, shape[1]
        own = {"model": str(run.checkpoint(model)), "device": run.device, "dtype": run.dtype, "dispatchers": 1}
        steps = open_steps({**own, **settings}, "")
        steps.lane.warm_up()
        step_us, kernels = _profile(stand, steps, shape)
        steps.lane.close()
        run.raw(model, {"step_us": step_us, "kernels": kernels})
        covered_us = sum(us for us, _ in kernels.values())
        note = f"{shape[0]} items of {shape[1]} tokens, {step_us:.0f} µs: {shares(kernels, step_us)}"
        run.figure(f"{model}: kernels' share of a step, the rest is gaps", 100 * covered_us / step_us, "%", note)


def _profile(stand: Stand, steps: Steps, shape: StepShape) -> tuple[float, dict[str, tuple[float, float]]]:
    """µs of a step by its own stamps, and of each kernel in it: µs and how often."""
    for _ in range(3):
        _once(stand, steps, shape)
    taken = sorted(_once(stand, steps, shape) for _ in range(STEPS))
    activity = ProfilerActivity.CUDA if stand.cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiled:
        for _ in range(STEPS):
            _once(stand, steps, shape)
        stand.synchronize()
    kernels: dict[str, tuple[float, float]] = {}
    for event in profiled.key_averages():
        us = float(event.self_device_time_total if stand.cuda else event.self_cpu_time_total)
        if us > 0 and not event.key.startswith(("Memcpy", "Memset", "cuda", "ProfilerStep")):
            kernels[event.key[:120]] = us / STEPS, event.count / STEPS
    return taken[STEPS // 2], kernels


def _once(stand: Stand, steps: Steps, shape: StepShape) -> float:
    """Runs one; µs by the device's clock."""
    made = steps.prepare(shape)
    if stand.cuda:
        steps.lane.launch(0, *made)
        steps.lane.wait(0)
        start_ns, end_ns = steps.lane.runners[0].buffers().stamps.tolist()
    else:  # in this thread: the profiler sees no other one
        start_ns = time.monotonic_ns()
        steps.lane.runners[0].run(*made)
        end_ns = time.monotonic_ns()
    steps.retire()
    return float(end_ns - start_ns) / 1000


def shares(kernels: dict[str, tuple[float, float]], step_us: float) -> str:
    """``products 52 % (24), tile_attention_kernel 18 % (6), …``: of the step, and how many there are."""
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, (us, count) in kernels.items():
        kind = "products" if _PRODUCTS.search(name) else name.split("(")[0].split("<")[0].strip("_")[-40:]
        kinds[kind][0] += us
        kinds[kind][1] += count
    first = sorted(kinds.items(), key=lambda item: -item[1][0])[:8]
    return ", ".join(f"{kind} {100 * us / step_us:.0f} % ({count:.0f})" for kind, (us, count) in first)
