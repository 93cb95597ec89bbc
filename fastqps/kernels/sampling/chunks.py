"""The first pass of sampling: it alone reads all logits, and keeps what tells where the chosen one stands.

A chunk is some neighbouring logits. Of each the largest is kept; where a sequence needs the likelihood of the whole
vocabulary, or asks for log probabilities, also its sum of likelihoods, relative to its largest, so that no pass before
is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from fastqps.kernels.sampling.ordered import ordered
from fastqps.kernels.sampling.params import FLAGS, LOGPROBS, RECORD, TEMPERATURE, likelihood, needs_whole, rate_of
from fastqps.kernels.shapes import sample_shape


class Chunks(NamedTuple):
    """A summary of logits [S, vocabulary] by chunk. Sums that a run does not need are not written."""

    largest: torch.Tensor  # int32 [S, chunks], ``ordered``
    drawn: torch.Tensor  # float32 [S, chunks]: sums at the run's temperature
    plain: torch.Tensor  # float32 [S, chunks]: sums at temperature 1


@triton.jit
def _sample_chunks(
    largest,
    drawn,
    plain,
    logits,
    starts,
    kv_slots,
    records,
    counts,
    VOCAB: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    run = tl.program_id(1)
    if run >= tl.load(counts + 1):
        return
    record = records + tl.load(kv_slots + tl.load(starts + run)).to(tl.int64) * RECORD
    chunk = tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)
    token = chunk[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    x = tl.load(logits + run.to(tl.int64) * VOCAB + token, mask=token < VOCAB, other=float("-inf")).to(tl.float32)
    x = tl.where(x == x, x, float("-inf"))
    chunk_max = tl.max(x, axis=1)
    n_chunks: tl.constexpr = (VOCAB + CHUNK - 1) // CHUNK
    at, inside = run * n_chunks + chunk, chunk < n_chunks
    tl.store(largest + at, ordered(chunk_max, inside), mask=inside)
    if needs_whole(record):
        rate = rate_of(tl.load(record + TEMPERATURE).to(tl.float32, bitcast=True))
        tl.store(drawn + at, tl.sum(likelihood(x, chunk_max[:, None], rate), axis=1), mask=inside)
    if tl.load(record + FLAGS) & LOGPROBS:
        tl.store(plain + at, tl.sum(likelihood(x, chunk_max[:, None], rate_of(1.0)), axis=1), mask=inside)


def sample_chunks(
    logits: torch.Tensor, starts: torch.Tensor, kv_slots: torch.Tensor, params: torch.Tensor, counts: torch.Tensor
) -> Chunks:
    """logits [S, vocabulary]; starts, kv_slots, params, counts as ``sample`` has them."""
    runs, vocab = logits.shape
    shape = sample_shape(vocab)
    n_chunks = triton.cdiv(vocab, shape.chunk)
    chunks = Chunks(
        torch.empty(runs, n_chunks, dtype=torch.int32, device=logits.device),
        torch.empty(runs, n_chunks, dtype=torch.float32, device=logits.device),
        torch.empty(runs, n_chunks, dtype=torch.float32, device=logits.device),
    )
    _sample_chunks[(triton.cdiv(n_chunks, shape.chunks), runs)](
        *chunks,
        logits,
        starts,
        kv_slots,
        params,
        counts,
        VOCAB=vocab,
        CHUNK=shape.chunk,
        CHUNKS=shape.chunks,
        num_warps=shape.warps,
    )
    return chunks


@triton.jit
def _least_of_largest(order, k):
    """The largest number that at least ``k`` of ``order`` reach: halves its range, until just ``k`` do."""
    low = tl.min(order, axis=0).to(tl.int64)
    high = tl.max(order, axis=0).to(tl.int64) + 1  # fewer than k reach it
    reached = tl.full([], 1 << 30, tl.int32)
    while (high - low > 1) & (reached != k):
        middle = (low + high) >> 1
        n = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), axis=0)
        reached = tl.where(n >= k, n, reached)
        low = tl.where(n >= k, middle, low)
        high = tl.where(n >= k, high, middle)
    return low.to(tl.int32)


@triton.jit
def select_largest(order, place, k, to):
    """Writes the ``place`` of the ``k`` largest of ``order`` to ``to`` [k], of equals the first ones, for all threads.

    ``order``, k or more and fewer than 2^15, stand in the order of ``place``, and so does what is written.
    """
    least = _least_of_largest(order, k)
    above, equal = order > least, order == least
    counts = tl.cumsum((above.to(tl.int32) << 16) | equal.to(tl.int32), axis=0)  # both at once
    missing = k - tl.sum(above.to(tl.int32), axis=0)
    equals = counts & 0xFFFF
    at = (counts >> 16) + tl.minimum(equals, missing) - 1
    tl.store(to + at, place, mask=above | (equal & (equals <= missing)))
    tl.debug_barrier()
