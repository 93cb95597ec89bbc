"""Checks the options of one request for generation: how tokens are drawn, and when the sequence ends."""

from __future__ import annotations

import math
import secrets
from typing import Any, NamedTuple

from fastqps._core import BIAS_MOST, OPTIONS, OptionRow
from fastqps.api.request import GenerateOptions
from fastqps.models.card import ModelCard
from fastqps.models.files.generation_keys import LogitOptions, float32

_NOT_SAMPLED = (
    "stop",
    "choices",
    "add_special_tokens",
    "include_stop_text",
    "structure",
    "structure_text",
    "n",
    "best_of",
    "prompt_logprobs",
)
_ALL = {row.name: row for row in OPTIONS if row.path.startswith("generate.")}
_ROWS = {name: row for name, row in _ALL.items() if name not in _NOT_SAMPLED}


class BestOf(NamedTuple):
    """How many answers a prompt gets, and of how many candidates they are the best."""

    n: int
    candidates: int

    @classmethod
    def of(cls, options: GenerateOptions) -> BestOf:
        """``ValueError`` names the option that is out of range."""
        n = options.get("n") or 1
        candidates = options.get("best_of") or n
        for name, value in (("n", n), ("best_of", candidates)):
            _check(name, value, 1 <= value <= _ALL[name].high, f"1 to {_ALL[name].high:.0f}")
        _check("best_of", candidates, candidates >= n, f"at least n, {n}")
        alone = options.get("max_tokens") == 0
        _check("best_of" if candidates > n else "n", candidates, candidates == 1 or not alone, "1 with max_tokens 0")
        single = candidates == 1 or options.get("choices") is None
        _check("best_of" if candidates > n else "n", candidates, single, "1 with choices, which have their scores")
        return cls(n, candidates)


def check_options(options: GenerateOptions, card: ModelCard) -> dict[str, Any]:
    """The options that ``DecodeBatch.admit`` takes, with a seed and a length, and with the checkpoint's values.

    Those for texts are left out. ``TypeError`` names an unknown option, ``ValueError`` the first one out of range.
    """
    if unknown := options.keys() - GenerateOptions.__annotations__.keys():
        raise TypeError(f"{min(unknown)} is no option; there are: {', '.join(GenerateOptions.__annotations__)}")
    asked: dict[str, Any] = {name: value for name, value in options.items() if value is not None and name in _ROWS}
    limit, least = card.max_output_tokens, asked.get("min_tokens")
    most = asked.setdefault("max_tokens", limit)
    scored = options.get("prompt_logprobs")
    _check("max_tokens", most, 1 <= most <= limit or (most == 0 and scored is not None), f"1 to {limit}")
    _check("min_tokens", least, least is None or 0 <= least <= most, f"at least 0, at most max_tokens, {most}")
    asked["max_tokens"] = max(most, 1)  # of a prompt alone a token is made, and left out
    if scored is not None:
        _check_option(_ALL["prompt_logprobs"], scored, card)
    for name, row in _ROWS.items():
        if row.kind == "ids":
            asked[name] = list(asked.get(name, ()))
        if name in asked:
            _check_option(row, asked[name], card)
    checkpoint = card.logit_options or LogitOptions()
    forced, suppressed = list(checkpoint.forced), asked["suppress_token_ids"]
    fits = not forced or not set(forced) <= set(suppressed)
    needed = f"without all of {forced}, which the checkpoint's forced_eos_token_id forces"
    _check("suppress_token_ids", suppressed, fits, needed)
    for name, row in _ROWS.items():
        if row.checkpoint:
            asked.setdefault(name, getattr(checkpoint, row.checkpoint))
    asked.setdefault("seed", secrets.randbits(64))
    if scored is not None:
        asked |= {"prompt_logprobs": True, "top_logprobs": max(scored, asked.get("top_logprobs", 0))}
    return asked | {"min_length": checkpoint.min_length if least is None else 0}


def _check_option(row: OptionRow, value: Any, card: ModelCard) -> None:
    """Whether the value is in the range of its row, in float32 where it is a float."""
    bounded = math.isfinite(row.high)
    match row.kind:
        case "ids":
            _check(row.name, value, len(value) <= row.high, f"at most {row.high:.0f} ids")
            known = all(0 <= i < card.vocab_size for i in value)
            _check(row.name, value, known, f"ids from 0 to {card.vocab_size - 1}")
        case "biases":
            _check(row.name, value, len(value) <= row.high, f"at most {row.high:.0f} tokens")
            known = all(0 <= i < card.vocab_size for i in value)
            _check(row.name, value, known, f"ids from 0 to {card.vocab_size - 1}")
            fits = all(-BIAS_MOST <= bias <= BIAS_MOST for bias in value.values())
            _check(row.name, value, fits, f"values from {-BIAS_MOST:g} to {BIAS_MOST:g}")
        case "float":
            number = float32(value)
            fits = (
                math.isfinite(number) and (number > 0 if row.above_zero else number >= row.low) and number <= row.high
            )
            least = "above 0" if row.above_zero else f"at least {row.low:g}"
            unbounded = f"a finite number{'' if row.above_zero else ','} {least}"
            _check(row.name, value, fits, f"{least}, at most {row.high:g}" if bounded else unbounded)
        case "uint32" | "uint64":
            end = 1 << int(row.kind.removeprefix("uint"))
            most = f"{row.high:.0f}" if bounded else f"2^{row.kind.removeprefix('uint')} - 1"
            _check(row.name, value, 0 <= value < end and value <= row.high, f"0 to {most}")


def _check(name: str, value: object, fits: bool, limit: str) -> None:
    if not fits:
        raise ValueError(f"{name} {value} is out of range: {limit}")
