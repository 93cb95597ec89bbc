"""The GPU's clock, power, temperature and reasons to slow down, sampled while a step measures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from importlib import import_module
from statistics import fmean, median
from typing import Any, NamedTuple, Self

from fastqps.host.gpus import find_gpus

RATE_HZ = 20
SAMPLES_MAX = RATE_HZ * 3600
_REASONS = {  # NVML's bits. Not here: an idle GPU, and clocks that somebody has set
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "clocks in step with another GPU",
    0x20: "temperature",
    0x40: "temperature, by hardware",
    0x80: "power brake",
    0x200: "board limit",
    0x400: "reliability",
}
Clocks = dict[str, Any]  # medians: sm_mhz, power_w, temperature_c; slowed: {reason: share of the samples}; samples


class _Sample(NamedTuple):
    at_s: float
    sm_mhz: float
    power_w: float
    temperature_c: float
    reasons: int


class GpuSampler:
    """A context manager: samples the first visible GPU through NVML, in a thread of its own.

    ``missing``: why there are no samples, or no more.
    """

    def __init__(self) -> None:
        self.missing = "not sampled"
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES_MAX)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._nvml: Any = None

    def between(self, begin_s: float, end_s: float) -> Clocks:
        """Medians from ``begin_s`` to ``end_s`` of CLOCK_MONOTONIC, or ``missing``: why there are none."""
        samples = [sample for sample in tuple(self._samples) if begin_s <= sample.at_s <= end_s]
        if not samples:
            return {"missing": self.missing or "no sample in that time"}
        medians = {
            name: median(getattr(each, name) for each in samples) for name in ("sm_mhz", "power_w", "temperature_c")
        }
        slowed = {name: fmean(bool(sample.reasons & bit) for sample in samples) for bit, name in _REASONS.items()}
        slowed = {name: round(share, 3) for name, share in slowed.items() if share}
        return {**medians, "slowed": slowed, "samples": len(samples)}

    def __enter__(self) -> Self:
        """Begins to sample. Without NVML, or a GPU that answers it, there are no samples."""
        try:
            self._nvml = import_module("pynvml")
            self._nvml.nvmlInit()
            handle = self._nvml.nvmlDeviceGetHandleByUUID(find_gpus().visible[0].uuid)
            self._samples.append(self._sample(handle))
        except Exception as error:  # ImportError, NVMLError, IndexError, and what another package of this name raises
            self.missing = f"NVML: {error}"
            return self
        self.missing = ""
        self._thread = threading.Thread(target=self._run, args=(handle,), name="gpu sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _run(self, handle: Any) -> None:
        while not self._over.wait(1 / RATE_HZ):
            try:
                self._samples.append(self._sample(handle))
            except self._nvml.NVMLError as error:
                self.missing = f"NVML, later: {error}"
                return

    def _sample(self, handle: Any) -> _Sample:
        nvml = self._nvml
        return _Sample(
            time.monotonic(),
            float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        )


def describe(clocks: Clocks) -> str:
    """The clocks in words."""
    if "missing" in clocks:
        return f"clock and power unknown ({clocks['missing']})"
    slowed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in clocks["slowed"].items())
    clocks_text = f"SM {clocks['sm_mhz']:,.0f} MHz, {clocks['power_w']:.0f} W, {clocks['temperature_c']:.0f} °C"
    return f"{clocks_text}, {f'slowed by {slowed} of the time' if slowed else 'not slowed'}"
