"""Servers of a dry run that are a formula: their settings are checked as a server would, their figures are made up."""

from __future__ import annotations

import os
from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers.served import Served
from fastqps.bench.measure.target import Settings, check_settings
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.config import decide, load

SERVED = ("encoder", "decoder:smollm2-135m")  # steps whose dry runs start servers all the same: one of each kind
RATE = 1000.0
QUANTIZATION = {"fp8": 1.3, "auto": 1.4}


class ModelledServer(Served):
    """More dispatchers and lanes are faster, FP8 too."""

    def __init__(
        self, run: Run, base: Settings, payloads: Payloads, threads: int | None = None, *, slow: bool = False
    ) -> None:
        self._run, self._base, self._probe_s = run, base, 0.1
        self.threads, self.cores = 1, 1

    def measure(self, settings: Settings, in_flight: int | None = None, **more: Any) -> Point:
        """``ConfigError`` where no server has these settings."""
        wanted = {**self._base, **settings}
        check_settings(wanted)
        decide(load(wanted, os.environ, None).config)
        speed = settings.get("dispatchers", 1) ** 2 * settings.get("lanes", 1) ** 0.5
        rate = more.get("rate") or RATE * speed * QUANTIZATION.get(settings.get("quantization", ""), 1.0)
        return Point(
            "", rate=rate, p99_us=1000.0, duty_cycle=0.995, idle_reasons={"launch": 0.005}, batch={"fill": 0.9},
            status={"OK": 9},
        )  # fmt: skip

    @property
    def address(self) -> str:
        """None: nobody answers there."""
        return ""

    def close(self) -> None:
        """Nothing was started."""


def open_server(
    run: Run, base: Settings, payloads: Payloads, threads: int | None = None, *, slow: bool = False
) -> Served:
    """Servers of one model, or their stand-in in most dry runs."""
    kind = ModelledServer if run.dry and run.step not in SERVED else Served
    return kind(run, base, payloads, threads, slow=slow)
