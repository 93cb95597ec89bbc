"""Random logits and sequences for options that change logits, each option alone and all together.

Sequences have few different tokens, so that they repeat themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from fastqps import _core
from fastqps.kernels.checks.inputs import Case, Random

_MADE, _FULL = 5, 6  # tokens made before, and the answer's length where this token is to be its last
_DIFFERENT = 5  # tokens of all sequences
_LENGTHS = (40, 1, 3, 1500, 17)
_SPARE = 3


class Run(NamedTuple):
    """The options of one run's sequence."""

    penalty: float = 1.0
    ngram: int = 0
    min_tokens: int = 0
    suppressed: bool = False
    made: int = _MADE
    max_tokens: int = 100

    def words(self, slot: int, some_ids: list[int]) -> list[int]:
        """Its parameters as csrc/step/decode/decode_layout.h has them."""
        record = [0] * _core.ADMITTED_WORDS
        record[_core.PARAM_SLOT], record[_core.PARAM_MAX_TOKENS] = slot, self.max_tokens
        if self[:4] != Run()[:4]:
            record[_core.PARAM_FLAGS] = _core.PARAM_LOGIT_OPTIONS
        record[_core.PARAM_REPETITION_PENALTY] = int(torch.tensor(self.penalty).view(torch.int32))
        record[_core.PARAM_NO_REPEAT_NGRAM_SIZE] = self.ngram
        record[_core.PARAM_MIN_TOKENS] = self.min_tokens
        never = some_ids if self.suppressed else []
        record[_core.PARAM_SUPPRESS_IDS :] = [*never, *[-1] * (_core.SUPPRESS_IDS_MAX - len(never))]
        return record


RUNS = (
    Run(),
    Run(penalty=1.3),
    Run(penalty=0.7, made=0),
    *(Run(ngram=n) for n in (1, 2, 3, 50)),
    Run(min_tokens=_MADE + 1),
    Run(min_tokens=_MADE),
    Run(suppressed=True),
    Run(1.1, 2, 9, suppressed=True, max_tokens=_FULL),
    Run(1.1, 2, 9, suppressed=True, made=0),
    Run(1.2, 3, 9, suppressed=True),
)


def logit_options(random: Random, a: dict[str, Any]) -> Case:
    n, (vocab, width) = len(RUNS), (a["logits"].shape[1], a["history"].shape[1])
    slot_of = [(5 * i + 3) % n for i in range(n)]
    lengths = [min(_LENGTHS[i % len(_LENGTHS)], width) for i in range(n)]
    some = random.places(min(_DIFFERENT, vocab), vocab)
    history = some[random.below(len(some), (n + 1) * width).long()].int().view(n + 1, width)
    records = [[0] * _core.ADMITTED_WORDS for _ in range(n + 1)]
    for slot, run in zip(slot_of, RUNS, strict=True):
        records[slot] = run.words(slot, some[:2].tolist())
    int32: dict[str, Any] = {"dtype": torch.int32, "device": random.device}
    first, *others = some.tolist()
    word = [first, *others[:1]]
    rules = [
        [_core.RULE_FORCED, vocab - 1, 0, 0],
        [_core.RULE_FORCED, first, 0, 0],
        [_core.RULE_FORBIDDEN, 0, 0, 0],
        [_core.RULE_NOT_FIRST, vocab // 2, 0, 0],
        *([_core.RULE_FORBIDDEN, token, len(word), 0] for token in range(0, vocab, 2)),
        *([_core.RULE_FORBIDDEN, token, 1, 0] for token in range(1, min(vocab, 40), 2)),
    ]
    size = n + _SPARE
    new = {
        "logits": (4 * random.normal(size, vocab, like=torch.empty(0), live=n)).to(a["logits"].dtype),
        "starts": random.ints([2 * i for i in range(n + 1)], size + 1),  # each run has two rows
        "kv_slots": random.ints([slot for slot in slot_of for _ in range(2)], 2 * n + _SPARE),
        "positions": random.ints([at for length in lengths for at in (0, length - 1)], 2 * n + _SPARE),
        "made": random.ints([run.made for run in RUNS], size),
        "params": torch.tensor(records, **int32),
        "history": history,
        "rules": torch.tensor(rules, **int32),
        "rule_ids": torch.tensor(word, **int32),
        "counts": random.ints([2 * n, n, 0], len(a["counts"])),
        "n_forced": 2,
        "longest": len(word),
    }
    return Case(a | new, ["logits"], {"logits": n})
