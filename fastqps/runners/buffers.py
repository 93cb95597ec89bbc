"""The static memory between C++ and a runner: gather writes a packed step into it, the runner fills the output rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fastqps._core import EncodeLayout, EncodeStepper
from fastqps.models.card import ModelCard

_ALIGN = 64


_T = TypeVar("_T", bound=np.generic)


def aligned(count: int, dtype: type[_T]) -> NDArray[_T]:
    """A zeroed array whose first byte lies on a cache line."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + size].view(dtype)


@dataclass(frozen=True)
class StepBuffers:
    """Packed inputs and output rows of one step. Items lie one after the other, without padding.

    ============== ======= ===================== =================================================================
    array          type    shape                 meaning
    ============== ======= ===================== =================================================================
    input_ids      int32   [max_tokens]          token ids, special tokens included
    position_ids   int32   [max_tokens]          from ``card.position_offset`` up in each item; padding is not counted
    token_type_ids int32   [max_tokens]          0; ``card.second_segment_type`` in a pair's second text
    cu_seqlens     int32   [max_items + 1]       item i owns tokens cu_seqlens[i] up to cu_seqlens[i + 1]
    output         float32 [rows, width]         row i answers item i, or token i: raw vector or logits
    stamps         int64   [2]                   when the device started and ended the step, ns of CLOCK_MONOTONIC
    ============== ======= ===================== =================================================================

    There are ``max_tokens`` output rows if a row belongs to a token (``card.traits.by_token``), else ``max_items``.
    Every item has at least one token. What lies beyond the step's items and tokens is neither read nor written.
    """

    max_items: int
    max_tokens: int
    width: int
    by_token: bool  # an output row belongs to a token
    input_ids: NDArray[np.int32] = field(repr=False)
    position_ids: NDArray[np.int32] = field(repr=False)
    token_type_ids: NDArray[np.int32] = field(repr=False)
    cu_seqlens: NDArray[np.int32] = field(repr=False)
    output: NDArray[np.float32] = field(repr=False)
    stamps: NDArray[np.int64] = field(repr=False)

    @classmethod
    def allocate(cls, card: ModelCard, max_items: int, max_tokens: int) -> StepBuffers:
        """Zeroed buffers for steps of the model, on cache-line boundaries; their addresses never change."""
        at = EncodeLayout(max_tokens, max_items, card.dimensions, rows_by_token=card.traits.by_token)
        staging, output = aligned(at.words, np.int32), aligned(at.out_words, np.int32)
        return cls.over(card, staging, output, aligned(2, np.int64), max_items, max_tokens)

    @classmethod
    def over(
        cls,
        card: ModelCard,
        staging: NDArray[np.int32],
        output: NDArray[np.int32],
        stamps: NDArray[np.int64],
        max_items: int,
        max_tokens: int,
    ) -> StepBuffers:
        """The sections of a device's blocks, as csrc/step/encode/encode_layout.h has them."""
        width = card.dimensions
        at = EncodeLayout(max_tokens, max_items, width, rows_by_token=card.traits.by_token)
        return cls(
            max_items=max_items,
            max_tokens=max_tokens,
            width=width,
            by_token=card.traits.by_token,
            input_ids=staging[at.input_ids :][:max_tokens],
            position_ids=staging[at.position_ids :][:max_tokens],
            token_type_ids=staging[at.token_type_ids :][:max_tokens],
            cu_seqlens=staging[at.cu_seqlens :][: max_items + 1],
            output=output[: at.out_words].view(np.float32).reshape(-1, width),
            stamps=stamps,
        )

    def rows(self, n_items: int, n_tokens: int) -> NDArray[np.float32]:
        """The output rows of a step."""
        return self.output[: n_tokens if self.by_token else n_items]

    def add_to(self, stepper: EncodeStepper, lane: int) -> int:
        """Gives the stepper these buffers for a step of ``lane``; returns the step's number."""
        sizes = {"max_items": self.max_items, "max_tokens": self.max_tokens, "width": self.width}
        return stepper.add(lane=lane, **sizes, **self.addresses())

    def addresses(self) -> dict[str, int]:
        """The address of each array's first byte, by the array's name."""
        names = ("input_ids", "position_ids", "token_type_ids", "cu_seqlens", "output", "stamps")
        return {name: getattr(self, name).ctypes.data for name in names}
