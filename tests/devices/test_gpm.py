"""GPU utilisation by GPM, with an NVML that is not there, is old, fails, or answers."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fastqps.bench.measure import server_side
from fastqps.bench.results.point import Point
from fastqps.host.gpus import Gpu, Gpus
from fastqps.telemetry.metrics.gpm import Gpm, GpuUse


class FakeError(Exception):
    """As pynvml.NVMLError."""


class FakeNvml(ModuleType):
    """GPUs by index: whether each has GPM. Each look is 1 later than the one before."""

    NVMLError = FakeError
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = 2, 3
    NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 5, 10

    def __init__(self, *supported: bool) -> None:
        super().__init__("pynvml")
        self.supported = supported
        self.fails: set[str] = set()
        self.samples: set[int] = set()
        self.taken, self.open = 0, 0

    def _call(self, name: str) -> None:
        if name in self.fails:
            raise FakeError(name)

    def nvmlInit(self) -> None:
        self._call("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._call("nvmlDeviceGetCount")
        return len(self.supported)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu {index}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        self._call("nvmlDeviceGetName")
        return f"NVIDIA {handle}"

    def nvmlGpmQueryDeviceSupport(self, handle: str) -> Any:
        self._call("nvmlGpmQueryDeviceSupport")
        return SimpleNamespace(isSupportedDevice=int(self.supported[int(handle[-1])]))

    def nvmlGpmSampleAlloc(self) -> Any:
        self._call("nvmlGpmSampleAlloc")
        self.taken += 1
        self.samples.add(self.taken)
        return SimpleNamespace(number=self.taken, of=None)

    def nvmlGpmSampleGet(self, handle: str, sample: Any) -> None:
        self._call("nvmlGpmSampleGet")
        sample.of = handle

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self.samples.remove(sample.number)

    def c_nvmlGpmMetricsGet_t(self) -> Any:
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(98)])

    def nvmlGpmMetricsGet(self, asked: Any) -> None:
        self._call("nvmlGpmMetricsGet")
        assert asked.version == 1 and asked.sample1.of == asked.sample2.of
        assert asked.sample1.number < asked.sample2.number
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = 10.0 * metric.metricId
            metric.nvmlReturn = 3 if metric.metricId == self.NVML_GPM_METRIC_ANY_TENSOR_UTIL else 0


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(True, False, True)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_each_gpu_that_has_it(nvml: FakeNvml) -> None:
    gpm = Gpm.open()
    assert gpm
    first, last = gpm.look(), gpm.look()
    assert gpm.between(first, last) == [
        GpuUse(index=index, name=f"NVIDIA gpu {index}", sm=0.2, occupancy=0.3, tensor=None, memory=1.0)
        for index in (0, 2)
    ]
    first.release(), last.release()
    gpm.close()
    assert not nvml.samples and nvml.open == 0


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gpm.open() is None


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlGpmQueryDeviceSupport"])
def test_no_driver_or_no_such_gpu(nvml: FakeNvml, call: str) -> None:
    nvml.fails = {call}
    assert Gpm.open() is None and nvml.open == 0
    nvml.fails, nvml.supported = set(), (False, False)
    assert Gpm.open() is None and nvml.open == 0


def test_a_package_from_before(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml) -> None:
    monkeypatch.delattr(FakeNvml, "nvmlGpmQueryDeviceSupport")
    assert Gpm.open() is None and nvml.open == 0


@pytest.mark.parametrize("call", ["nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlDeviceGetName"])
def test_what_fails_in_between_is_not_told(nvml: FakeNvml, call: str) -> None:
    gpm = Gpm.open()
    assert gpm
    first = gpm.look()
    nvml.fails = {call}
    last = gpm.look()
    assert gpm.between(first, last) == []
    first.release(), last.release()
    assert not nvml.samples


def test_a_measured_point_has_its_gpus(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are visible, by their numbers among these: with CUDA_VISIBLE_DEVICES=2,1 the first is NVML's third."""
    visible = tuple(Gpu(i, f"GPU-{n}", "", 0, "", (9, 0), (), number=n) for i, n in enumerate((2, 1)))
    monkeypatch.setattr(server_side, "find_gpus", lambda: Gpus(visible))
    nvml.supported = (True, True, True)
    gpm, point = Gpm.open(), Point("p", devices=[{"device": "cuda:0", "duty_cycle": 0.9, "sm_utilization": None}])
    assert gpm
    looks = [server_side.look("", None, gpm) for _ in range(2)]
    server_side.describe_gpus(point, gpm, *looks)
    assert point.devices and [(d["device"], d["duty_cycle"], d["gpu"]) for d in point.devices] == [
        ("cuda:0", 0.9, "NVIDIA gpu 2"),
        ("cuda:1", None, "NVIDIA gpu 1"),
    ]
    assert not nvml.samples
    without = Point("p")
    server_side.describe_gpus(without, gpm, *[server_side.look("", None)] * 2)
    assert without.devices is None
