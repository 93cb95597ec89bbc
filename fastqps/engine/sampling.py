"""The options of one request for generation: how tokens are drawn, and when the sequence ends."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastqps._core import STOP_IDS_MAX, SUPPRESS_IDS_MAX
from fastqps.api.request import GenerateOptions
from fastqps.models.card import ModelCard
from fastqps.models.files.logit_options import LogitOptions, float32

TOP_K_MAX = 64
NO_REPEAT_NGRAM_MAX = 64
SEED_END = 1 << 64
_OF_TEXTS = ("stop", "add_special_tokens")

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Sampling:
    """``temperature`` 0: the likeliest token. ``top_k`` (0: off) and ``top_p`` (1: off) choose among the likeliest.

    The same ``seed`` gives the same tokens, in float32 on the CPU whatever shares the batch. ``max_tokens`` None is the
    model's limit. A token of ``stop_ids`` ends the sequence, as the model's own end does unless ``ignore_eos``; it is
    the last one made.

    ``repetition_penalty`` (1: off), ``no_repeat_ngram_size`` (0: off) and ``min_tokens`` (0: off) are None where the
    checkpoint's values hold. ``suppress_ids`` are never chosen, beside the checkpoint's.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None  # None: a random one
    stop_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    min_tokens: int | None = None
    suppress_ids: Sequence[int] = ()

    @staticmethod
    def of(options: GenerateOptions) -> Sampling:
        """The options of a call, without those for texts."""
        if unknown := options.keys() - GenerateOptions.__annotations__.keys():
            raise TypeError(f"{min(unknown)} is no option; there are: {', '.join(GenerateOptions.__annotations__)}")
        given = {name: value for name, value in options.items() if value is not None and name not in _OF_TEXTS}
        return Sampling(**{name.replace("_token_ids", "_ids"): value for name, value in given.items()})  # type: ignore[arg-type]

    def checked(self, card: ModelCard) -> Sampling:
        """The same with a seed and a length of its own, and the checkpoint's values where the request has none.

        ``ValueError`` names the first field that is out of range.
        """
        limit = card.max_output_tokens
        max_tokens = limit if self.max_tokens is None else self.max_tokens
        _check("max_tokens", max_tokens, 1 <= max_tokens <= limit, f"1 to {limit}")
        temperature_fits = math.isfinite(self.temperature) and self.temperature >= 0
        _check("temperature", self.temperature, temperature_fits, "a finite number, at least 0")
        _check("top_k", self.top_k, 0 <= self.top_k <= TOP_K_MAX, f"0 to {TOP_K_MAX}")
        _check("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1")
        _check("seed", self.seed, self.seed is None or 0 <= self.seed < SEED_END, "0 to 2^64 - 1")
        stops, suppressed = list(self.stop_ids), list(self.suppress_ids)
        _check_ids("stop_token_ids", stops, STOP_IDS_MAX, card)
        _check_ids("suppress_token_ids", suppressed, SUPPRESS_IDS_MAX, card)
        self._check_logit_options(max_tokens)
        checkpoint = card.logit_options or LogitOptions()
        forced = list(checkpoint.forced)
        fits = not forced or not set(forced) <= set(suppressed)
        needed = f"without all of {forced}, which the checkpoint's forced_eos_token_id forces"
        _check("suppress_token_ids", suppressed, fits, needed)
        own_min = self.min_tokens is not None
        return _Checked(
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=secrets.randbits(64) if self.seed is None else self.seed,
            stop_ids=stops,
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs,
            repetition_penalty=_first(self.repetition_penalty, checkpoint.repetition_penalty),
            no_repeat_ngram_size=_first(self.no_repeat_ngram_size, checkpoint.no_repeat_ngram_size),
            min_tokens=_first(self.min_tokens, checkpoint.min_new_tokens),
            suppress_ids=suppressed,
            min_length=0 if own_min else checkpoint.min_length,
        )

    def _check_logit_options(self, max_tokens: int) -> None:
        penalty, ngram, least = self.repetition_penalty, self.no_repeat_ngram_size, self.min_tokens
        fits = penalty is None or 0 < float32(penalty) < math.inf
        _check("repetition_penalty", penalty, fits, "a finite number above 0")
        fits = ngram is None or 0 <= ngram <= NO_REPEAT_NGRAM_MAX
        _check("no_repeat_ngram_size", ngram, fits, f"0 to {NO_REPEAT_NGRAM_MAX}")
        fits = least is None or 0 <= least <= max_tokens
        _check("min_tokens", least, fits, f"at least 0, at most max_tokens, {max_tokens}")


@dataclass(frozen=True)
class _Checked(Sampling):
    """Options that hold for their card."""

    min_length: int = 0  # as ``min_tokens``, of prefix, prompt and answer together

    def checked(self, card: ModelCard) -> Sampling:
        return self


def _first(asked: Number | None, otherwise: Number) -> Number:
    return otherwise if asked is None else asked


def _check_ids(name: str, ids: Sequence[int], count_max: int, card: ModelCard) -> None:
    _check(name, ids, len(ids) <= count_max, f"at most {count_max} ids")
    _check(name, ids, all(0 <= i < card.vocab_size for i in ids), f"ids from 0 to {card.vocab_size - 1}")


def _check(name: str, value: object, fits: bool, limit: str) -> None:
    if not fits:
        raise ValueError(f"{name} {value} is out of range: {limit}")
