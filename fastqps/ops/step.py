"""One packed batch as the models see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Step:
    """One step's tokens, item by item, without padding between them.

    A device that runs captured steps has tensors of a bucket's size, and ``counts`` says how much of them is the
    step's; what lies behind it is anything. Without ``counts`` their sizes are the step's.
    """

    ids: torch.Tensor  # int32 [tokens]
    # int32 [tokens]: position ids; a device with `counts` derives them from `starts`, unless the model has an opening
    positions: torch.Tensor
    types: torch.Tensor  # int32 [tokens]
    starts: torch.Tensor  # int32 [items + 1], from 0 to tokens
    counts: torch.Tensor | None = None  # int32 [16]: tokens, items, tokens of the longest item, …
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None  # the device's own: where each token's item begins and ends
    output: torch.Tensor | None = None  # float32 [items or tokens, width]: where the answer belongs
    stamps: torch.Tensor | None = None  # int64 [2]: for the device's clock at the step's first and last kernel


def address(tensor: torch.Tensor | None) -> int:
    """Where a contiguous tensor's numbers begin, or 0: what the C++ kernels take."""
    return 0 if tensor is None else tensor.data_ptr()
