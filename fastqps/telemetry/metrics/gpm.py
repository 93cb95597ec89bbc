"""How much of each GPU's compute units was in use between two looks: NVML's GPU performance monitoring (GPM).

A busy device need not be a full one: with a step always running the duty cycle is 100 %, whatever the step leaves
unused. GPM counts in hardware, for the whole GPU, at no cost to it; GPUs have it since Hopper. Two looks should be more
than 100 ms apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_METRICS = {  # field of GpuUse → NVML's name of its metric
    "sm": "NVML_GPM_METRIC_SM_UTIL",
    "occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "memory": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


@dataclass(frozen=True)
class GpuUse:
    """How busy one GPU was, by its index in nvidia-smi: shares of 1, means over time and GPU. None: not reported.

    ``sm``: multiprocessors with work; ``occupancy``: of their places for warps; ``tensor``: tensor cores at work;
    ``memory``: of the memory's bandwidth.
    """

    index: int
    name: str
    sm: float | None
    occupancy: float | None
    tensor: float | None
    memory: float | None


class GpmLook:
    """A sample of each GPU's NVML counters at one moment. Call ``release`` after the comparison."""

    def __init__(self, nvml: Any, samples: dict[int, Any]) -> None:
        self._nvml = nvml
        self.samples = samples

    def release(self) -> None:
        """Frees the samples."""
        while self.samples:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(self.samples.popitem()[1])


class Gpm:
    """The GPUs of this machine that have it."""

    def __init__(self, nvml: Any, gpus: dict[int, Any]) -> None:
        self._nvml = nvml
        self._gpus = gpus  # index → handle

    @classmethod
    def open(cls) -> Gpm | None:
        """None: no driver, no GPU that has it, or any error on the way to it."""
        try:
            nvml = import_module("pynvml")
            nvml.nvmlInit()
        except Exception:  # ImportError, NVMLError, and whatever another package of this name does
            return None
        try:
            gpus = dict(_supported(nvml))
        except (nvml.NVMLError, AttributeError):  # AttributeError: a package from before GPM
            gpus = {}
        if not gpus:
            nvml.nvmlShutdown()
            return None
        return cls(nvml, gpus)

    def close(self) -> None:
        """Shuts NVML down."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def look(self) -> GpmLook:
        """Samples the GPUs that answer."""
        sample = GpmLook(self._nvml, {})
        for index, handle in self._gpus.items():
            with contextlib.suppress(self._nvml.NVMLError):
                sample.samples[index] = self._sample(handle)
        return sample

    def between(self, first: GpmLook, last: GpmLook) -> list[GpuUse]:
        """The use of each GPU that is in both samples."""
        uses = []
        for index in sorted(first.samples.keys() & last.samples.keys()):
            with contextlib.suppress(self._nvml.NVMLError):
                uses.append(self._use(index, first.samples[index], last.samples[index]))
        return uses

    def _sample(self, handle: Any) -> Any:
        sample = self._nvml.nvmlGpmSampleAlloc()
        try:
            self._nvml.nvmlGpmSampleGet(handle, sample)
        except self._nvml.NVMLError:
            self._nvml.nvmlGpmSampleFree(sample)
            raise
        return sample

    def _use(self, index: int, first: Any, last: Any) -> GpuUse:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = first, last
        for at, name in enumerate(_METRICS.values()):
            asked.metrics[at].metricId = getattr(nvml, name)
        nvml.nvmlGpmMetricsGet(asked)
        measured = [asked.metrics[at] for at in range(len(_METRICS))]
        shares = {
            field: metric.value / 100 if metric.nvmlReturn == 0 else None
            for field, metric in zip(_METRICS, measured, strict=True)
        }
        name = nvml.nvmlDeviceGetName(self._gpus[index])
        return GpuUse(index=index, name=name.decode() if isinstance(name, bytes) else name, **shares)


def _supported(nvml: Any) -> Iterator[tuple[int, Any]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        with contextlib.suppress(nvml.NVMLError):  # one that is too old does not hide the others
            if nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                yield index, handle
