"""The GPU's clock and power beside each rate, by an NVML that is not there, answers, or stops answering."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_cuda
import pytest
from serving import until

from bench.gpu.sampler import GpuSampler, describe
from bench.gpu.servers.modelled import ModelledServer
from bench.gpu.servers.observations import bound_by, brief
from bench.gpu.steps.decoder import payloads, settings_of

pytestmark = pytest.mark.compute


class FakeError(Exception):
    """As pynvml.NVMLError."""


class FakeNvml(ModuleType):
    """One GPU. Its clock falls with every sample, until it has fallen to 0 and the GPU is lost."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, mhz: int) -> None:
        super().__init__("pynvml")
        self.mhz, self.open, self.asked = mhz, 0, ""

        self.nvmlDeviceGetPowerUsage = lambda handle: 612_345
        self.nvmlDeviceGetTemperature = lambda handle, kind: 51
        # The power cap every other time; an idle GPU is no reason.
        self.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x4 | 0x1 if self.mhz % 2 else 0x1

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked = uuid
        return "gpu 0"

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        if not self.mhz:
            raise FakeError("GPU is lost")
        self.mhz -= 1
        return 1000 + self.mhz


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(4)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    return fake


def test_medians_of_the_samples_in_a_time(nvml: FakeNvml) -> None:
    began_s = time.monotonic()
    with GpuSampler() as gpu:
        assert gpu.missing == "" and nvml.open == 1 and nvml.asked == "GPU-fake-0"
        until(lambda: gpu.missing != "", "it ends when the GPU is lost")
        found = gpu.between(began_s, time.monotonic())
    assert nvml.open == 0
    assert found == {
        "sm_mhz": 1001.5, "power_w": pytest.approx(612.345), "temperature_c": 51, "samples": 4,
        "slowed": {"power cap": 0.5},
    }  # fmt: skip
    assert describe(found) == "SM 1,002 MHz, 612 W, 51 °C, slowed by power cap 50 % of the time"
    assert describe(found | {"slowed": {}}).endswith("51 °C, not slowed")
    assert gpu.between(0, began_s) == {"missing": "NVML, later: GPU is lost"}


@pytest.mark.parametrize("module", [None, ModuleType("pynvml")])
def test_without_nvml_it_says_so(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
    """Not installed, or another package of this name."""
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with GpuSampler() as gpu:
        assert gpu.missing.startswith("NVML: ")
        assert describe(gpu.between(0, time.monotonic())) == f"clock and power unknown ({gpu.missing})"


def test_each_rate_has_them(dry: Any, nvml: FakeNvml, tmp_path: Path) -> None:
    """In the point and its note."""
    nvml.mhz = 1 << 20
    run = dry("decoder:llama-1b")
    base = settings_of(run, "llama-1b") | {"device": "cpu"}
    with GpuSampler() as run.gpu, ModelledServer(run, base, payloads(run, "llama-1b", str(tmp_path))) as served:
        formula, served._warm_s = served._measure, 0.0

        def measure(*words: Any) -> Any:
            seen = len(run.gpu._samples)
            until(lambda: len(run.gpu._samples) > seen + 2, "samples of this point")
            return formula(*words)

        served._measure = measure
        point = served.measure({}, 4)
        assert brief(point)["devices"][0]["clocks"]["power_w"] == pytest.approx(612.345)
        assert "MHz, 612 W, 51 °C" in bound_by(point)
