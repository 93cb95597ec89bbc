"""How a sequence's tokens are drawn and when it ends: the options of one request for generation, checked alone."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from fastqps.models.card import ModelCard

TOP_K_MAX = 64
STOP_IDS_MAX = 8
SEED_END = 1 << 64


@dataclass(frozen=True)
class Sampling:
    """``temperature`` 0: the likeliest token. ``top_k`` (0: off) and ``top_p`` (1: off) choose among the likeliest.

    The same ``seed`` gives the same tokens whatever shares the batch. ``max_tokens`` 0 is the server's limit. A token
    of ``stop_ids`` ends the sequence, as the model's own end does unless ``ignore_eos``; it is the last one made.
    """

    max_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None  # None: a random one
    stop_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: bool = False

    def checked(self, card: ModelCard) -> Sampling:
        """The same with a seed and a length of its own; ``ValueError`` names the first field that is out of range."""
        limit = card.max_output_tokens
        _check("max_tokens", self.max_tokens, 0 <= self.max_tokens <= limit, f"at most {limit}")
        temperature_fits = math.isfinite(self.temperature) and self.temperature >= 0
        _check("temperature", self.temperature, temperature_fits, "a finite number, at least 0")
        _check("top_k", self.top_k, 0 <= self.top_k <= TOP_K_MAX, f"0 to {TOP_K_MAX}")
        _check("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1")
        _check("seed", self.seed, self.seed is None or 0 <= self.seed < SEED_END, "0 to 2^64 - 1")
        stops = list(self.stop_ids)
        _check("stop_token_ids", stops, len(stops) <= STOP_IDS_MAX, f"at most {STOP_IDS_MAX} ids")
        vocabulary = f"ids from 0 to {card.vocab_size - 1}"
        _check("stop_token_ids", stops, all(0 <= i < card.vocab_size for i in stops), vocabulary)
        return Sampling(
            max_tokens=self.max_tokens or limit,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=secrets.randbits(64) if self.seed is None else self.seed,
            stop_ids=stops,
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs,
        )


def _check(name: str, value: object, fits: bool, limit: str) -> None:
    if not fits:
        raise ValueError(f"{name} {value} is out of range: {limit}")
