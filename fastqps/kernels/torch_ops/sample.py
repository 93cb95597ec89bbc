"""Sampling of all runs at once: the semantics of csrc/step/cpu/decode_sample_kernel.h and philox.h."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fastqps import _core
from fastqps._core import PARAM_WORDS
from fastqps.kernels.torch_ops.slots import repeated, scripted

_SEED, _TEMPERATURE, _TOP_P, _TOP_K, _MIN_P, _TYPICAL_P, _MAX_TOKENS, _STOP_IDS = (
    PARAM_WORDS[name]
    for name in ("seed", "temperature", "top_p", "top_k", "min_p", "typical_p", "max_tokens", "stop_token_ids")
)
_TOP_LOGPROBS = PARAM_WORDS["top_logprobs"]
_MASK = 0xFFFFFFFF
_LOGITS_MAX = 1 << 25  # of the runs that are sampled at once: 256 MiB for each float64 of them


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
    """Draws a token for each of ``counts[1]`` runs, flags the sequences that end, and stores the newest tokens."""
    outputs = (tokens, logprobs, finish) if top is None else (tokens, logprobs, finish, top)
    run, any_run = repeated(len(logits), counts[1]), counts[1] > 0
    live = torch.arange(len(logits), device=logits.device) < counts[1]
    slot = torch.where(any_run, kv_slots[torch.where(any_run, starts[run], 0).long()], 0).long()
    given = scripted(targets, counts).expand(len(logits))
    together = max(1, _LOGITS_MAX // logits.shape[1])
    for c in (slice(begin, begin + together) for begin in range(0, len(logits), together)):
        chosen: Sequence[torch.Tensor] = sampled(logits[run[c]], params[slot[c]], made[run[c]], eos_ids)
        asked = _asked(params[slot[c]])
        if targets is not None:
            *chosen, asked = _answered(logits[run[c]], targets[run[c]], given[run[c]], chosen, asked)
        for to, new in zip(outputs, chosen, strict=False):
            to[c] = torch.where(live[c] if new.ndim == 1 else live[c, None] & asked, new, to[c])
    own = any_run & ~given[run]  # a script's tokens are not the sequence's own; the padding's slot stands for theirs
    slot = torch.where(own, slot, len(last_token) - 1)
    last_token[slot] = torch.where(own, tokens[run], last_token[slot])


def _answered(
    logits: torch.Tensor,
    targets: torch.Tensor,
    given: torch.Tensor,
    chosen: Sequence[torch.Tensor],
    asked: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    """The outputs of ``sampled``, where a run is ``given`` targets [S, TARGET_WORDS] with their log-probabilities.

    And the places of ``top`` that are written: those of more than one target in the place of the ``asked`` ones.
    """
    tokens, logprobs, finish, top = chosen
    n, ids = targets[:, :1], torch.where(given[:, None], targets[:, 1:], 0)
    there = torch.arange(ids.shape[1], device=ids.device) < n
    ids = torch.where(there, ids, 0)
    logits = logits.float()
    values = logits.gather(1, ids.long())
    largest = torch.where(logits.isnan(), -torch.inf, logits).amax(1, keepdim=True)
    log_sum = _log_sum(logits, largest)  # as for the likeliest: clients compare the two
    found = (values.double() - largest.double() - log_sum).float()
    found = torch.where(values < torch.inf, found, torch.nan)
    several, there = given[:, None] & (n > 1), there.repeat(1, 2)
    return (
        torch.where(given, ids[:, 0], tokens),
        torch.where(given, found[:, 0], logprobs),
        torch.where(given, 0, finish),
        torch.where(several, torch.cat((ids.int(), found.view(torch.int32)), 1), top),
        torch.where(several, there, asked),
    )


def sampled(
    logits: torch.Tensor, params: torch.Tensor, made: torch.Tensor, eos_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """One token for each row of ``logits`` [S, vocabulary], its log-probability and whether it ends its sequence.

    And its likeliest tokens, int32 [S, 40], ``out_top`` of csrc/step/decode/decode_layout.h. ``params``: int32
    [S, ADMITTED_WORDS] of the same; ``made``: int32 [S], tokens made before.
    """
    logits = logits.float()
    comparable = torch.where(logits.isnan(), -torch.inf, logits)  # what is no number is never chosen
    top = comparable.amax(1, keepdim=True)
    best = (comparable == top).byte().argmax(1)
    temperature, top_p, min_p, typical_p = (
        params[:, word].contiguous().view(torch.float32)[:, None] for word in (_TEMPERATURE, _TOP_P, _MIN_P, _TYPICAL_P)
    )
    top_k, flags = params[:, _TOP_K, None], params[:, _core.PARAM_FLAGS]
    u = uniform(params[:, _SEED], params[:, _SEED + 1], made)[:, None]
    from_all = _from_all(logits, top, best, temperature, u)
    floor = torch.where(min_p > 0, top.double() + temperature.double() * min_p.double().log(), -torch.inf)
    likeliest = _likeliest_first(logits)
    from_few, left = _from_likeliest(likeliest, temperature, top_p, top_k, floor, u)
    drawn = torch.where(((top_k == 0) & (top_p >= 1) & (min_p == 0))[:, 0], from_all, from_few)
    from_typical = _from_typical(logits, top, best, temperature, left, typical_p, u)
    drawn = torch.where((typical_p < 1)[:, 0], from_typical, drawn)
    tokens = torch.where((temperature > 0)[:, 0], drawn, best)
    log_sum = _log_sum(logits, top)
    logprobs = _logprobs(logits, top, log_sum, tokens, flags)
    return tokens, logprobs, _finish(params, made, eos_ids, tokens), _top(likeliest, top, log_sum)


def uniform(seed_low: torch.Tensor, seed_high: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """float32 in [0, 1): number ``n`` of the sequence with this seed, by Philox4x32-10. int64 stands for 32 bits."""
    zero = torch.zeros_like(n, dtype=torch.int64)
    a, b, c, d = n.long() & _MASK, zero, zero, zero
    key0, key1 = seed_low.long() & _MASK, seed_high.long() & _MASK
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c  # of 64 bits: they may wrap to negative ones
        a, b = (second >> 32 & _MASK) ^ b ^ key0, second & _MASK
        c, d = (first >> 32 & _MASK) ^ d ^ key1, first & _MASK
        key0, key1 = (key0 + 0x9E3779B9) & _MASK, (key1 + 0xBB67AE85) & _MASK
    return (a >> 8).float() * 2.0**-24


def _likelihoods(logits: torch.Tensor, top: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    x = (logits - top) / temperature
    return torch.where(x.isnan(), 0.0, x.clamp(max=0.0).exp()).double()


def _log_sum(logits: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    return _likelihoods(logits, top, torch.ones_like(top)).sum(1, keepdim=True).log()


def _from_all(
    logits: torch.Tensor, top: torch.Tensor, best: torch.Tensor, temperature: torch.Tensor, u: torch.Tensor
) -> torch.Tensor:
    """The first token whose cumulative likelihood exceeds the fraction ``u`` of the total."""
    sums = _likelihoods(logits, top, temperature).cumsum(1)
    above = sums > u * sums[:, -1:]
    return torch.where(above.any(1), above.byte().argmax(1), best)


def _from_likeliest(
    likeliest: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    temperature: torch.Tensor,
    top_p: torch.Tensor,
    top_k: torch.Tensor,
    floor: torch.Tensor,
    u: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each row, and bool [S, vocabulary]: those that are left.

    Among as many of the likeliest as ``top_k`` and ``top_p`` leave, of equal ones those with lower ids first.

    Of these only those whose logits are at least ``floor``.

    Sorts all logits, which the kernels need not do.
    """
    values, ids, there = likeliest
    first = values[:, :1]
    limit = torch.where(top_k > 0, top_k, values.shape[1])
    limit = torch.where(
        (top_k > 0) | first.isinf(), limit.clamp(max=_core.TOP_K_MAX), limit
    )  # of equal infinities as many
    there = there & (torch.arange(values.shape[1], device=values.device) < limit)
    x = (values.double() - first.double()) / temperature.double()
    weights = torch.where(x.isnan(), (values == first).double(), x.exp()) * there
    sums = weights.cumsum(1)
    kept = there.clone()
    kept[:, 1:] &= (sums[:, :-1] < top_p.double() * sums[:, -1:]) & (values[:, 1:].double() >= floor)
    sums = torch.where(kept, weights, 0.0).cumsum(1)
    above = kept & (sums > u * sums[:, -1:])
    place = torch.where(above.any(1), above.byte().argmax(1), 0)[:, None]
    left = torch.zeros_like(kept).scatter(1, ids, kept)
    return torch.where(there[:, 0], ids.gather(1, place)[:, 0], 0), left


def _from_typical(
    logits: torch.Tensor,
    top: torch.Tensor,
    best: torch.Tensor,
    temperature: torch.Tensor,
    left: torch.Tensor,
    typical_p: torch.Tensor,
    u: torch.Tensor,
) -> torch.Tensor:
    """Of those ``left``, as few tokens as reach ``typical_p`` whose logits are closest to the mean by likelihood."""
    weights = torch.where(left, _likelihoods(logits, top, temperature), 0.0)
    whole = weights.sum(1, keepdim=True)
    off = torch.where(weights > 0, logits.double() - top.double(), 0.0)
    centre = (top.double() + (weights * off).sum(1, keepdim=True) / whole).float()
    distance = torch.where(weights > 0, (logits - centre).abs(), torch.inf)
    sorted_distance, order = distance.sort(1)
    reached = (weights.gather(1, order).cumsum(1) < typical_p.double() * whole).sum(1, keepdim=True)
    most = sorted_distance.gather(1, reached.clamp(max=logits.shape[1] - 1))
    sums = torch.where(distance <= most, weights, 0.0).cumsum(1)
    above = (sums > u * sums[:, -1:]) & (weights > 0)
    return torch.where(above.any(1) & (whole > 0)[:, 0], above.byte().argmax(1), best)


def _likeliest_first(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, ids and whether they are numbers, all [S, vocabulary] in the order of likelihood.

    One 64-bit key orders by value and then by id: the value's bits, turned so that they order as it does, and the id.
    """
    bits = (logits + 0.0).view(torch.int32)  # + 0: the two zeros are equal
    order = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    order = torch.where(logits.isnan(), -(1 << 31), order)
    ids = torch.arange(logits.shape[1], device=logits.device)
    keys = order << 32 | (_MASK - ids)
    sorted_ids = _MASK - (keys.sort(1, descending=True).values & _MASK)
    values = logits.gather(1, sorted_ids)
    return values, sorted_ids, ~values.isnan()


def _asked(params: torch.Tensor) -> torch.Tensor:
    """bool [S, 40]: the places of ``top`` that are written."""
    place = torch.arange(_core.TOP_LOGPROBS_MAX, device=params.device)
    return (place < params[:, _TOP_LOGPROBS, None]).repeat(1, 2)


def _top(
    likeliest: tuple[torch.Tensor, torch.Tensor, torch.Tensor], top: torch.Tensor, log_sum: torch.Tensor
) -> torch.Tensor:
    """int32 [S, 40]: ids of the likeliest tokens, and their log-probabilities; where fewer can be chosen 0 and -inf."""
    values, ids, there = (each[:, : _core.TOP_LOGPROBS_MAX] for each in likeliest)
    possible = there & (values > -torch.inf)
    logprobs = torch.where(possible, values.double() - top.double() - log_sum, -torch.inf).float()
    missing = (0, _core.TOP_LOGPROBS_MAX - values.shape[1])
    some_ids = torch.nn.functional.pad(torch.where(possible, ids, 0).int(), missing)
    return torch.cat((some_ids, torch.nn.functional.pad(logprobs, missing, value=-torch.inf).view(torch.int32)), 1)


def _logprobs(
    logits: torch.Tensor, top: torch.Tensor, log_sum: torch.Tensor, tokens: torch.Tensor, flags: torch.Tensor
) -> torch.Tensor:
    """Under the raw logits; 0 where nobody has asked, and NaN where the token's logit is NaN or infinite."""
    asked = (flags & _core.PARAM_LOGPROBS) != 0
    own = logits.gather(1, tokens[:, None])[:, 0].double()
    logprobs = torch.where(asked, (own - top[:, 0].double() - log_sum[:, 0]).float(), 0.0)
    return torch.where(own < torch.inf, logprobs, torch.nan)


def _finish(params: torch.Tensor, made: torch.Tensor, eos_ids: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """int32: 0 the sequence goes on, 1 stop token, 2 length."""
    eos = (tokens[:, None] == eos_ids).any(1) & ((params[:, _core.PARAM_FLAGS] & _core.PARAM_IGNORE_EOS) == 0)
    stop = eos | (tokens[:, None] == params[:, _STOP_IDS:][:, : _core.IDS_MAX]).any(1)
    full = made.long() + 1 >= params[:, _MAX_TOKENS]
    return torch.where(stop, 1, torch.where(full, 2, 0)).int()
