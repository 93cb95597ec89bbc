"""Random logits and sequences for options that change logits, each option alone and all together.

Sequences have few different tokens, so that they repeat themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch

from fastqps import _core
from fastqps.kernels.checks.inputs import Case, Random

_MADE, _FULL = 5, 6  # tokens made before, and the answer's length where this token is to be its last
_DIFFERENT = 5  # tokens of all sequences
_LENGTHS = (40, 1, 3, 1500, 17)
_SPARE = 3


class Run(NamedTuple):
    """The options of one run's sequence, by their names."""

    options: dict[str, Any]
    biased: bool = False
    masked: bool = False
    made: int = _MADE
    max_tokens: int = 100


def runs(ids: list[int]) -> list[Run]:
    """Each option that changes logits with values of its kind, and all options together; ``ids`` are tokens."""
    values: dict[str, tuple[Any, ...]] = {"float": (1.3, 0.7), "uint32": (2, 3, 1, _MADE, _MADE + 1), "ids": (ids,)}
    kinds = {row.name: values[row.kind] for row in _core.OPTIONS if row.changes_logits}
    first, second = ({name: kind[i % len(kind)] for name, kind in kinds.items()} for i in range(2))
    return [
        Run({}),
        *(Run({name: value}) for name, kind in kinds.items() for value in kind),
        Run({}, biased=True),
        Run(first, max_tokens=_FULL),
        Run(first, made=0),
        Run({}, masked=True),
        Run({}, masked=True, made=1),
        Run(first, masked=True, max_tokens=_FULL),
        Run(second, masked=True),
        Run(second, biased=True, made=1),
    ]


def logit_options(random: Random, a: dict[str, Any]) -> Case:
    changes, vocab = a["changes"], a["logits"].shape[1]
    width = changes.history.shape[1]
    some = random.places(min(_DIFFERENT, vocab), vocab)
    chosen = runs(some[:2].tolist())
    n = len(chosen)
    slot_of = list(range(n))[::-1]
    lengths = [min(max(_LENGTHS[i % len(_LENGTHS)], run.made), width) for i, run in enumerate(chosen)]
    history = some[random.below(len(some), (n + 1) * width).long()].int().view(n + 1, width)
    records = [[0] * _core.ADMITTED_WORDS for _ in range(n + 1)]
    for slot, run in zip(slot_of, chosen, strict=True):
        flags = {"biased": run.biased, "masked": run.masked}
        records[slot] = _core.sequence_params(slot, max_tokens=run.max_tokens, **flags, **run.options)
    int32: dict[str, Any] = {"dtype": torch.int32, "device": random.device}
    first, *others = some.tolist()
    word = [first, *others[:1]]
    biases = torch.zeros(n + 1, _core.BIAS_WORDS, dtype=torch.int32)
    tokens = torch.arange(min(vocab, _core.LOGIT_BIAS_MAX), dtype=torch.int32)
    biases[:, 0], ids = len(tokens), biases[:, 1 : 1 + 2 * len(tokens)]
    ids[:, ::2] = tokens
    ids[:, 1::2] = (tokens % 7 - 3.0).view(torch.int32)
    rules = [
        [_core.RULE_FORCED, vocab - 1, 0, 0],
        [_core.RULE_FORCED, first, 0, 0],
        [_core.RULE_FORBIDDEN, 0, 0, 0],
        [_core.RULE_NOT_FIRST, vocab // 2, 0, 0],
        *([_core.RULE_FORBIDDEN, token, len(word), 0] for token in range(0, vocab, 2)),
        *([_core.RULE_FORBIDDEN, token, 1, 0] for token in range(1, min(vocab, 40), 2)),
    ]
    size = n + _SPARE
    counts = random.ints([2 * n, n, 0], len(changes.counts))
    new = replace(
        changes,
        starts=random.ints([2 * i for i in range(n + 1)], size + 1),  # each run has two rows
        kv_slots=random.ints([slot for slot in slot_of for _ in range(2)], 2 * n + _SPARE),
        positions=random.ints([at for length in lengths for at in (0, length - 1)], 2 * n + _SPARE),
        made=random.ints([run.made for run in chosen], size),
        params=torch.tensor(records, **int32),
        biases=biases.to(random.device),
        history=history,
        rules=torch.tensor(rules, **int32),
        rule_ids=torch.tensor(word, **int32),
        counts=counts,
        n_forced=2,
        longest=len(word),
        targets=random.targets(changes.targets, counts, size),
        masks=None if changes.masks is None else _masks(random, chosen, changes.masks.shape[1]),
    )
    logits = (4 * random.normal(size, vocab, like=torch.empty(0), live=n)).to(a["logits"].dtype)
    return Case({"logits": logits, "changes": new}, ["logits"], {"logits": n})


def _masks(random: Random, chosen: list[Run], words: int) -> torch.Tensor:
    """int32 [runs, words]: random bits; the first masked run has none."""
    low, high = (random.below(1 << 16, len(chosen) * words).view(-1, words) for _ in range(2))
    masks = high << 16 | low
    masks[next(i for i, run in enumerate(chosen) if run.masked)] = 0
    return masks
