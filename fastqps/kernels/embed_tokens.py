"""The first kernel of a decoder's step: keeps new sequences' parameters and all tokens, looks up embeddings."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps._core import ADMITTED_WORDS
from fastqps.kernels.shapes import row_shape
from fastqps.kernels.stamps import stamp_start, stamped


@triton.jit
def _embed_tokens(
    out,
    table,
    ids,
    kv_slots,
    last_token,
    counts,
    admitted,
    records,
    positions,
    history,
    places,
    scale,
    stamps,
    WIDTH: tl.constexpr,
    RECORD: tl.constexpr,
    POSITIONS: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    if stamps is not None and row == 0:
        stamp_start(stamps)
    if row < tl.load(counts + 2):  # nothing reads them before this step is sampled
        word = tl.arange(0, RECORD)
        slot = tl.load(admitted + row * RECORD).to(tl.int64)
        tl.store(records + slot * RECORD + word, tl.load(admitted + row * RECORD + word))
    if row < tl.load(counts):
        id, slot = tl.load(ids + row), tl.load(kv_slots + row)
        if id < 0:
            id = tl.load(last_token + slot)
        # Nothing reads it before this step's logits are changed.
        position = tl.load(positions + row)
        tl.store(history + slot.to(tl.int64) * POSITIONS + position, id)
        column = tl.arange(0, BLOCK)
        x = tl.load(table + id.to(tl.int64) * WIDTH + column, mask=column < WIDTH)
        if SCALED:
            x = x.to(tl.float32) * scale
        if places is not None:
            x = x.to(tl.float32) + tl.load(places + position.to(tl.int64) * WIDTH + column, mask=column < WIDTH)
        x = x.to(out.dtype.element_ty)
        tl.store(out + row.to(tl.int64) * WIDTH + column, x, mask=column < WIDTH)


def embed_tokens(
    table: torch.Tensor,
    ids: torch.Tensor,
    kv_slots: torch.Tensor,
    last_token: torch.Tensor,
    counts: torch.Tensor,
    *,
    admitted: torch.Tensor,
    params: torch.Tensor,
    positions: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor | None = None,
    scale: float = 1.0,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """The row of ``table`` [vocabulary, width] for each of ``ids`` [T], for -1 that of the slot's newest token, times
    ``scale``; plus the row of its position in ``places`` [positions, width], of the same type.

    kv_slots int32 [T]; last_token int32 by slot; counts int32 [≥ 3]: rows, runs, new sequences. The records of new
    sequences, ``admitted`` int32 [S, words], go to their slots in ``params`` int32 [slots, words]; the rows' tokens go
    to their ``positions`` int32 [T] in ``history`` int32 [slots, positions]; with ``stamps`` int64 [2] the device's
    clock goes to the first and 0 to the second. → [T, width]; what lies beyond ``counts`` is not written.
    """
    width = table.shape[1]
    out = table.new_empty(ids.shape[0], width)
    shape = row_shape(width)
    _embed_tokens[(max(ids.shape[0], admitted.shape[0]),)](
        out,
        table,
        ids,
        kv_slots,
        last_token,
        counts,
        admitted,
        params,
        positions,
        history,
        places,
        scale,
        stamped(stamps),
        WIDTH=width,
        RECORD=ADMITTED_WORDS,
        POSITIONS=history.shape[1],
        SCALED=scale != 1.0,
        BLOCK=shape.block,
        num_warps=shape.warps,
    )
    return out
