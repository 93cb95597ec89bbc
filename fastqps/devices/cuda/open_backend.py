"""Chooses the backend of a GPU: torch's CUDA, or the CPU that stands for a GPU in tests."""

from __future__ import annotations

import os

from fastqps.devices.cuda.backend import Backend
from fastqps.devices.place import Place
from fastqps.host.gpus import FAKE_LIBRARY


def open_backend(place: Place) -> Backend:
    """The GPU that ``place`` names. ``DeviceError`` where it is not there."""
    index = int(place.device.partition(":")[2] or 0)
    if library := os.environ.get(FAKE_LIBRARY):
        from fastqps.devices.cuda.fake import FakeCuda

        return FakeCuda(library, index)
    from fastqps.devices.cuda.torch_cuda import TorchCuda

    return TorchCuda(index)
