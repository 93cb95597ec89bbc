"""The second pass of sampling and the last kernel of a decoder's step: one program draws one run's token.

The reference is csrc/step/cpu/decode_sample_kernel.h. Sums are added in another order than there, in float64 from
those of ``chunks`` on, so a draw from the whole vocabulary, or from the top_p of it, may differ where the random number
lies within 2e-6 of an edge between two tokens; a draw from the top_k likeliest, only within the last bits of float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.sampling.chunks import sample_chunks, select_largest
from fastqps.kernels.sampling.ordered import LAST, NOTHING, number, order_of, ordered, place_of, placed
from fastqps.kernels.sampling.params import (
    CANDIDATES,
    FLAGS,
    IDS_MAX,
    IGNORE_EOS,
    LOGPROBS,
    MAX_TOKENS,
    RECORD,
    SEED,
    STOP_IDS,
    TARGET_WORDS,
    TEMPERATURE,
    TOP_K,
    TOP_LOGPROBS,
    TOP_MAX,
    TOP_P,
    TYPICAL_P,
    draws_from_all,
    floor_of,
    likelihood,
    rate_of,
    targets_of,
)
from fastqps.kernels.shapes import sample_shape
from fastqps.kernels.stamps import stamp_end, stamped
from fastqps.kernels.vendor import register_limit

_NONE = tl.constexpr(1 << 30)  # beyond every index
_FARTHEST = tl.constexpr(0x7F7FFFFF)  # the bits of the largest float32
_WAYS = tl.constexpr(16)  # parts of the range of logits that one pass over them tells apart
TARGET_COLUMNS = tl.constexpr(32)  # a power of two, at least as many as a run has targets
_BLOCK = 256  # logits of such a pass that are read at once


@triton.jit
def _first(matches, at):
    """The least of ``at`` where ``matches``, else _NONE."""
    return tl.min(tl.where(matches, at, _NONE), axis=0)


@triton.jit
def _uniform(record, made):
    """csrc/core/philox.h: number ``made`` of the sequence's seed, in [0, 1), of 24 bits."""
    zero = (made * 0).to(tl.uint32)
    low = tl.load(record + SEED).to(tl.uint32, bitcast=True)
    high = tl.load(record + SEED + 1).to(tl.uint32, bitcast=True)
    bits, _, _, _ = tl.philox_impl(made.to(tl.uint32, bitcast=True), zero, zero, zero, low, high)
    return (bits >> 8).to(tl.float32) * (1.0 / (1 << 24))


@triton.jit
def _parts(largest, sums, first, top, rate, N_CHUNKS: tl.constexpr, STEP: tl.constexpr):
    """float64 [STEP]: likelihoods of the chunks from ``first`` on, relative to the largest logit of all."""
    chunk = first + tl.arange(0, STEP)
    inside = chunk < N_CHUNKS
    order = tl.load(largest + chunk, mask=inside, other=NOTHING)
    part = tl.load(sums + chunk, mask=inside, other=0.0)
    return tl.where(part > 0.0, part * likelihood(number(order), top, rate), 0.0).to(tl.float64)


@triton.jit
def _whole(largest, sums, top, rate, N_CHUNKS: tl.constexpr, STEP: tl.constexpr):
    """The sum of all parts."""
    total = tl.zeros([], tl.float64)
    for first in range(0, N_CHUNKS, STEP):
        total += tl.sum(_parts(largest, sums, first, top, rate, N_CHUNKS, STEP), axis=0)
    return total


@triton.jit
def _draw_from_all(
    logits, largest, sums, top, token, rate, u,
    VOCAB: tl.constexpr, N_CHUNKS: tl.constexpr, CHUNK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The first token whose cumulative likelihood is above ``u`` of the whole; ``token`` if rounding leaves none."""
    target = u.to(tl.float64) * _whole(largest, sums, top, rate, N_CHUNKS, STEP)
    before, hit = tl.zeros([], tl.float64), tl.full([], _NONE, tl.int32)
    passed = before
    for first in range(0, N_CHUNKS, STEP):
        part = _parts(largest, sums, first, top, rate, N_CHUNKS, STEP)
        chunk = first + tl.arange(0, STEP)
        # A sum can round to more than one of more parts: a chunk without likelihood is never the first.
        here = _first((passed + tl.cumsum(part, axis=0) > target) & (part > 0.0), chunk)
        before = tl.where(hit == _NONE, passed + tl.sum(tl.where(chunk < here, part, 0.0), axis=0), before)
        hit = tl.minimum(hit, here)
        passed += tl.sum(part, axis=0)
    if hit < _NONE:
        at = hit * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
        likely = likelihood(x, top, rate).to(tl.float64)
        chosen = _first((before + tl.cumsum(likely, axis=0) > target) & (likely > 0.0), at)
        last = tl.max(tl.where(likely > 0.0, at, -1), axis=0)
        if chosen < _NONE:
            token = chosen
        elif last >= 0:
            token = last
    return token


@triton.jit
def _likelihoods_from(logits, least, top, rate, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """float64 [_WAYS]: the likelihood of the logits whose ``ordered`` number is at least each of ``least`` [_WAYS]."""
    sums = tl.zeros([_WAYS], tl.float64)
    for first in range(0, VOCAB, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
        inside = ordered(x, at < VOCAB)[:, None] >= least[None, :]
        sums += tl.sum(tl.where(inside, likelihood(x, top, rate)[:, None], 0.0), axis=0).to(tl.float64)
    return sums


@triton.jit
def _place(logits, top, rate, least, need, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """The largest ``ordered`` logit from which on the likelihood is above ``need``, and that of all that are larger.

    The likelihood of the logits above ``least`` is not above ``need``. Each pass leaves one of _WAYS parts of the range
    of numbers; nothing is sorted.
    """
    way = tl.arange(0, _WAYS)
    low, end = tl.full([], NOTHING, tl.int64), least.to(tl.int64) + 1
    while end - low > 1:
        border = low + (end - low) * way // _WAYS
        likely = _likelihoods_from(logits, border.to(tl.int32), top, rate, VOCAB, BLOCK)
        enough = (way == 0) | (likely > need)
        end = tl.min(tl.where(enough, end, border), axis=0)
        low = tl.max(tl.where(enough, border, low), axis=0)
    likely = _likelihoods_from(logits, (low + 1 + way * 0).to(tl.int32), top, rate, VOCAB, BLOCK)
    return low.to(tl.int32), tl.max(likely, axis=0)


@triton.jit
def _order_from(floor):
    """The ``ordered`` number of the least float32 that is at least the float64 ``floor``."""
    near = floor.to(tl.float32)
    return ordered(near, True) + tl.where(near.to(tl.float64) < floor, 1, 0)


@triton.jit
def _equal(logits, top, token, rate, order, above, target, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """The first of the logits that equal ``order`` whose cumulative likelihood is above ``target``."""
    each = likelihood(number(order), top, rate).to(tl.float64)
    before = tl.full([], 0, tl.int32)  # how many of them go before it
    if each > 0.0:
        before = tl.maximum(tl.floor((target - above) / each), 0.0).to(tl.int32)
        seen = tl.full([], 0, tl.int32)
        first = tl.full([], 0, tl.int32)
        while (first < VOCAB) & (seen <= before):
            at = first + tl.arange(0, BLOCK)
            x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
            same = (ordered(x, at < VOCAB) == order).to(tl.int32)
            inside = (same != 0) & (seen + tl.cumsum(same, axis=0) - 1 <= before)
            token = tl.maximum(tl.max(tl.where(inside, at, -1), axis=0), tl.where(seen > 0, token, -1))
            seen += tl.sum(same, axis=0)
            first += BLOCK
    return token


@triton.jit
def _left(logits, first, edge, last, top, rate, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """Places from ``first`` on, their logits, and the likelihoods of those above ``edge``, and at it up to ``last``."""
    at = first + tl.arange(0, BLOCK)
    x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
    order = ordered(x, at < VOCAB)
    left = (order > edge) | ((order == edge) & (at <= last))
    return at, x, tl.where(left, likelihood(x, top, rate), 0.0)


@triton.jit
def _draw_from_typical(
    logits, edge, last, top, token, rate, typical_p, u, VOCAB: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One of those left whose logits are closest to their mean, as few as make up ``typical_p`` of their likelihood.

    How far off one may be is found as in ``_place``.
    """
    total, moment = tl.zeros([], tl.float64), tl.zeros([], tl.float64)
    for first in range(0, VOCAB, BLOCK):
        at, x, likely = _left(logits, first, edge, last, top, rate, VOCAB, BLOCK)
        total += tl.sum(likely.to(tl.float64), axis=0)
        off = tl.where(likely > 0.0, x - top, 0.0)
        moment += tl.sum(likely.to(tl.float64) * off.to(tl.float64), axis=0)
    if total > 0.0:
        centre = (top.to(tl.float64) + moment / total).to(tl.float32)
        need = typical_p.to(tl.float64) * total
        way = tl.arange(0, _WAYS)
        low, end = tl.full([], -1, tl.int64), tl.full([], _FARTHEST, tl.int64)
        kept = total
        while end - low > 1:
            border = low + (end - low) * (way + 1) // _WAYS
            most = border.to(tl.int32).to(tl.float32, bitcast=True)
            sums = tl.zeros([_WAYS], tl.float64)
            for first in range(0, VOCAB, BLOCK):
                at, x, likely = _left(logits, first, edge, last, top, rate, VOCAB, BLOCK)
                near = tl.abs(x - centre)[:, None] <= most[None, :]
                sums += tl.sum(tl.where(near, likely[:, None], 0.0), axis=0).to(tl.float64)
            enough = (way == _WAYS - 1) | (sums >= need)
            kept = tl.min(tl.where(enough, sums, total), axis=0)
            low = tl.max(tl.where(enough, low, border), axis=0)
            end = tl.min(tl.where(enough, border, end), axis=0)
        most = end.to(tl.int32).to(tl.float32, bitcast=True)
        target, passed = u.to(tl.float64) * kept, tl.zeros([], tl.float64)
        first, found = tl.full([], 0, tl.int32), tl.full([], _NONE, tl.int32)
        while (first < VOCAB) & (found == _NONE):
            at, x, likely = _left(logits, first, edge, last, top, rate, VOCAB, BLOCK)
            likely = tl.where(tl.abs(x - centre) <= most, likely, 0.0).to(tl.float64)
            found = _first((passed + tl.cumsum(likely, axis=0) > target) & (likely > 0.0), at)
            seen = tl.max(tl.where(likely > 0.0, at, -1), axis=0)  # only what rounding left may be above the target
            token = tl.where(found < _NONE, found, tl.where(seen >= 0, seen, token))
            passed += tl.sum(likely, axis=0)
            first += BLOCK
    return token


@triton.jit
def _likeliest(
    logits, largest, scratch, limit,
    VOCAB: tl.constexpr, N_CHUNKS: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """int64 [CANDIDATES]: the ``limit`` ≤ 64 likeliest logits as ``placed``, in the order of likelihood, then NOTHING.

    So many likeliest stand in as many chunks, those with the largest largest logit (of equals, the first): each chunk
    before another brings at least one logit that goes before all of the other's.
    """
    chunk, rank = tl.arange(0, COLUMNS), tl.arange(0, CANDIDATES)
    order = tl.load(largest + chunk, mask=chunk < N_CHUNKS, other=NOTHING)
    select_largest(order, chunk, limit, scratch)
    chunk = tl.load(scratch + rank, mask=rank < limit, other=N_CHUNKS)
    at = chunk[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
    order = tl.reshape(ordered(x, at < VOCAB), [CANDIDATES * CHUNK])
    select_largest(order, tl.arange(0, CANDIDATES * CHUNK), limit, scratch + CANDIDATES)

    place = tl.load(scratch + CANDIDATES + rank, mask=rank < limit, other=0)
    chunk = tl.load(scratch + place // CHUNK)
    at = tl.where((rank < limit) & (place // CHUNK < limit), chunk * CHUNK + place % CHUNK, VOCAB)
    x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
    return tl.sort(placed(ordered(x, at < VOCAB), at), descending=True)


@triton.jit
def _draw_from_likeliest(
    logits, record, largest, sums, scratch, top, token, temperature, u,
    VOCAB: tl.constexpr, N_CHUNKS: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One of the fewest likeliest that make up top_p of the likelihood of the top_k ≤ 64 likeliest, or of all.

    Those below the floor of min_p count there, and are not drawn.
    Most often the 64 likeliest hold it.
    """
    top_k = tl.load(record + TOP_K)
    limit = tl.where((top_k > 0) & (top_k < CANDIDATES), top_k, CANDIDATES)
    rank = tl.arange(0, CANDIDATES)
    both = _likeliest(logits, largest, scratch, limit, VOCAB, N_CHUNKS, CHUNK, COLUMNS)
    candidate = order_of(both) != NOTHING
    x = number(order_of(both))
    z = (x.to(tl.float64) - top.to(tl.float64)) / temperature.to(tl.float64)
    weight = tl.where(z == z, tl.exp(z), tl.where(x == top, 1.0, 0.0).to(tl.float64))
    weight = tl.where(candidate, weight, 0.0)
    cumulative = tl.cumsum(weight, axis=0)
    several = tl.sum(weight, axis=0)
    total = several
    if top_k == 0:
        total = tl.maximum(several, _whole(largest, sums, top, rate_of(temperature), N_CHUNKS, STEP))
    top_p = tl.load(record + TOP_P).to(tl.float32, bitcast=True).to(tl.float64)
    need = top_p * total
    floor = floor_of(record, top, temperature)
    enough = (rank > 0) & ((cumulative - weight >= need) | (x.to(tl.float64) < floor))
    kept = tl.sum(tl.where(candidate & (enough == 0), weight, 0.0), axis=0)
    rate = rate_of(temperature)
    least = tl.min(tl.where(candidate, order_of(both), LAST), axis=0)
    wider = (kept < need) & (total > several) & (number(least).to(tl.float64) >= floor)
    typical_p = tl.load(record + TYPICAL_P).to(tl.float32, bitcast=True)
    border = tl.min(tl.where(candidate & (enough == 0), order_of(both), LAST), axis=0)
    last = tl.max(tl.where(candidate & (enough == 0) & (order_of(both) == border), place_of(both), -1), axis=0)
    if (typical_p < 1.0) & (top_k == 0) & (top_p >= 1.0) & (floor == float("-inf")):
        border, last = tl.full([], NOTHING, tl.int32), tl.full([], VOCAB, tl.int32)
    elif wider:
        kept = need + 1.0
        if floor > float("-inf"):
            way = tl.zeros([_WAYS], tl.int32)
            kept = tl.max(_likelihoods_from(logits, _order_from(floor) + way, top, rate, VOCAB, BLOCK), axis=0)
        if kept > need:
            edge, above = _place(logits, top, rate, least, need, VOCAB, BLOCK)
            each = likelihood(number(edge), top, rate).to(tl.float64)
            equals = tl.ceil((need - above) / each)
            kept = above + tl.where(each > 0.0, equals * each, 0.0)
            border = edge
            if typical_p < 1.0:
                last = _equal(logits, top, token, rate, edge, above, above + (equals - 0.5) * each, VOCAB, BLOCK)
        else:
            border, last = _order_from(floor), tl.full([], VOCAB, tl.int32)
    target = u.to(tl.float64) * kept
    chosen = _first(candidate & (cumulative > target), rank)
    if typical_p < 1.0:
        token = _draw_from_typical(logits, border, last, top, token, rate, typical_p, u, VOCAB, BLOCK)
    elif chosen < _NONE:
        token = tl.sum(tl.where(rank == chosen, place_of(both), 0), axis=0)
    elif wider:
        edge, above = _place(logits, top, rate, least, target, VOCAB, BLOCK)
        token = _equal(logits, top, token, rate, edge, above, target, VOCAB, BLOCK)
    else:
        token = tl.sum(tl.where(candidate & (rank == 0), place_of(both), 0), axis=0)
    return token


@triton.jit
def _store_top(to, both, asked, top, log_sum):
    """The ids of the ``asked`` likeliest, and their log-probabilities; where fewer can be chosen, 0 and -inf."""
    rank = tl.arange(0, CANDIDATES)
    x = number(order_of(both))
    possible = (order_of(both) != NOTHING) & (x > float("-inf"))
    logprob = (x.to(tl.float64) - top.to(tl.float64) - log_sum).to(tl.float32)
    logprob = tl.where(possible, logprob, float("-inf"))
    tl.store(to + rank, tl.where(possible, place_of(both), 0), mask=rank < asked)
    tl.store(to + TOP_MAX + rank, logprob.to(tl.int32, bitcast=True), mask=rank < asked)


@triton.jit
def _store_targets(to, logits, token, asked, top, log_sum):
    """The ``asked`` of the ids ``token``, and their log-probabilities."""
    rank = tl.arange(0, TARGET_COLUMNS)
    x = tl.load(logits + token, mask=asked, other=0.0).to(tl.float32)
    logprob = (x.to(tl.float64) - top.to(tl.float64) - log_sum).to(tl.float32)
    logprob = tl.where(x < float("inf"), logprob, float("nan"))
    tl.store(to + rank, token, mask=asked)
    tl.store(to + TOP_MAX + rank, logprob.to(tl.int32, bitcast=True), mask=asked)


@triton.jit
def _sample(
    tokens,
    logprobs,
    finish,
    top_rows,
    last_token,
    logits,
    largest,
    drawn,
    plain,
    scratch,
    starts,
    kv_slots,
    made,
    records,
    eos_ids,
    counts,
    targets,
    stamps,
    VOCAB: tl.constexpr,
    N_CHUNKS: tl.constexpr,
    EOS_IDS: tl.constexpr,
    EOS_COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(0)
    if run < tl.load(counts + 1):
        slot = tl.load(kv_slots + tl.load(starts + run))
        record = records + slot.to(tl.int64) * RECORD
        logits += run.to(tl.int64) * VOCAB
        largest += run * N_CHUNKS
        chunk = tl.arange(0, COLUMNS)
        chunk_max = tl.load(largest + chunk, mask=chunk < N_CHUNKS, other=NOTHING)
        best = tl.max(chunk_max, axis=0)
        top = number(best)
        at = _first(chunk_max == best, chunk) * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
        token = _first(ordered(x, at < VOCAB) == best, at)
        token = tl.where(top > float("-inf"), token, 0)

        n_made = tl.load(made + run)
        temperature = tl.load(record + TEMPERATURE).to(tl.float32, bitcast=True)
        if temperature > 0.0:
            u = _uniform(record, n_made)
            if draws_from_all(record):
                sums, rate = drawn + run * N_CHUNKS, rate_of(temperature)
                token = _draw_from_all(logits, largest, sums, top, token, rate, u, VOCAB, N_CHUNKS, CHUNK, STEP)
            else:
                rows = scratch + run * 2 * CANDIDATES
                token = _draw_from_likeliest(
                    logits, record, largest, drawn + run * N_CHUNKS, rows, top, token, temperature, u,
                    VOCAB, N_CHUNKS, CHUNK, COLUMNS, STEP, BLOCK,
                )  # fmt: skip

        n_targets = targets_of(targets, counts, run)
        if targets is not None:
            if n_targets > 0:
                token = tl.load(targets + run * TARGET_WORDS + 1)
        flags = tl.load(record + FLAGS)
        stop_at = tl.arange(0, IDS_MAX)
        stopped = tl.max((tl.load(record + STOP_IDS + stop_at) == token).to(tl.int32), axis=0)
        if EOS_IDS > 0:
            eos_at = tl.arange(0, EOS_COLUMNS)
            ended = tl.load(eos_ids + eos_at, mask=eos_at < EOS_IDS, other=-1) == token
            stopped |= tl.where((flags & IGNORE_EOS) == 0, tl.max(ended.to(tl.int32), axis=0), 0)
        full = n_made.to(tl.int64) + 1 >= tl.load(record + MAX_TOKENS).to(tl.int64)
        ending = tl.where(stopped != 0, 1, tl.where(full, 2, 0))
        tl.store(finish + run, tl.where(n_targets > 0, 0, ending))
        tl.store(tokens + run, token)
        tl.store(last_token + slot, token, mask=n_targets == 0)
        logprob = 0.0
        if flags & LOGPROBS:
            log_sum = tl.log(_whole(largest, plain + run * N_CHUNKS, top, rate_of(1.0), N_CHUNKS, STEP))
            logprob = tl.load(logits + token).to(tl.float64) - top.to(tl.float64) - log_sum
            logprob = logprob.to(tl.float32)
            if top_rows is not None:
                if targets is not None:
                    if n_targets > 1:
                        rank = tl.arange(0, TARGET_COLUMNS)
                        wanted = tl.load(targets + run * TARGET_WORDS + 1 + rank, mask=rank < n_targets, other=0)
                        _store_targets(top_rows + run * 2 * TOP_MAX, logits, wanted, rank < n_targets, top, log_sum)
                asked = tl.minimum(tl.load(record + TOP_LOGPROBS), TOP_MAX)
                if (asked > 0) & (n_targets <= 1):
                    tl.debug_barrier()  # a draw has read the same scratch
                    rows = scratch + run * 2 * CANDIDATES
                    both = _likeliest(logits, largest, rows, asked, VOCAB, N_CHUNKS, CHUNK, COLUMNS)
                    _store_top(top_rows + run * 2 * TOP_MAX, both, asked, top, log_sum)
        finite = tl.load(logits + token).to(tl.float32) < float("inf")  # false of NaN, too
        tl.store(logprobs + run, tl.where(finite, logprob, float("nan")))
    if stamps is not None:
        stamp_end(stamps)


def sample(
    logits: torch.Tensor,
    starts: torch.Tensor,
    kv_slots: torch.Tensor,
    made: torch.Tensor,
    params: torch.Tensor,
    eos_ids: torch.Tensor,
    counts: torch.Tensor,
    *,
    tokens: torch.Tensor,
    logprobs: torch.Tensor,
    finish: torch.Tensor,
    last_token: torch.Tensor,
    top: torch.Tensor | None = None,
    targets: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> None:
    """Draws a token for each of ``counts[1]`` runs, says whether its sequence ends with it, keeps it as the newest.

    logits [S, vocabulary]; starts int32 [S + 1]; kv_slots int32 [T]; made int32 [S]; params int32 [slots, words],
    the records of csrc/step/decode/decode_layout.h; eos_ids int32. Written: tokens int32 [S]; logprobs float32 [S], 0
    where not asked for, NaN where the token's logit is NaN or infinite; finish int32 [S]: 0 goes on, 1 stop token, 2
    length; last_token int32 by slot; with ``top`` int32 [S, 40] the likeliest tokens of runs that ask, ``out_top`` of
    that layout; with ``targets`` int32 [S, 21] and the header ``counts`` the log-probabilities of a script's tokens, of
    which the first stands for the run's; with ``stamps`` int64 [2] the device's clock to the second.
    """
    runs, vocab = logits.shape
    shape, n_eos = sample_shape(vocab), len(eos_ids)
    _sample[(runs,)](
        tokens,
        logprobs,
        finish,
        top,
        last_token,
        logits,
        *sample_chunks(logits, starts, kv_slots, params, counts),
        torch.empty(runs, 2 * CANDIDATES.value, dtype=torch.int32, device=logits.device),
        starts,
        kv_slots,
        made,
        params,
        eos_ids if n_eos else None,
        counts,
        targets,
        stamped(stamps),
        VOCAB=vocab,
        N_CHUNKS=triton.cdiv(vocab, shape.chunk),
        EOS_IDS=n_eos,
        EOS_COLUMNS=triton.next_power_of_2(max(1, n_eos)),
        CHUNK=shape.chunk,
        COLUMNS=shape.columns,
        STEP=shape.step,
        BLOCK=min(_BLOCK, triton.next_power_of_2(vocab)),
        num_warps=shape.merge_warps,
        **register_limit(shape.merge_registers),
    )
