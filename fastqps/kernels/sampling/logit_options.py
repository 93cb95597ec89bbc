"""Options that change the logits of a run before its token is drawn: one program for each run.

The semantics are those of csrc/step/cpu/logit_options.cpp. A run without options, of a model without rules, ends
after it has looked at its flags. Otherwise its program writes logits that other lanes of it have read, so barriers
stand between those phases. All of them are uniform: what they depend on is one number for the whole program.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps import _core
from fastqps.kernels.layers import LogitChanges
from fastqps.kernels.sampling.params import FLAGS, IDS_MAX, MAX_TOKENS, RECORD, targets_of

_LOGIT_OPTIONS = tl.constexpr(_core.PARAM_LOGIT_OPTIONS)  # of the flags: without it the words below mean nothing
_BIASED = tl.constexpr(_core.PARAM_BIASED)
_MASKED = tl.constexpr(_core.PARAM_MASKED)
_BIAS_WORDS = tl.constexpr(_core.BIAS_WORDS)
_REPETITION_PENALTY = tl.constexpr(_core.PARAM_WORDS["repetition_penalty"])
_NO_REPEAT_NGRAM_SIZE = tl.constexpr(_core.PARAM_WORDS["no_repeat_ngram_size"])
_MIN_TOKENS = tl.constexpr(_core.PARAM_WORDS["min_tokens"])
_PRESENCE_PENALTY = tl.constexpr(_core.PARAM_WORDS["presence_penalty"])
_FREQUENCY_PENALTY = tl.constexpr(_core.PARAM_WORDS["frequency_penalty"])
_SUPPRESS_IDS = tl.constexpr(_core.PARAM_WORDS["suppress_token_ids"])
_RULE_FORBIDDEN = tl.constexpr(_core.RULE_FORBIDDEN)
_RULE_NOT_FIRST = tl.constexpr(_core.RULE_NOT_FIRST)
_RULE_WORDS = tl.constexpr(_core.RULE_WORDS)
_BLOCK, _WARPS = 512, 4  # tokens, rules or logits that are read at once
_MASK_BLOCK = tl.constexpr(1024)  # the same of a mask's words, and of the logits under it
_BIASES_MAX = tl.constexpr(_core.LOGIT_BIAS_MAX)


@triton.jit
def _forbid(logits, token, where, VOCAB: tl.constexpr):
    """A token outside the vocabulary cannot be drawn anyway."""
    tl.store(
        logits + token, tl.full(token.shape, float("-inf"), tl.float32), mask=where & (token >= 0) & (token < VOCAB)
    )


@triton.jit
def _listed(tokens, biases, at, listed, total):
    """Number ``at`` of a list of tokens: the sequence's ``listed``, then those with a bias. -1 behind its end."""
    token = tl.load(tokens + at, mask=at < listed, other=-1)
    biased = tl.load(biases + 1 + 2 * (at - listed), mask=(at >= listed) & (at < total), other=-1)
    return tl.where(at < listed, token, biased)


@triton.jit
def _change_listed(
    logits, places, scratch, tokens, biases, listed, answer, total, penalty, presence, frequency,
    VOCAB: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adds biases, makes the sequence's tokens less likely, and those of the answer by how often each stands there.

    A token can stand in the list many times. One of its places, written where its logit was, stands for all of them:
    there its bias is found, how often the answer has it, and whether the sequence does. ``scratch`` [4, WIDTH].
    """
    changed, counts = scratch.to(tl.pointer_type(tl.float32)), scratch + WIDTH
    added, seen = (scratch + 2 * WIDTH).to(tl.pointer_type(tl.float32)), scratch + 3 * WIDTH
    for first in range(0, total, BLOCK):
        at = first + tl.arange(0, BLOCK)
        token = _listed(tokens, biases, at, listed, total)
        inside = (token >= 0) & (token < VOCAB)
        tl.store(changed + at, tl.load(logits + token, mask=inside, other=0.0).to(tl.float32), mask=at < total)
        tl.store(counts + at, tl.zeros([BLOCK], tl.int32), mask=at < total)
        tl.store(added + at, tl.zeros([BLOCK], tl.float32), mask=at < total)
        tl.store(seen + at, tl.zeros([BLOCK], tl.int32), mask=at < total)
    tl.debug_barrier()
    for first in range(0, total, BLOCK):
        at = first + tl.arange(0, BLOCK)
        token = _listed(tokens, biases, at, listed, total)
        tl.store(places + token, at.to(places.dtype.element_ty), mask=(token >= 0) & (token < VOCAB))
    tl.debug_barrier()
    for first in range(0, total, BLOCK):
        at = first + tl.arange(0, BLOCK)
        token = _listed(tokens, biases, at, listed, total)
        inside = (token >= 0) & (token < VOCAB)
        place = tl.load(places + token, mask=inside, other=0).to(tl.int32)
        tl.atomic_add(counts + place, 1, mask=inside & (at >= answer) & (at < listed), sem="relaxed", scope="cta")
        tl.store(seen + place, tl.full([BLOCK], 1, tl.int32), mask=inside & (at < listed))
        bias = tl.load(biases + 2 + 2 * (at - listed), mask=inside & (at >= listed), other=0)
        tl.store(added + place, bias.to(tl.float32, bitcast=True), mask=inside & (at >= listed))
    tl.debug_barrier()
    for first in range(0, total, BLOCK):
        at = first + tl.arange(0, BLOCK)
        token = _listed(tokens, biases, at, listed, total)
        inside = (token >= 0) & (token < VOCAB)
        place = tl.load(places + token, mask=inside, other=0).to(tl.int32)
        x = tl.load(changed + at, mask=inside, other=0.0)
        bias = tl.load(added + place, mask=inside, other=0.0)
        x = tl.where(bias != 0.0, x + bias, x)
        less = tl.where(x < 0.0, x * penalty, tl.math.div_rn(x, penalty))
        x = tl.where(tl.load(seen + place, mask=inside, other=0) != 0, less, x)
        count = tl.load(counts + place, mask=inside, other=0)
        less = x - (frequency.to(tl.float64) * count).to(tl.float32)  # rounded first, with and without fused products
        tl.store(changed + at, tl.where(count > 0, less - presence, x), mask=inside)
    tl.debug_barrier()
    for first in range(0, total, BLOCK):
        at = first + tl.arange(0, BLOCK)
        token = _listed(tokens, biases, at, listed, total)
        inside = (token >= 0) & (token < VOCAB)
        tl.store(logits + token, tl.load(changed + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def _forbid_repeats(logits, tokens, length, n, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """Forbids the tokens that would end a run of ``n`` tokens that the sequence has already."""
    for first in range(n - 1, length, BLOCK):
        at = first + tl.arange(0, BLOCK)
        matches = at < length
        for back in range(1, n):
            newest = tl.load(tokens + length - back)
            matches &= tl.load(tokens + at - back, mask=matches, other=-1) == newest
        _forbid(logits, tl.load(tokens + at, mask=matches, other=-1), matches, VOCAB)


@triton.jit
def _apply_rules(
    logits, tokens, length, rules, rule_ids, n_forced, n_rules, longest, first_token, forced,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All rules but those of forced tokens."""
    for first in range(n_forced, n_rules, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < n_rules
        rule = rules + at * _RULE_WORDS
        kind = tl.load(rule, mask=inside, other=-1)
        before, begin = tl.load(rule + 2, mask=inside, other=0), tl.load(rule + 3, mask=inside, other=0)
        matches = ((kind == _RULE_FORBIDDEN) & (not forced)) | ((kind == _RULE_NOT_FIRST) & first_token)
        for back in range(longest):
            newest = tl.load(tokens + length - 1 - back, mask=back < length, other=-1)
            compared = matches & (back < before)
            wanted = tl.load(rule_ids + begin + before - 1 - back, mask=compared, other=0)
            matches &= (back >= before) | (wanted == newest)
        _forbid(logits, tl.load(rule + 1, mask=matches, other=-1), matches, VOCAB)


@triton.jit
def _force(logits, rules, n_forced, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """Leaves the first ``n_forced`` rules' tokens alone."""
    at = tl.arange(0, BLOCK)
    for first in range(0, VOCAB, BLOCK):
        tl.store(logits + first + at, tl.full([BLOCK], float("-inf"), tl.float32), mask=first + at < VOCAB)
    tl.debug_barrier()
    for first in range(0, n_forced, BLOCK):
        inside = first + at < n_forced
        token = tl.load(rules + (first + at) * _RULE_WORDS + 1, mask=inside, other=0)
        tl.store(logits + token, tl.zeros([BLOCK], tl.float32), mask=inside)


@triton.jit
def _allow_one(logits, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """The first token, where all are forbidden."""
    allowed = 0
    for first in range(0, VOCAB, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
        allowed = tl.maximum(allowed, tl.max((x != float("-inf")).to(tl.int32), axis=0))
    if allowed == 0:
        tl.store(logits, 0.0)


@triton.jit
def _keep_allowed(logits, mask, words, end, VOCAB: tl.constexpr, WORDS: tl.constexpr):
    """Forbids what the ``mask`` [WORDS] does not allow. Where no token is left, ``end`` alone is possible.

    The mask lies in the host's memory, which is far: many of its words are under way at once, to ``words`` [WORDS].
    """
    block = tl.arange(0, _MASK_BLOCK)
    for first in range(0, WORDS, _MASK_BLOCK):
        inside = first + block < WORDS
        tl.store(words + first + block, tl.load(mask + first + block, mask=inside), mask=inside)
    tl.debug_barrier()
    left = tl.zeros([_MASK_BLOCK], tl.int32)
    for first in range(0, VOCAB, _MASK_BLOCK):
        at = first + block
        allowed = (tl.load(words + at // 32, mask=at < VOCAB, other=0) >> (at % 32)) & 1
        x = tl.load(logits + at, mask=at < VOCAB, other=float("-inf")).to(tl.float32)
        left |= allowed & (x != float("-inf")).to(tl.int32)
        _forbid(logits, at, allowed == 0, VOCAB)
    tl.debug_barrier()
    if tl.max(left, axis=0) == 0:
        tl.store(logits + end, 0.0)


@triton.jit(do_not_specialize=["n_rules", "n_forced", "longest"])
def _logit_options(
    logits,
    places,
    scratch,
    starts,
    kv_slots,
    positions,
    made,
    records,
    biases,
    history,
    eos_ids,
    rules,
    rule_ids,
    counts,
    targets,
    masks,
    n_rules,
    n_forced,
    longest,
    VOCAB: tl.constexpr,
    POSITIONS: tl.constexpr,
    WIDTH: tl.constexpr,
    SCRATCH: tl.constexpr,
    WORDS: tl.constexpr,
    EOS_IDS: tl.constexpr,
    EOS_COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(0)
    if run >= tl.load(counts + 1):
        return
    row = tl.load(starts + run + 1) - 1
    slot = tl.load(kv_slots + row).to(tl.int64)
    record = records + slot * RECORD
    own = (tl.load(record + FLAGS) & _LOGIT_OPTIONS) != 0
    masked = ((tl.load(record + FLAGS) & _MASKED) != 0) & (masks is not None)
    if (own | masked | (n_rules > 0)) & (targets_of(targets, counts, run) == 0):
        logits += run.to(tl.int64) * VOCAB
        places += run.to(tl.int64) * VOCAB
        scratch += run.to(tl.int64) * SCRATCH
        tokens = history + slot * POSITIONS
        length, n_made = tl.load(positions + row) + 1, tl.load(made + run)
        forced = (n_forced > 0) & (n_made.to(tl.int64) + 1 == tl.load(record + MAX_TOKENS).to(tl.int64))
        forbidden_max = n_rules + 0  # no more tokens than this are forbidden
        if forced:
            _force(logits, rules, n_forced, VOCAB, BLOCK)
            forbidden_max = forbidden_max + VOCAB
        if own & (not forced):
            penalty = tl.load(record + _REPETITION_PENALTY).to(tl.float32, bitcast=True)
            presence = tl.load(record + _PRESENCE_PENALTY).to(tl.float32, bitcast=True)
            frequency = tl.load(record + _FREQUENCY_PENALTY).to(tl.float32, bitcast=True)
            of_answer = (presence != 0.0) | (frequency != 0.0)
            listed = tl.where((penalty != 1.0) | of_answer, length, 0)
            answer = tl.where(of_answer, length - n_made, listed)
            biases += slot * _BIAS_WORDS
            total = listed
            if tl.load(record + FLAGS) & _BIASED:
                total += tl.minimum(tl.maximum(tl.load(biases), 0), _BIASES_MAX)
            if total > 0:
                _change_listed(
                    logits, places, scratch, tokens, biases, listed, answer, total, penalty, presence, frequency,
                    VOCAB, WIDTH, BLOCK,
                )  # fmt: skip
        tl.debug_barrier()
        if own:
            if not forced:
                n = tl.load(record + _NO_REPEAT_NGRAM_SIZE)
                if (n > 0) & (n <= length):
                    _forbid_repeats(logits, tokens, length, n, VOCAB, BLOCK)
                    forbidden_max = forbidden_max + length
                if EOS_IDS > 0:
                    if n_made < tl.load(record + _MIN_TOKENS):
                        at = tl.arange(0, EOS_COLUMNS)
                        ends = tl.load(eos_ids + at, mask=at < EOS_IDS, other=-1)
                        _forbid(logits, ends, at < EOS_IDS, VOCAB)
                        forbidden_max = forbidden_max + EOS_IDS
            at = tl.arange(0, IDS_MAX)
            suppressed = tl.load(record + _SUPPRESS_IDS + at)
            _forbid(logits, suppressed, suppressed >= 0, VOCAB)
            forbidden_max = forbidden_max + IDS_MAX
        _apply_rules(
            logits, tokens, length, rules, rule_ids, n_forced, n_rules, longest, n_made == 0, forced, VOCAB, BLOCK
        )
        if masked:
            if masks is not None:
                end = 0
                if EOS_IDS > 0:
                    end = tl.load(eos_ids)
                tl.debug_barrier()
                _keep_allowed(logits, masks + run.to(tl.int64) * WORDS, scratch, end, VOCAB, WORDS)
        elif forbidden_max >= VOCAB:  # else some token is left, and no look at all of them is needed
            tl.debug_barrier()
            _allow_one(logits, VOCAB, BLOCK)


def logit_options(logits: torch.Tensor, changes: LogitChanges) -> None:
    """Changes the logits of ``counts[1]`` runs as their sequences' options and masks and the checkpoint's rules say.

    logits [S, vocabulary], changed in place: computed in float32, stored in their own type.
    """
    runs, vocab = logits.shape
    c, positions, n_eos = changes, changes.history.shape[1], len(changes.eos_ids)
    width = positions + _BIASES_MAX.value
    words = 0 if c.masks is None else c.masks.shape[1]
    scratch = torch.empty(runs, max(4 * width, words), dtype=torch.int32, device=logits.device)
    _logit_options[(runs,)](
        logits,
        _places(logits, width),
        scratch,
        c.starts,
        c.kv_slots,
        c.positions,
        c.made,
        c.params,
        c.biases,
        c.history,
        c.eos_ids if n_eos else None,
        c.rules,
        c.rule_ids,
        c.counts,
        c.targets,
        c.masks,
        len(c.rules),
        c.n_forced,
        c.longest,
        VOCAB=vocab,
        POSITIONS=positions,
        WIDTH=width,
        SCRATCH=scratch.shape[1],
        WORDS=words,
        EOS_IDS=n_eos,
        EOS_COLUMNS=triton.next_power_of_2(max(1, n_eos)),
        BLOCK=_BLOCK,
        num_warps=_WARPS,
        num_stages=1,  # what follows from a token that was read cannot be read ahead
    )


def _places(logits: torch.Tensor, width: int) -> torch.Tensor:
    """Integers below ``width`` for each token of each run: the logits' own memory, where that can hold them."""
    if logits.itemsize == 4:
        return logits.view(torch.int32)
    return logits.view(torch.int16) if width <= 1 << 15 else torch.empty_like(logits, dtype=torch.int32)
