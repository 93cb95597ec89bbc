"""Devices by name. Each kind is a module with ``make_runner`` and ``make_decoder``, imported when it is chosen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import cast

from fastqps._core import Segment
from fastqps.devices.cuda_choice import choose_device
from fastqps.devices.errors import DeviceError, DeviceFault
from fastqps.devices.names import DEVICES, Device, kind_of, list_devices, one_device
from fastqps.devices.place import Place
from fastqps.models.card import ModelCard
from fastqps.runners import DecodeRunner, Runner

__all__ = [
    "DEVICES",
    "Device",
    "DeviceError",
    "DeviceFault",
    "Place",
    "choose_device",
    "hold_weights",
    "kind_of",
    "list_devices",
    "make_decoder",
    "make_runner",
    "one_device",
]


def make_runner(
    device: str,
    card: ModelCard,
    max_items: int,
    max_tokens: int,
    *,
    dtype: str = "auto",
    quantization: str = "none",
    threads: int = 0,
    segment: Segment | None = None,
    index: int = 0,
    weights_fd: int = -1,
    kernels: str = "auto",
    kernels_fd: int = -1,
) -> Runner:
    """Loads ``card``'s model onto ``device`` and returns its runner.

    ``threads`` is the number of CPU threads the runner may use (0: leave torch's setting alone). ``dtype`` is ``auto``,
    ``float32`` or ``bfloat16``, ``quantization`` is ``none``, ``fp8`` or ``auto``. In a server, ``segment`` is where
    all dispatchers of the device meet, and ``index`` the device's place there; ``weights_fd`` is where a process that
    called ``hold_weights`` tells of them, ``kernels_fd`` the file in which dispatchers share what they know of kernels.
    ``kernels`` is ``auto``, ``own`` or ``torch``, and of GPUs alone. Raises ``DeviceError`` for an unknown device,
    ``ModelError`` for a model that does not load.
    """
    make = cast(Callable[[ModelCard, int, int, Place], Runner], _module(device).make_runner)
    place = Place(device, dtype, quantization, threads, segment, index, weights_fd, kernels, kernels_fd)
    return make(card, max_items, max_tokens, place)


def make_decoder(
    device: str,
    card: ModelCard,
    slots: int,
    max_tokens: int,
    *,
    dtype: str = "auto",
    quantization: str = "none",
    threads: int = 0,
    segment: Segment | None = None,
    index: int = 0,
    weights_fd: int = -1,
    kernels: str = "auto",
    kernels_fd: int = -1,
) -> DecodeRunner:
    """Loads a generator onto ``device``: up to ``slots`` sequences run, a step has up to ``max_tokens`` rows.

    The rest as ``make_runner``.
    """
    make = cast(Callable[[ModelCard, int, int, Place], DecodeRunner], _module(device).make_decoder)
    place = Place(device, dtype, quantization, threads, segment, index, weights_fd, kernels, kernels_fd)
    return make(card, slots, max_tokens, place)


def hold_weights(
    device: str, card: ModelCard, slots: int, max_tokens: int, *, dtype: str, quantization: str, weights_fd: int
) -> None:
    """Loads ``card``'s weights alone, publishes them in ``weights_fd``, and keeps them until this process ends.

    ``slots`` and ``max_tokens`` as the dispatchers have them; ``slots`` is 0 for an encoder. Raises as ``make_runner``.
    For GPUs.
    """
    _module(device).hold_weights(card, slots, max_tokens, Place(device, dtype, quantization, weights_fd=weights_fd))


def _module(device: str) -> ModuleType:
    if kind_of(device) not in DEVICES:
        raise DeviceError(f"no device {device!r}; this build has: {', '.join(DEVICES)}")
    return importlib.import_module(f"fastqps.devices.{kind_of(device)}")
