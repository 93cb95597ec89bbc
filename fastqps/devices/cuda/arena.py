"""A model's parameters in one block of a GPU's memory, which one process writes and all others map: CUDA IPC.

The block is memory of its own, not a part of torch's: what is exported is nothing but parameters. Its owner has to
outlive who maps it, and nobody ever writes it again.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fastqps._core import CudaApi, CudaError
from fastqps.devices.cuda.manifest import Manifest
from fastqps.devices.errors import DeviceError
from fastqps.errors import ConfigError, ModelError
from fastqps.ops.parameters import Parameters, SharedParameters

Build = Callable[[Parameters], Any]  # makes the model of its parameters

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_OUT_OF_MEMORY = 2


def check_allocator() -> None:
    """Raises ``ConfigError`` if torch is set to expandable segments, which cannot be shared in all containers."""
    for name in _ALLOCATOR:
        options = dict(option.partition(":")[::2] for option in os.environ.get(name, "").replace(" ", "").split(","))
        if options.get("expandable_segments", "False").lower() in ("true", "1"):
            raise ConfigError(f"--share-weights: {name} asks for expandable_segments; the two do not go together")


def write_arena(api: CudaApi, device: torch.device, build: Build, about: dict[str, str]) -> Manifest:
    """Builds a model twice, for its size and into a block of that size; returns what others need to map it.

    The block stays until the process ends. ``ModelError`` where the memory is too small.
    """
    measured = SharedParameters.measuring()
    build(measured)
    size = max(1, measured.used_bytes)
    try:
        pointer = api.malloc(size)
    except CudaError as error:
        if error.code != _OUT_OF_MEMORY:
            raise
        raise ModelError(f"its weights take {size / (1 << 30):.1f} GiB, and the GPU has less free") from None
    parameters = SharedParameters(block_at(pointer, size, device), write=True)
    build(parameters)
    if (parameters.used_bytes, parameters.layout) != (measured.used_bytes, measured.layout):
        raise DeviceError("--share-weights: the model came out otherwise than it was measured; this is a bug")
    api.synchronize()
    return Manifest(api.ipc_export(pointer).hex(), size, parameters.layout, about)


def map_arena(api: CudaApi, device: torch.device, manifest: Manifest) -> SharedParameters:
    """The parameters that another process holds, for a model to be built over; ``check_layout`` when it is."""
    pointer = api.ipc_open(bytes.fromhex(manifest.handle))
    return SharedParameters(block_at(pointer, manifest.size_bytes, device), write=False)


def check_layout(parameters: SharedParameters, manifest: Manifest) -> None:
    """``DeviceError`` where the model that was built has not the parameters that are held."""
    if parameters.layout != manifest.layout:
        raise DeviceError(
            f"--share-weights: the parameters that are held (layout {manifest.layout}) are not those of this model "
            f"({parameters.layout})"
        )


def block_at(pointer: int, size_bytes: int, device: torch.device) -> torch.Tensor:
    """A tensor, uint8 [size_bytes], over memory of another owner, which must live as long as the process."""
    if device.type == "cpu":  # of a fake device
        return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(pointer)))
    return torch.as_tensor(_CudaArray(pointer, size_bytes), device=device)


class _CudaArray:
    """Device memory, described to torch."""

    def __init__(self, pointer: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }
