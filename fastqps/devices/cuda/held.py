"""The weights of a model: its process's own, or those that another process holds for all (--share-weights)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from fastqps.devices.cuda.arena import check_allocator, check_layout, map_arena, write_arena
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.manifest import Manifest, await_manifest, publish
from fastqps.devices.place import Place
from fastqps.models.card import ModelCard
from fastqps.ops.parameters import Parameters

M = TypeVar("M")


def await_held(card: ModelCard, place: Place, dtype: torch.dtype) -> Manifest | None:
    """Waits for the weights that another process holds, as ``place`` says; None: no process holds them.

    ``DeviceError`` where that takes too long or is something else, ``ConfigError`` where it cannot be mapped.
    """
    if place.weights_fd < 0:
        return None
    check_allocator()
    manifest = await_manifest(place.weights_fd)
    manifest.check(_about(card, place, dtype))
    return manifest


def build_over(backend: Backend, held: Manifest | None, build: Callable[[Parameters], M]) -> M:
    """Builds the model over held weights, or over its own memory."""
    if held is None:
        return build(Parameters(backend.device))
    parameters = map_arena(backend.api, backend.device, held)
    model = build(parameters)
    check_layout(parameters, held)
    return model


def hold(card: ModelCard, backend: Backend, place: Place, dtype: torch.dtype, build: Callable[[Parameters], M]) -> None:
    """Writes the parameters of the model that ``build`` makes into memory that others can map, and publishes where."""
    check_allocator()
    publish(place.weights_fd, write_arena(backend.api, backend.device, build, _about(card, place, dtype)))


def _about(card: ModelCard, place: Place, dtype: torch.dtype) -> dict[str, str]:
    return {
        "model": f"{card.name}@{card.version}",
        "dtype": str(dtype).removeprefix("torch."),
        "quantization": place.quantization,
        "torch": torch.__version__,
    }
