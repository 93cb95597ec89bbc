"""The lists of tokens in a checkpoint's options, as records for all devices (csrc/step/decode/logit_options.h)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastqps._core import RULE_FORBIDDEN, RULE_FORCED, RULE_NOT_FIRST, RULE_WORDS
from fastqps.models.logit_options import LogitOptions


@dataclass(frozen=True)
class LogitRules:
    """Rules for the tokens of all sequences of a model. Without options there is no rule."""

    table: torch.Tensor  # int32 [rules, RULE_WORDS]; forced tokens come first
    ids: torch.Tensor  # int32: the tokens that have to stand before another one, rule after rule
    n_forced: int
    longest: int  # most tokens that a rule has in ``ids``

    @classmethod
    def of(cls, options: LogitOptions | None, eos_ids: tuple[int, ...]) -> LogitRules:
        """The rules of ``options``, on torch's default device. ``eos_ids`` end a text."""
        given = options or LogitOptions()
        words = [word for word in given.bad_words_ids if len(word) > 1 or word[0] not in eos_ids]
        rules = [(RULE_FORCED, id, 0, 0) for id in given.forced]
        rules += [(RULE_FORBIDDEN, id, 0, 0) for id in given.suppress_tokens]
        rules += [(RULE_NOT_FIRST, id, 0, 0) for id in given.begin_suppress_tokens]
        ids: list[int] = []
        for word in words:
            rules.append((RULE_FORBIDDEN, word[-1], len(word) - 1, len(ids)))
            ids += word[:-1]
        return cls(
            torch.tensor(rules, dtype=torch.int32).view(-1, RULE_WORDS),
            torch.tensor(ids, dtype=torch.int32),
            len(given.forced),
            max((len(word) - 1 for word in words), default=0),
        )
