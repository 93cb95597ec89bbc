"""Random logits for every way of sampling, so made that both have to choose the same token.

A draw from all may differ where the random number is near an edge between two tokens. So its logits have few tokens
that count, whose edges are far from the random numbers of these seeds, whatever the vocabulary and the type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from fastqps._core import ADMITTED_WORDS, TOP_LOGPROBS_MAX, sequence_params
from fastqps.kernels.checks.inputs import Case, Random

LIKELY = (2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0)  # logits of the tokens that count, in the order of their ids
_UNLIKELY = -60.0
_MADE, _FULL = 5, 6  # tokens made before, and the answer's length where this token is to be its last
_SPARE = 3


class Run(NamedTuple):
    """The sampling options of one run."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    seed: int = 0
    ignore_eos: bool = False
    logprobs: bool = True
    top_logprobs: int = 0
    max_tokens: int = 100
    ends: str = ""  # "stop" or "eos": its likeliest token is one

    @property
    def from_all(self) -> bool:
        """Whether it draws from the whole vocabulary."""
        return self.temperature > 0 and self.top_p >= 1 and self.top_k == 0 and self.min_p == 0 and self.typical_p >= 1

    def params(self, slot: int, stop_id: int) -> list[int]:
        """Its parameters as csrc/step/decode/decode_layout.h has them."""
        options = {key: value for key, value in self._asdict().items() if key not in ("seed", "ends")}
        stops = [stop_id] if self.ends == "stop" else []
        seed = self.seed | (~self.seed & 0xFFFFFFFF) << 32
        return sequence_params(slot, seed=seed, stop_token_ids=stops, **options)


RUNS = (
    Run(),
    Run(ignore_eos=True, logprobs=False, max_tokens=_FULL),
    Run(ends="stop"),
    Run(ends="eos"),
    *(Run(temperature, seed=seed) for temperature, seed in ((0.5, 11), (1.0, 12), (1.0, 13), (2.0, 14))),
    *(Run(0.8, 0.9, seed=seed, logprobs=False) for seed in (21, 22)),
    *(Run(1.0, 1.0, top_k, seed=31) for top_k in (1, 5, 200)),
    Run(1.5, 0.7, 20, seed=41),
    *(Run(1.0, top_p, top_k, 0.2, seed=51) for top_p, top_k in ((1.0, 0), (0.9, 0), (0.9, 20))),
    *(Run(1.0, top_p, top_k, 0.0, 0.6, seed=61) for top_p, top_k in ((1.0, 0), (0.9, 0), (0.9, 20))),
    *(Run(temperature, 0.9, seed=42, top_logprobs=n) for temperature, n in ((0.0, 20), (1.0, 3))),
)


def sample(random: Random, a: dict[str, Any]) -> Case:
    n, vocab = len(RUNS), a["logits"].shape[1]
    size, slots = n + _SPARE, n + 1
    slot_of = [(5 * i + 3) % n for i in range(n)]
    logits = 4 * random.normal(size, vocab, like=torch.empty(0), live=n)
    for i, run in enumerate(RUNS):
        likely = LIKELY[:vocab] if run.from_all else (40.0,) if run.ends else ()
        if run.from_all:
            logits[i] = logits[i] + _UNLIKELY
        places = random.places(len(likely), vocab)
        if run.ends == "eos" and len(a["eos_ids"]):
            places = a["eos_ids"][:1].long()
        logits[i, places] = torch.tensor(likely, device=random.device)
    stop_ids = logits[:n].nan_to_num(-torch.inf).argmax(1).tolist()
    records = [[0] * ADMITTED_WORDS for _ in range(slots)]
    for slot, run, stop_id in zip(slot_of, RUNS, stop_ids, strict=True):
        records[slot] = run.params(slot, stop_id)
    counts = random.ints([2 * n, n, 0], len(a["counts"]))
    new = {
        "logits": logits.to(a["logits"].dtype),
        "starts": random.ints([2 * i for i in range(n + 1)], size + 1),  # each run has two rows
        "kv_slots": random.ints([slot for slot in slot_of for _ in range(2)], 2 * n + _SPARE),
        "made": random.ints([_MADE] * n, size),
        "params": torch.tensor(records, dtype=torch.int32, device=random.device),
        "counts": counts,
        "stamps": random.stamps(a["stamps"]),
        "logprobs": torch.zeros(size, device=random.device),
        "last_token": random.below(vocab, slots),
    }
    new |= {name: random.ints([-1], size) for name in ("tokens", "finish")}
    new["top"] = random.ints([0], size * 2 * TOP_LOGPROBS_MAX).reshape(size, -1)
    new["targets"] = random.targets(a.get("targets"), counts, size)
    mutated = ("tokens", "logprobs", "finish", "top", "last_token")
    return Case(a | new, mutated, dict.fromkeys(mutated[:4], n), {"top": TOP_LOGPROBS_MAX})
