"""What each optimization adds to one synchronous dispatcher, on MiniLM: ``fastqps bench ablate``."""

from __future__ import annotations

from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers.program import run_bench
from bench.gpu.steps.encoder import settings_of
from fastqps.host import machine

WORDS = 30  # of a text: 32 tokens


def measure(run: Run) -> None:
    """A figure for each optimization that this device and model have."""
    threads = max(1, len(machine.allowed_cpus()) // 4)
    flags = ["--lengths", str(WORDS), "--load-threads", str(threads), "--connections", "64"]
    for key, value in settings_of(run).items():
        flags += ["--set", f"{key}={value}"]
    flags += ["--duration", f"{run.seconds:g}s", "--warmup", f"{min(1.0, run.seconds / 2):g}s"]
    tell(run, run_bench(run, "ablate", flags).get("optimizations", ()))


def tell(run: Run, optimizations: Any) -> None:
    """``optimizations`` of its report: rows with a rate, or with the reason why it is missing."""
    run.raw("optimizations", list(optimizations))
    for one in optimizations:
        if "missing" in one:
            run.leave_out(f"{one['name']}: {one['missing']}")
            continue
        note = f"{one['rate']:,.0f}/s; {one['over_first']:.2f} × the first"
        if one["duty_cycle"] is not None:
            note += f"; device busy {100 * one['duty_cycle']:.1f} %"
        run.figure(f"MiniLM over gRPC: {one['name']}", one["over_before"], "×", note)
