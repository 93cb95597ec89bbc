"""Whether NVML's counters tell the truth: idle, small kernels on one multiprocessor, and products on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from bench.gpu.run import Run
from bench.gpu.stand import Stand, Work, open_stand
from fastqps.telemetry.metrics.gpm import Gpm

LOOK_S = 1.5


def measure(run: Run) -> None:
    """GPM's shares beside loads that are known."""
    stand = open_stand(run.dry)
    gpm = Gpm.open()
    if gpm is None:
        run.say("NVML has no GPM here")
        if not run.dry:
            raise RuntimeError("NVML gives no GPM counters: no nvidia-ml-py, a GPU before Hopper, or no permission")
    side = 64 if run.dry else 8192
    a, b = (torch.randn(side, side, device=stand.device).to(torch.bfloat16) for _ in range(2))
    tiny = torch.zeros(32, device=stand.device)
    loads: dict[str, Work | None] = {
        "idle": None,
        "one tiny kernel behind the other": lambda: tiny.add_(1),
        "large products": lambda: torch.mm(a, b),
    }
    for name, work in loads.items():
        found = _look(gpm, lambda seconds, work=work: _keep_busy(stand, work, seconds), 0.05 if run.dry else LOOK_S)  # type: ignore[misc]
        run.raw(name, found)
        note = ", ".join(f"{key} {100 * value:.1f} %" for key, value in found.items() if key != "sm")
        run.figure(f"GPM's SM utilisation: {name}", 100 * found.get("sm", 0.0), "%", note)
    if gpm:
        gpm.close()


def _look(gpm: Gpm | None, load: Callable[[float], None], seconds: float) -> dict[str, float]:
    load(seconds / 3)
    before = gpm.look() if gpm else None
    load(seconds)
    if gpm is None or before is None:
        return {}
    after = gpm.look()
    uses = gpm.between(before, after)
    before.release()
    after.release()
    return {
        key: value
        for key in ("sm", "occupancy", "tensor", "memory")
        if uses and (value := getattr(uses[0], key)) is not None
    }


def _keep_busy(stand: Stand, work: Work | None, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if work is None:
            time.sleep(0.05)
            continue
        for _ in range(20):
            work()
        stand.synchronize()
