"""Refuses weights of a layer for which the configuration's model has no place."""

from __future__ import annotations

from fastqps.architectures.weights import Weights
from fastqps.models.card import ModelError


def check_unread(weights: Weights, at: str, layers: int, *, more_layers: bool = True) -> None:
    """``ModelError`` where a layer holds a weight or bias that nobody has asked for: its model would be another one.

    Tensors of zeros change nothing. ``at``: what stands before a layer's number in names. ``more_layers``: whether
    there may be layers behind the first ``layers``; transformers leaves them out.
    """
    for name, tensor in weights.unread().items():
        number = name.removeprefix(at).partition(".")[0]
        if not name.startswith(at) or not number.isdecimal():
            continue
        if int(number) >= layers:
            if more_layers:
                continue
            raise ModelError(
                f"{weights.where}: the checkpoint has a tensor {name!r}, but config.json says num_hidden_layers "
                f"{layers}"
            )
        if name.endswith((".weight", ".bias")) and not tensor.is_meta and tensor.any():
            raise ModelError(
                f"{weights.where}: the checkpoint has a tensor {name!r}, for which config.json's model has no place"
            )
