"""Devices by name. Each is a module with a table ``RUNNERS`` by kind of steps, imported when it is chosen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Unpack

from fastqps.devices.cuda_choice import choose_device
from fastqps.devices.errors import DeviceError, DeviceFault
from fastqps.devices.names import DEVICES, Device, check_weights, kind_of, list_devices, one_device
from fastqps.devices.place import Options, Place
from fastqps.models.card import ModelCard
from fastqps.process.startup import STARTUP
from fastqps.runners import Runner
from fastqps.runners.kinds import step_kind

__all__ = [
    "DEVICES",
    "Device",
    "DeviceError",
    "DeviceFault",
    "Options",
    "Place",
    "choose_device",
    "hold_weights",
    "kind_of",
    "list_devices",
    "make_runner",
    "one_device",
]

MakeRunner = Callable[[ModelCard, int, int, Place], Runner[Any]]


def make_runner(
    device: str, card: ModelCard, max_items: int, max_tokens: int, **options: Unpack[Options]
) -> Runner[Any]:
    """Loads ``card``'s model onto ``device`` and returns its runner, for steps of so many items and tokens.

    A decoder's items are the sequences that can run. ``options`` are fields of ``Place``. Raises ``DeviceError`` for an
    unknown device, ``ModelError`` for a model that does not load.
    """
    check_weights(device, card)
    make: MakeRunner = _module(device).RUNNERS[step_kind(card)]
    return make(card, max_items, max_tokens, Place(device, **options))


def hold_weights(device: str, card: ModelCard, **options: Unpack[Options]) -> None:
    """Loads ``card``'s weights alone, publishes them in ``weights_fd``, and keeps them until this process ends.

    For GPUs. Raises as ``make_runner``.
    """
    _module(device).hold_weights(card, Place(device, **options))


def _module(device: str) -> ModuleType:
    if device == "remote":
        raise DeviceError("device remote: only a server sends to others; take fastqps serve, or --address of a server")
    if kind_of(device) not in DEVICES:
        raise DeviceError(f"no device {device!r}; this build has: {', '.join(DEVICES)}")
    with STARTUP.stage("imports"):
        return importlib.import_module(f"fastqps.devices.{kind_of(device)}")
