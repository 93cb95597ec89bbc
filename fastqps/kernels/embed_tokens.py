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
    stamps,
    WIDTH: tl.constexpr,
    RECORD: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    if stamps is not None and row == 0:
        stamp_start(stamps)
    if admitted is not None and row < tl.load(counts + 2):  # nothing reads them before this step is sampled
        word = tl.arange(0, RECORD)
        slot = tl.load(admitted + row * RECORD).to(tl.int64)
        tl.store(records + slot * RECORD + word, tl.load(admitted + row * RECORD + word))
    if row < tl.load(counts):
        id, slot = tl.load(ids + row), tl.load(kv_slots + row)
        if id < 0:
            id = tl.load(last_token + slot)
        if history is not None:  # nothing reads it before this step's logits are changed
            tl.store(history + slot.to(tl.int64) * POSITIONS + tl.load(positions + row), id)
        column = tl.arange(0, BLOCK)
        x = tl.load(table + id.to(tl.int64) * WIDTH + column, mask=column < WIDTH)
        tl.store(out + row.to(tl.int64) * WIDTH + column, x, mask=column < WIDTH)


def embed_tokens(
    table: torch.Tensor,
    ids: torch.Tensor,
    kv_slots: torch.Tensor,
    last_token: torch.Tensor,
    counts: torch.Tensor,
    *,
    admitted: torch.Tensor | None = None,
    params: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    history: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """The row of ``table`` [vocabulary, width] for each of ``ids`` [T], for -1 that of the slot's newest token.

    kv_slots int32 [T]; last_token int32 by slot; counts int32 [≥ 3]: rows, runs, new sequences. With ``admitted`` int32
    [S, 32] the records of new sequences go to their slots in ``params`` int32 [slots, 32]; with ``history`` int32
    [slots, positions] the rows' tokens go to their ``positions`` int32 [T] in it; with ``stamps`` int64 [2] the
    device's clock goes to the first and 0 to the second. → [T, width]; what lies beyond ``counts`` is not written.
    """
    width = table.shape[1]
    out = table.new_empty(ids.shape[0], width)
    shape = row_shape(width)
    programs = max(ids.shape[0], 0 if admitted is None else admitted.shape[0])
    _embed_tokens[(programs,)](
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
        stamped(stamps),
        WIDTH=width,
        RECORD=ADMITTED_WORDS,
        POSITIONS=0 if history is None else history.shape[1],
        BLOCK=shape.block,
        num_warps=shape.warps,
    )
    return out
