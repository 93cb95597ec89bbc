"""The weights of a model: its process's own, or those that another process holds for all (--share-weights)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import TypeVar

import torch

from fastqps.devices.choice_file import made
from fastqps.devices.cuda.arena import check_allocator, check_layout, map_arena, write_arena
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.manifest import Manifest, await_manifest, publish
from fastqps.devices.place import Place
from fastqps.devices.shared_choice import shared_choice
from fastqps.models.card import ModelCard
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision, Timed

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


def chosen(
    precision: Precision, held: Manifest | None, card: ModelCard, backend: Backend, place: Place, dtype: torch.dtype
) -> AbstractContextManager[None]:
    """Within it the model is built: ``precision`` follows the process that holds the weights, or what is stored.

    A choice that was measured with torch's operations in the place of the kernels holds for these alone.
    """
    if held is None:
        device = f"{backend.name}, kernels torch" if place.kernels == "torch" else backend.name
        return shared_choice(precision, card, device, dtype)
    precision.recall(made(Timed, product) for product in held.products)
    return nullcontext()


def hold(
    card: ModelCard,
    backend: Backend,
    place: Place,
    dtype: torch.dtype,
    precision: Precision,
    build: Callable[[Parameters], M],
) -> None:
    """Writes the parameters of the model that ``build`` makes into memory that others can map, and publishes where.

    ``precision`` is what the model is built with: the others have to choose alike.
    """
    check_allocator()
    manifest = write_arena(backend.api, backend.device, build, _about(card, place, dtype))
    publish(place.weights_fd, replace(manifest, products=[asdict(timed) for timed in precision.timed]))


def _about(card: ModelCard, place: Place, dtype: torch.dtype) -> dict[str, str]:
    return {
        "model": f"{card.name}@{card.version}",
        "dtype": str(dtype).removeprefix("torch."),
        "quantization": place.quantization,
        "torch": torch.__version__,
    }
