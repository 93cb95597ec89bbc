"""Servers of a dry run that are a formula: their settings are checked as a server would, their figures are made up."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bench.gpu.run import Run
from bench.gpu.servers.served import LIMITS, Limits, Served, limits_of
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.target import Server, Settings
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError
from fastqps.config import decide, load

SERVED = ("encoder", "decoder:smollm2-135m")  # steps whose dry runs start servers all the same: one of each kind
ITEMS = 8  # of a step where no setting says how many
STEP_US, ITEM_US, HOST_US = 100.0, 10.0, 20.0  # of a step on the device; of each item; of the host, per step
FASTER = {"fp8": 1.3, "auto": 1.4}


class ModelledServer(Served):
    """Steps have a fixed part, so larger ones are faster."""

    def _use(self, cpus: Sequence[int]) -> Server:
        """``ConfigError`` where no server has these settings."""
        decide(load(self._base, os.environ, None).config)
        return Server("", "", 1)

    def _post(self, server: Server, wanted: Limits) -> None:
        limits = limits_of(self._base, {})
        if beyond := {key: value for key, value in wanted.items() if value > limits[key]}:
            raise BenchError(f"more than it started with: {beyond}")

    def _measure(self, load: LoadSpec) -> Point:
        now = {name: self._limits.get(name, self._base.get(key)) for key, name in LIMITS.items()}
        items = now["running"] or now["items"] or ITEMS
        lanes, dispatchers = now["lanes"] or 2, self._base.get("dispatchers") or 1
        step_us = (STEP_US + ITEM_US * items) / FASTER.get(str(self._base.get("quantization")), 1.0)
        steps_per_us = min(1 / step_us, dispatchers * min(lanes / max(step_us, HOST_US), 1 / HOST_US))
        idle = 1 - steps_per_us * step_us
        return Point(
            "", offered_rate=load.rate, rate=load.rate or 1e6 * items * steps_per_us, p99_us=1000.0,
            duty_cycle=1 - idle, idle_reasons={"launch": idle}, batch={"fill": 0.9}, status={"OK": 9},
        )  # fmt: skip


def open_server(run: Run, base: Settings, payloads: Payloads, *, slow: bool = False) -> Served:
    """A server of one model, or its stand-in in most dry runs."""
    kind = ModelledServer if run.dry and run.step not in SERVED else Served
    return kind(run, base, payloads, slow=slow)
