"""The options of one request for generation: how tokens are drawn, and when the sequence ends."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastqps._core import OPTIONS, OptionRow
from fastqps.api.request import GenerateOptions
from fastqps.models.card import ModelCard
from fastqps.models.files.generation_keys import LogitOptions, float32

_OF_TEXTS = ("stop", "add_special_tokens")
_ROWS = {row.name: row for row in OPTIONS if row.path.startswith("generate.") and row.name not in _OF_TEXTS}


@dataclass(frozen=True)
class Sampling:
    """``temperature`` 0: the likeliest token. ``top_k`` (0: off) and ``top_p`` (1: off) choose among the likeliest.

    The same ``seed`` gives the same tokens, in float32 on the CPU whatever shares the batch. ``max_tokens`` None is the
    model's limit. A token of ``stop_token_ids`` ends the sequence, as the model's own end does unless ``ignore_eos``;
    it is the last one made.

    ``repetition_penalty`` (1: off), ``no_repeat_ngram_size`` (0: off) and ``min_tokens`` (0: off) are None where the
    checkpoint's values hold. ``suppress_token_ids`` are never chosen, beside the checkpoint's.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None  # None: a random one
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    min_tokens: int | None = None
    suppress_token_ids: Sequence[int] = ()

    @staticmethod
    def of(options: GenerateOptions) -> Sampling:
        """The options of a call, without those for texts."""
        if unknown := options.keys() - GenerateOptions.__annotations__.keys():
            raise TypeError(f"{min(unknown)} is no option; there are: {', '.join(GenerateOptions.__annotations__)}")
        given = {name: value for name, value in options.items() if value is not None and name not in _OF_TEXTS}
        return Sampling(**given)  # type: ignore[arg-type]

    def checked(self, card: ModelCard) -> Sampling:
        """The same with a seed and a length of its own, and the checkpoint's values where the request has none.

        ``ValueError`` names the first field that is out of range.
        """
        limit = card.max_output_tokens
        asked = vars(self) | {"max_tokens": limit if self.max_tokens is None else self.max_tokens}
        most = asked["max_tokens"]
        _check("max_tokens", most, 1 <= most <= limit, f"1 to {limit}")
        least = self.min_tokens
        _check("min_tokens", least, least is None or 0 <= least <= most, f"at least 0, at most max_tokens, {most}")
        for name, row in _ROWS.items():
            if row.kind == "ids":
                asked[name] = list(asked[name])
            if asked[name] is not None:
                _check_option(row, asked[name], card)
        checkpoint = card.logit_options or LogitOptions()
        forced, suppressed = list(checkpoint.forced), asked["suppress_token_ids"]
        fits = not forced or not set(forced) <= set(suppressed)
        needed = f"without all of {forced}, which the checkpoint's forced_eos_token_id forces"
        _check("suppress_token_ids", suppressed, fits, needed)
        for name, row in _ROWS.items():
            if row.checkpoint and asked[name] is None:
                asked[name] = getattr(checkpoint, row.checkpoint)
        if self.seed is None:
            asked["seed"] = secrets.randbits(64)
        return _Checked(**asked, min_length=checkpoint.min_length if least is None else 0)


@dataclass(frozen=True)
class _Checked(Sampling):
    """Options that hold for their card."""

    min_length: int = 0  # as ``min_tokens``, of prefix, prompt and answer together

    def checked(self, card: ModelCard) -> Sampling:
        return self


def _check_option(row: OptionRow, value: Any, card: ModelCard) -> None:
    """Whether the value is in the range of its row, in float32 where it is a float."""
    bounded = math.isfinite(row.high)
    match row.kind:
        case "ids":
            _check(row.name, value, len(value) <= row.high, f"at most {row.high:.0f} ids")
            known = all(0 <= i < card.vocab_size for i in value)
            _check(row.name, value, known, f"ids from 0 to {card.vocab_size - 1}")
        case "float":
            number = float32(value)
            fits = math.isfinite(number) and (number > 0 if row.above_zero else number >= 0) and number <= row.high
            least = "above 0" if row.above_zero else "at least 0"
            unbounded = f"a finite number{'' if row.above_zero else ','} {least}"
            _check(row.name, value, fits, f"{least}, at most {row.high:g}" if bounded else unbounded)
        case "uint32" | "uint64":
            end = 1 << int(row.kind.removeprefix("uint"))
            most = f"{row.high:.0f}" if bounded else f"2^{row.kind.removeprefix('uint')} - 1"
            _check(row.name, value, 0 <= value < end and value <= row.high, f"0 to {most}")


def _check(name: str, value: object, fits: bool, limit: str) -> None:
    if not fits:
        raise ValueError(f"{name} {value} is out of range: {limit}")
