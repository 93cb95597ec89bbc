"""Options of a generator's checkpoint that change logits before a token is chosen from them. No torch here.

A request may replace the first four.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LogitOptions:
    """Options of transformers' ``GenerationConfig``; every default changes nothing. Token ids are the vocabulary's."""

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    min_length: int = 0  # tokens of prefix, prompt and answer before which no text ends
    min_new_tokens: int = 0  # the same of the answer
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    forced_eos_token_id: tuple[int, ...] = ()  # at the limit of an answer

    @property
    def forced(self) -> tuple[int, ...]:
        """The forced tokens that are not suppressed as well."""
        return tuple(id for id in self.forced_eos_token_id if id not in self.suppress_tokens)


def _neutral(default: float | tuple[()]) -> tuple[Any, ...]:
    """The values of JSON that are an option's default."""
    if isinstance(default, tuple):
        return ([],)
    return (default,) if isinstance(default, int) else (int(default), default)


NEUTRAL_LOGIT_OPTIONS = {name: _neutral(default) for name, default in vars(LogitOptions()).items()}


def float32(value: float) -> float:
    """Rounds a number to float32: to 0 or infinity, if it is too small or too large."""
    return ctypes.c_float(value).value
