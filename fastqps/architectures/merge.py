"""Merges an adapter into the tensors of a model, in float32, before anything is converted or quantised."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.architectures.tensor_files import load_tensors
from fastqps.models.adapters import ADAPTER_WEIGHTS, Adapter, Update
from fastqps.models.card import ModelError

Tensors = dict[str, torch.Tensor]


def merge(adapter: Adapter, tensors: Tensors, plain: Callable[[str], str], data: bool) -> frozenset[str]:
    """Changes ``tensors``, by the names that ``plain`` makes of transformers' names. Returns the names that it adds.

    Without ``data`` only shapes are checked, and new tensors are on ``meta``. Raises ``ModelError`` where the
    adapter is for another model.
    """
    found = load_tensors(adapter.root / ADAPTER_WEIGHTS, data)
    added = frozenset(map(plain, adapter.replaced)) - tensors.keys()
    for name, tensor in adapter.replaced.items():
        tensors[plain(name)] = found[tensor.name]
    for name, update in adapter.updates.items():
        at = plain(name)
        base = tensors.get(at)
        _check(adapter, name, update, base)
        if data and base is not None:
            change = found[update.up.name].float() @ found[update.down.name].float() * update.scale
            tensors[at] = base.float() + (change.T if update.table else change)
    return added


def _check(adapter: Adapter, name: str, update: Update, base: torch.Tensor | None) -> None:
    if base is None:
        raise ModelError(f"{adapter.root}: the adapter changes {name}, and its base has no such tensor")
    if base.dtype.itemsize == 1:
        raise ModelError(f"{adapter.root}: the base's {name} is quantised; adapters are merged into floats alone")
    if tuple(base.shape) != update.shape:
        raise ModelError(
            f"{adapter.root}: the adapter changes {name} of shape {list(update.shape)}, and its base has "
            f"{list(base.shape)}"
        )
