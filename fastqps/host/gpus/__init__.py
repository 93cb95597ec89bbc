"""The GPUs that this process may use, NVIDIA's or AMD's: no torch, no context on a device.

``gpu`` says what is known of one, ``nvidia`` and ``amd`` find those of a vendor. Processes that we start get a UUID,
which means the same to everybody. A GPU that is cut into MIG instances stands for those of them that are visible.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fastqps.host.gpus.amd import find_amd
from fastqps.host.gpus.gpu import AMD, NVIDIA, Gpu, Gpus, Vendor
from fastqps.host.gpus.nvidia import find_nvidia

__all__ = ["AMD", "FAKES", "FAKE_LIBRARY", "NVIDIA", "VISIBLE", "Gpu", "Gpus", "Vendor", "find_gpus"]

VISIBLE = NVIDIA.visible
FAKE_LIBRARY = "FASTQPS_TEST_FAKE_CUDA"  # for tests: a libcudart whose GPUs are threads of the CPU
FAKES = 2


def find_gpus(
    environment: Mapping[str, str] = os.environ, sysfs: Path = Path("/sys"), dev: Path = Path("/dev")
) -> Gpus:
    """The GPUs of this machine: NVIDIA's, or AMD's if there are none of NVIDIA."""
    if environment.get(FAKE_LIBRARY):
        return Gpus(tuple(map(_fake, range(FAKES))))
    nvidia = find_nvidia(environment, sysfs)
    return nvidia if nvidia.visible else find_amd(environment, sysfs, dev) or nvidia


def _fake(index: int) -> Gpu:
    return Gpu(index, f"GPU-fake-{index}", "fake GPU", 1 << 33, f"0000:0{index}:00.0", (9, 0), ())
