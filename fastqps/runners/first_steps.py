"""The steps that a runner makes before the first request: those that warm it up, and those that are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fastqps._core import PARAM_FLAGS, PARAM_LOGPROBS, PARAM_SLOT
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.runners.buffers import StepBuffers
from fastqps.runners.decode_buffers import DecodeBuffers

Run = Callable[[int, int, int], None]
Size = tuple[int, int, int]  # the three numbers of a step that its runner's ``run`` takes
USUAL_TOKENS = 32  # of an item or prompt of a full step
_NOT_FINITE = "first answer is not finite: its weights hold NaN or infinity"


def usual_tokens(card: ModelCard) -> int:
    """The tokens of an item in the steps that are measured."""
    return min(USUAL_TOKENS, card.max_input_tokens - len(card.opening_ids))


def first_steps(card: ModelCard, b: StepBuffers, run: Run) -> None:
    """``run`` of an encoder's step of one short item, and of a full one.

    ``ModelError`` where the answers are no numbers: then every client's would be none.
    """
    longest = min(card.max_input_tokens - len(card.opening_ids), b.max_tokens)
    full = min(b.max_items, max(1, b.max_tokens // USUAL_TOKENS))
    for n_items, length in ((1, min(2, longest)), (full, min(USUAL_TOKENS, longest))):
        run(*fill_items(card, b, n_items, length))
        if not np.isfinite(b.rows(n_items, n_items * length)).all():
            raise ModelError(f"model {card.name}: its {_NOT_FINITE}")


def fill_items(card: ModelCard, b: StepBuffers, n_items: int, length: int) -> Size:
    """Packs a step of items with ``length`` tokens each, behind the model's opening."""
    n_tokens = n_items * length
    b.input_ids[:n_tokens] = 0
    b.token_type_ids[:n_tokens] = 0
    b.position_ids[:n_tokens] = card.position_offset + len(card.opening_ids) + np.arange(n_tokens) % length
    b.cu_seqlens[: n_items + 1] = np.arange(n_items + 1) * length
    return n_items, n_tokens, n_items


def first_rows(card: ModelCard, b: DecodeBuffers, prefix_len: int, run: Run) -> None:
    """``run`` of a decoder's step of one row, and of a full one. Nothing may run yet: they use its cache slots.

    ``ModelError`` where the model gives no numbers: then every client's tokens would mean nothing.
    """
    for length in (1, min(b.max_tokens, card.max_input_tokens, USUAL_TOKENS)):
        runs = 1 if length == 1 else min(b.max_runs, b.max_tokens // length)
        size = fill_rows(b, prefix_len, [length] * runs)
        b.admitted[:runs, PARAM_FLAGS] = PARAM_LOGPROBS  # they show a model that gives no numbers
        run(*size)
        if not np.isfinite(b.logprobs[:runs]).all():
            raise ModelError(f"model {card.name}: its {_NOT_FINITE}")


def fill_rows(
    b: DecodeBuffers, prefix_len: int, lengths: Sequence[int], places: Sequence[int] = (), first_slot: int = 0
) -> Size:
    """Packs a step of new sequences with ``lengths`` rows each, in cache slots from ``first_slot`` on. Their rows begin
    at ``places`` behind the prefix, which must have been computed up to there; without them at 0."""
    runs, n = len(lengths), sum(lengths)
    b.header[:5] = n, runs, runs, b.max_tokens, b.max_runs
    b.starts[0] = 0
    np.cumsum(lengths, out=b.starts[1 : runs + 1])
    begins = np.asarray(places or [0] * runs) - b.starts[:runs]
    b.input_ids[:n] = 0
    b.positions[:n] = prefix_len + np.arange(n) + np.repeat(begins, lengths)
    b.kv_slots[:n] = first_slot + np.repeat(np.arange(runs), lengths)
    b.made[:runs] = 0
    b.admitted[:runs] = 0
    b.admitted[:runs, PARAM_SLOT] = first_slot + np.arange(runs)
    return runs, n, runs
