"""Random steps for the operations of decoders: prompts and running sequences, with padding behind them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from fastqps.kernels.checks.inputs import Case, Inputs, Random
from fastqps.kernels.checks.option_inputs import logit_options
from fastqps.kernels.checks.sample_inputs import sample

_SLOTS = 6  # of the cache that is tried; nobody has the last one
_RUNS = ((0, 0, 40), (2, 17, 1), (1, 30, 1), (3, 0, 7), (4, 2, 1))  # slot, place of the first row, rows
_SPARE = 3  # rows and runs of padding


@dataclass(frozen=True)
class _Step:
    """Runs of (slot, place of the first row, rows), which fit into slots of ``length`` places."""

    random: Random
    runs: list[tuple[int, int, int]]

    @classmethod
    def of(cls, random: Random, slots: int, length: int) -> _Step:
        starts = [(slot, min(first, length - 1), rows) for slot, first, rows in _RUNS if slot < slots]
        return cls(random, [(slot, first, min(rows, length - first)) for slot, first, rows in starts])

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.runs)

    def arguments(self, a: dict[str, Any], prefix_len: int = 0) -> dict[str, Any]:
        """The arguments of the call that place rows."""
        places = {
            "positions": [prefix_len + first + i for _, first, rows in self.runs for i in range(rows)],
            "kv_slots": [slot for slot, _, rows in self.runs for _ in range(rows)],
            "starts": [0, *accumulate(rows for _, _, rows in self.runs)],
        }
        sizes = {"starts": len(self.runs) + 1 + _SPARE}
        own = {
            key: self.random.ints(values, sizes.get(key, self.rows + _SPARE))
            for key, values in places.items()
            if key in a
        }
        return own | {"counts": self.random.ints([self.rows, len(self.runs), len(self.runs)], len(a["counts"]))}


def embed_tokens(random: Random, a: dict[str, Any]) -> Case:
    slots, vocab = min(_SLOTS, len(a["last_token"])), len(a["table"])
    step = _Step.of(random, slots, min(64, a["history"].shape[1]))
    rows, size, words = step.rows, step.rows + _SPARE, a["admitted"].shape[1]
    ids = random.below(vocab, size)
    ids[1:rows:3] = -1
    admitted = random.below(1 << 30, (len(step.runs) + _SPARE) * words).view(-1, words)
    admitted[:, 0] = random.ints([slot for slot, _, _ in step.runs], len(admitted))
    new: dict[str, Any] = {
        "ids": ids,
        "last_token": random.below(vocab, slots),
        "stamps": random.stamps(a["stamps"]),
        "admitted": admitted,
        "params": random.below(1 << 30, slots * words).view(slots, words),
        "history": random.below(vocab, slots * a["history"].shape[1]).view(slots, -1),
    }
    return Case(a | step.arguments(a) | new, ["params", "history"], {"result": rows})


def rope_kv(random: Random, a: dict[str, Any]) -> Case:
    cache = a["cache"]
    step = _Step.of(random, min(_SLOTS, cache.shape[1]), cache.shape[3])
    new = {"qkv": _rows(random, step, a["qkv"]), "cache": _cache(random, cache)}
    return Case(a | step.arguments(a, a["prefix_len"]) | new, ["cache"], {"result": step.rows})


def slot_attention(random: Random, a: dict[str, Any]) -> Case:
    cache, prefix = a["cache"], a["prefix"]
    step = _Step.of(random, min(_SLOTS, cache.shape[1]), cache.shape[3])
    queries = _rows(random, step, a["queries"]) * cache.shape[4] ** -0.5
    new = {"queries": queries, "cache": _cache(random, cache), "prefix": random.normal(*prefix.shape, like=prefix)}
    rows = len(step.runs) if a["last_rows"] else step.rows
    return Case(a | step.arguments(a, prefix.shape[2]) | new, rows={"result": rows})


def last_rows(random: Random, a: dict[str, Any]) -> Case:
    step = _Step.of(random, _SLOTS, 64)
    return Case(a | step.arguments(a) | {"x": _rows(random, step, a["x"])}, rows={"result": len(step.runs)})


def _rows(random: Random, step: _Step, like: torch.Tensor) -> torch.Tensor:
    return random.normal(step.rows + _SPARE, like.shape[1], like=like, live=step.rows)


def _cache(random: Random, like: torch.Tensor) -> torch.Tensor:
    """A cache of a few slots, each as far from the next as in ``like`` [2, slots, kv_heads, max_len, head_dim]."""
    return random.normal(2, min(_SLOTS, like.shape[1]), *like.shape[2:], like=like)


DECODER_INPUTS: dict[str, Inputs] = {
    "embed_tokens": embed_tokens,
    "rope_kv": rope_kv,
    "slot_attention": slot_attention,
    "last_rows": last_rows,
    "logit_options": logit_options,
    "sample": sample,
}
