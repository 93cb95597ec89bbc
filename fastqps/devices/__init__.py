"""Devices by name. Each is a module with ``make_runner``; it is imported only when it is chosen."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from fastqps.devices.errors import DeviceError
from fastqps.models.card import ModelCard
from fastqps.runners import Runner

__all__ = ["DEVICES", "DeviceError", "make_runner"]

DEVICES = ("cpu", "null")


def make_runner(
    device: str, card: ModelCard, max_items: int, max_tokens: int, *, dtype: str = "auto", threads: int = 0
) -> Runner:
    """Loads ``card``'s model onto ``device`` and returns its runner.

    ``threads`` is the number of CPU threads the runner may use (0: leave torch's setting alone). ``dtype`` is ``auto``,
    ``float32`` or ``bfloat16``. Raises ``DeviceError`` for an unknown device, ``ModelError`` for a model that does not
    load.
    """
    if device not in DEVICES:
        raise DeviceError(f"no device {device!r}; this build has: {', '.join(DEVICES)}")
    module = importlib.import_module(f"fastqps.devices.{device}")
    make = cast(Callable[[ModelCard, int, int, str, int], Runner], module.make_runner)
    return make(card, max_items, max_tokens, dtype, threads)
