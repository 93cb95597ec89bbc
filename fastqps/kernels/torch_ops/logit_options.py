"""Options that change logits, of all runs at once: the semantics of csrc/step/cpu/logit_options.cpp."""

from __future__ import annotations

import torch

from fastqps import _core
from fastqps._core import PARAM_WORDS
from fastqps.kernels.layers import LogitChanges
from fastqps.kernels.torch_ops.slots import repeated, scripted

_NEVER = -torch.inf
_NUMBERS_MAX = 1 << 25  # of the runs that are changed at once: logits, and comparisons of each token with each other


def logit_options(logits: torch.Tensor, changes: LogitChanges) -> None:
    """Changes ``logits`` [S, vocabulary] of ``counts[1]`` runs in place, computed in float32."""
    c, any_run = changes, changes.counts[1] > 0
    run = repeated(len(logits), c.counts[1])
    live = (torch.arange(len(logits), device=logits.device) < c.counts[1]) & ~scripted(c.targets, c.counts)
    last = torch.where(any_run, c.starts[run + 1] - 1, 0).long()
    slot = torch.where(any_run, c.kv_slots[last], 0).long()
    lengths = torch.where(any_run, c.positions[last] + 1, 1).long()
    together = max(1, _NUMBERS_MAX // max(logits.shape[1], c.history.shape[1] ** 2))
    for s in (slice(begin, begin + together) for begin in range(0, len(logits), together)):
        changed = _changed(logits[run[s]].float(), run[s], slot[s], lengths[s], c)
        logits[s] = torch.where(live[s, None], changed.to(logits.dtype), logits[s])


def _changed(
    x: torch.Tensor, run: torch.Tensor, slot: torch.Tensor, lengths: torch.Tensor, c: LogitChanges
) -> torch.Tensor:
    """float32 [S, vocabulary], of runs whose sequences in ``slot`` have ``lengths`` tokens: all int64 [S]."""
    tokens, params, made, rules = c.history[slot], c.params[slot], c.made[run], c.rules
    vocab = x.shape[1]
    own = (params[:, _core.PARAM_FLAGS] & _core.PARAM_LOGIT_OPTIONS) != 0
    at_limit = made.long() + 1 == params[:, PARAM_WORDS["max_tokens"]]
    free = ~at_limit if c.n_forced else torch.ones_like(own)  # nothing is forced
    changed = _penalised(_biased(x, params, c.biases[slot]), tokens, lengths, made, params)
    x = torch.where((own & free)[:, None], changed, x)
    # One column more than the vocabulary has, for what is not forbidden.
    forbidden = torch.zeros(len(x), vocab + 1, dtype=torch.bool, device=x.device)

    def forbid(ids: torch.Tensor, where: torch.Tensor) -> None:
        ids = torch.where(where & (ids >= 0) & (ids < vocab), ids, vocab).long()
        forbidden.scatter_(1, ids.expand(len(x), -1), True)

    forbid(tokens, _repeats(tokens, lengths, params) & (own & free)[:, None])
    if len(c.eos_ids):
        forbid(c.eos_ids[None], (own & free & (made < params[:, PARAM_WORDS["min_tokens"]]))[:, None])
    suppressed = params[:, PARAM_WORDS["suppress_token_ids"] :][:, : _core.IDS_MAX]
    forbid(suppressed, own[:, None])
    if len(rules):
        kind, token = rules[None, :, 0], rules[None, :, 1]
        follows = (kind == _core.RULE_FORBIDDEN) & _follows(tokens, lengths, c)
        first = (kind == _core.RULE_NOT_FIRST) & (made == 0)[:, None]
        forbid(token, (follows & free[:, None]) | first)
        possible = torch.zeros(vocab + 1, dtype=torch.bool, device=x.device)
        possible[torch.where(kind[0] == _core.RULE_FORCED, token[0], vocab).long()] = True
        forced = torch.where(possible[:vocab], 0.0, _NEVER)
        x = torch.where(free[:, None], x, forced)
    x = torch.where(forbidden[:, :vocab], _NEVER, x)
    masked = _masked(params, c)
    x = torch.where(masked[:, None] & ~_allowed(run, masked, vocab, c), _NEVER, x)
    none_left = (x == _NEVER).all(1) & (own | masked | bool(len(rules)))
    first = torch.where(masked, c.eos_ids[0], 0) if len(c.eos_ids) else torch.zeros_like(run)
    return torch.where(none_left[:, None] & (torch.arange(vocab, device=x.device) == first[:, None]), 0.0, x)


def _masked(params: torch.Tensor, c: LogitChanges) -> torch.Tensor:
    """bool [S]: whether a mask says which tokens a run may choose from."""
    return ((params[:, _core.PARAM_FLAGS] & _core.PARAM_MASKED) != 0) & (c.masks is not None)


def _allowed(run: torch.Tensor, masked: torch.Tensor, vocab: int, c: LogitChanges) -> torch.Tensor:
    """bool [S, vocabulary] of runs that are ``masked``; of the others the first one's mask is read."""
    if c.masks is None:
        return masked[:, None]
    words = c.masks[torch.where(masked, run, 0)]
    bits = words[:, :, None] >> torch.arange(32, device=words.device) & 1
    return bits.flatten(1)[:, :vocab] != 0


def _biased(x: torch.Tensor, params: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    """With its sequence's bias of each token."""
    vocab, ids = x.shape[1], biases[:, 1::2]
    place = torch.arange(ids.shape[1], device=x.device)
    has = ((params[:, _core.PARAM_FLAGS] & _core.PARAM_BIASED) != 0)[:, None]
    there = has & (place < biases[:, :1]) & (ids >= 0) & (ids < vocab)
    at = torch.where(there, ids, vocab).long()  # one column more, for what is not there
    added = torch.zeros(len(x), vocab + 1, device=x.device)
    added.scatter_(1, at, torch.where(there, biases[:, 2::2].contiguous().view(torch.float32), 0.0))
    return torch.where(added[:, :vocab] != 0, x + added[:, :vocab], x)


def _penalised(
    x: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor, made: torch.Tensor, params: torch.Tensor
) -> torch.Tensor:
    """Every token of a sequence less likely, and those of its answer by how often each stands there."""
    penalty, presence, frequency = (
        params[:, PARAM_WORDS[name], None].contiguous().view(torch.float32)
        for name in ("repetition_penalty", "presence_penalty", "frequency_penalty")
    )
    place = torch.arange(tokens.shape[1], device=x.device)
    its, of_prompt = place < lengths[:, None], place < (lengths - made)[:, None]
    ids = torch.where(its, tokens, tokens[:, :1]).long()  # its first token stands for what is not its
    gathered = x.gather(1, ids)
    x = x.scatter(1, ids, torch.where(gathered < 0, gathered * penalty, gathered / penalty))
    counts = torch.zeros_like(x).scatter_add(1, ids, (its & ~of_prompt).to(x.dtype))
    less = x - (frequency.double() * counts.double()).float() - presence
    return torch.where(counts > 0, less, x)


def _repeats(tokens: torch.Tensor, lengths: torch.Tensor, params: torch.Tensor) -> torch.Tensor:
    """bool [S, positions]: tokens that end a run whose others the sequence ends with."""
    width = tokens.shape[1]
    n = params[:, PARAM_WORDS["no_repeat_ngram_size"], None].long()
    place = torch.arange(width, device=tokens.device)
    padded = torch.cat((torch.full_like(tokens, -1), tokens), 1)
    before = padded.unfold(1, width, 1)[:, :width]  # [S, positions, width]: what stands before each position
    newest = padded.gather(1, lengths[:, None] + place)
    compared = place >= width - (n - 1)
    same = ((before == newest[:, None]) | ~compared[:, None]).all(-1)
    return same & (n > 0) & (place >= n - 1) & (place < lengths[:, None])


def _follows(tokens: torch.Tensor, lengths: torch.Tensor, c: LogitChanges) -> torch.Tensor:
    """bool [S, rules]: whether the sequence ends with the tokens that a rule wants before its own."""
    before, begin = c.rules[None, :, 2], c.rules[:, 3]
    follows = torch.ones(len(tokens), len(c.rules), dtype=torch.bool, device=tokens.device)
    for back in range(c.longest):
        compared = back < before
        wanted = c.rule_ids[torch.where(compared[0], begin + before[0] - 1 - back, 0)]
        newest = tokens.gather(1, (lengths[:, None] - 1 - back).clamp(min=0))
        follows &= ~compared | ((newest == wanted) & (lengths[:, None] > back))
    return follows
