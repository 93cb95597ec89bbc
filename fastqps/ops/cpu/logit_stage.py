"""Changes the logits of a step before they are sampled, as the checkpoint's options say, on the CPU.

The order is that of transformers: what is penalised first cannot be chosen again, and forced tokens override what
stands before them. The stage keeps the tokens of all sequences itself, because steps are prepared before the host
knows the tokens of those ahead of them.
"""

from __future__ import annotations

from itertools import groupby

import torch

from fastqps._core import PARAM_MAX_TOKENS
from fastqps.models.card import ModelCard
from fastqps.models.logit_options import LogitOptions
from fastqps.ops.decode_step import DecodeState, DecodeStep

_NEVER = -torch.inf


class LogitStage:
    """Of ``slots`` sequences, with their tokens: int32 [slots + 1, positions], prefix included."""

    def __init__(self, options: LogitOptions, card: ModelCard, slots: int) -> None:
        self._options, prefix = options, card.prefix_ids
        self._tokens = torch.zeros(slots + 1, len(prefix) + card.kv_positions, dtype=torch.int32)
        self._tokens[:, : len(prefix)] = torch.tensor(prefix, dtype=torch.int32)
        self._ends = torch.tensor(card.eos_ids, dtype=torch.long)
        words = [word for word in options.bad_words_ids if len(word) > 1 or word[0] not in card.eos_ids]
        self._banned = torch.tensor([word[0] for word in words if len(word) == 1], dtype=torch.long)
        longer = sorted((word for word in words if len(word) > 1), key=len)
        self._words = [torch.tensor(list(same)) for _, same in groupby(longer, key=len)]  # [words, length] each
        self._suppressed, self._never_first, self._forced = (
            torch.tensor(ids, dtype=torch.long)
            for ids in (options.suppress_tokens, options.begin_suppress_tokens, options.forced_eos_token_id)
        )

    def __call__(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """logits [S, vocabulary] → the same in float32, for ``sample``; ``logits`` may be overwritten.

        Once for each step, in the order of the steps: it reads the tokens that the steps before have sampled.
        """
        self._keep(step, state)
        last = step.starts[1:].long() - 1
        slots, lengths = step.kv_slots[last].long(), step.positions[last].long() + 1
        tokens, x = self._tokens[slots, : int(lengths.max())].long(), logits.float()
        if self._options.repetition_penalty != 1:
            _penalise(x, tokens, lengths, self._options.repetition_penalty)
        if self._options.no_repeat_ngram_size:
            _forbid_repeats(x, tokens, lengths, self._options.no_repeat_ngram_size)
        for words in self._words:
            _forbid_words(x, tokens, lengths, words)
        x[:, self._banned] = _NEVER
        too_short = (lengths < self._options.min_length) | (step.made < self._options.min_new_tokens)
        x[torch.where(too_short)[0][:, None], self._ends] = _NEVER
        if len(self._forced):
            at_limit = step.made + 1 == state.params[slots, PARAM_MAX_TOKENS]
            x[at_limit] = _NEVER
            x[torch.where(at_limit)[0][:, None], self._forced] = 0
        x[:, self._suppressed] = _NEVER
        x[torch.where(step.made == 0)[0][:, None], self._never_first] = _NEVER
        x[(x == _NEVER).all(1), 0] = 0  # as transformers: the first token, where all are forbidden
        return x

    def _keep(self, step: DecodeStep, state: DecodeState) -> None:
        slots = step.kv_slots.long()
        ids = torch.where(step.token_ids < 0, state.last_token[slots], step.token_ids)
        self._tokens[slots, step.positions.long()] = ids


def _penalise(x: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor, penalty: float) -> None:
    """Makes every token of a sequence less likely. ``tokens`` [S, longest] int64, of which ``lengths`` [S] are its."""
    its = torch.arange(tokens.shape[1]) < lengths[:, None]
    ids = torch.where(its, tokens, tokens[:, :1])  # its first token stands for what is not its
    found = x.gather(1, ids)
    x.scatter_(1, ids, torch.where(found < 0, found * penalty, found / penalty))


def _forbid_repeats(x: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor, n: int) -> None:
    """Forbids the tokens that would end a run of ``n`` tokens that the sequence has already."""
    if tokens.shape[1] < n:
        return
    windows = tokens.unfold(1, n, 1)  # [S, longest - n + 1, n]
    inside = torch.arange(n - 1, tokens.shape[1]) < lengths[:, None]
    same = (windows[..., :-1] == _newest(tokens, lengths, n - 1)[:, None]).all(-1)
    run, window = torch.where(same & inside)
    x[run, windows[run, window, -1]] = _NEVER


def _forbid_words(x: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor, words: torch.Tensor) -> None:
    """Forbids the last token of each of ``words`` [words, length] where a sequence ends with the others."""
    n = words.shape[1] - 1
    same = (words[:, :-1] == _newest(tokens, lengths, n)[:, None]).all(-1)
    run, word = torch.where(same & (lengths >= n)[:, None])
    x[run, words[word, -1]] = _NEVER


def _newest(tokens: torch.Tensor, lengths: torch.Tensor, n: int) -> torch.Tensor:
    """[S, n]: the last ``n`` tokens of each sequence; anything where it has fewer."""
    return tokens.gather(1, (lengths[:, None] - n + torch.arange(n)).clamp(min=0))
