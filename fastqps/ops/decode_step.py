"""One packed step of a decoder as the model sees it, and what a device keeps of sequences between steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fastqps._core import ADMITTED_WORDS, BIAS_WORDS, RULE_FORBIDDEN, RULE_FORCED, RULE_NOT_FIRST, RULE_WORDS
from fastqps.models.card import ModelCard
from fastqps.models.files.generation_keys import LogitOptions


@dataclass(frozen=True)
class LogitRules:
    """The lists of tokens in a checkpoint's options, as records for all devices (csrc/step/cpu/logit_options.h).

    Rules for the tokens of all sequences of a model. Without options there is no rule.
    """

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


@dataclass(frozen=True)
class TokenMasks:
    """The tokens that each run of a step may choose from, where its sequence is masked."""

    rows: torch.Tensor  # int32 [S, (vocabulary + 31) // 32]: bit i of word w allows token 32·w + i
    state: torch.Tensor  # int32 [1]: MasksState of csrc/step/decode/decode_layout.h


@dataclass(frozen=True)
class Targets:
    """The tokens whose log-probabilities each run of a step asks for, where its sequence follows a script."""

    rows: torch.Tensor  # int32 [S, 21]: how many, and their ids
    there: torch.Tensor  # int32 [1]: 0: no run has any, and the rows mean nothing


@dataclass(frozen=True)
class Copies:
    """Cache slots that are filled from others before a step's rows are computed."""

    rows: torch.Tensor  # int32 [S, 3]: from which, to which, how many positions behind the prefix
    n: torch.Tensor  # int32 [1]


@dataclass(frozen=True)
class DecodeStep:
    """T packed rows in S runs: a run is all of a new prompt, or one decode row. Its last row is sampled.

    ``tokens``, ``logprobs``, ``finish`` and ``top`` are written: ``finish`` is 0 where the sequence goes on, 1 after a
    stop token, 2 at its length. A device that runs captured steps has tensors of a bucket's size, and ``counts`` says
    how much of them is the step's; what lies behind it is anything. Without ``counts`` their sizes are the step's.
    """

    token_ids: torch.Tensor  # int32 [T]; -1: the token that the row's cache slot has made last
    positions: torch.Tensor  # int32 [T], of the whole sequence, prefix included
    kv_slots: torch.Tensor  # int32 [T]: cache slot
    starts: torch.Tensor  # int32 [S + 1]
    made: torch.Tensor  # int32 [S]: tokens that the run's sequence has made before
    tokens: torch.Tensor  # int32 [S]
    logprobs: torch.Tensor  # float32 [S]
    finish: torch.Tensor  # int32 [S]
    admitted: (
        torch.Tensor
    )  # int32 [≤ S, ADMITTED_WORDS]: parameters of sequences that are new, csrc/step/decode/decode_layout.h
    counts: torch.Tensor | None = None  # int32 [16]: rows, runs, new sequences, …
    masks: TokenMasks | None = None  # None: no run is masked
    targets: Targets | None = None  # None: no run has any
    copies: Copies | None = None  # None: there are none, or the device has made them
    # int32 [S, 40], of runs that ask: ids of the likeliest tokens, and from 20 on their log-probabilities, float32
    top: torch.Tensor | None = None
    stamps: torch.Tensor | None = None  # int64 [2]: for the device's clock at the step's first and last kernel

    @property
    def n_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def n_runs(self) -> int:
        return len(self.made)


@dataclass(frozen=True)
class DecodeState:
    """The state by cache slot: keys and values, the tokens, the sampling parameters. All steps of a runner share it.

    The last cache slot is for padding. Every sequence sees the prefix before its own slot. The cache's memory is the
    system's until a slot is first used.
    """

    cache: torch.Tensor  # [layers, 2, slots + 1, kv_heads, positions without the prefix, head_dim]
    prefix: torch.Tensor  # [layers, 2, kv_heads, prefix_len, head_dim]
    last_token: torch.Tensor  # int32 [slots + 1]
    params: torch.Tensor  # int32 [slots + 1, ADMITTED_WORDS]
    biases: torch.Tensor  # int32 [slots + 1, BIAS_WORDS], in the host's memory: csrc/step/decode/decode_layout.h
    eos_ids: torch.Tensor  # int32
    history: torch.Tensor  # int32 [slots + 1, positions]: each sequence's tokens by position, the prefix included
    rules: LogitRules

    @classmethod
    def allocate(
        cls,
        card: ModelCard,
        slots: int,
        layers: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> DecodeState:
        """``slots`` sequences can run."""
        prefix, slots_in_all = card.prefix_ids, slots + 1
        host = device if device.type == "meta" else torch.device("cpu")
        with device:
            history = torch.zeros(slots_in_all, len(prefix) + card.kv_positions, dtype=torch.int32)
            history[:, : len(prefix)] = torch.tensor(prefix, dtype=torch.int32)
            return cls(
                cache=torch.empty(layers, 2, slots_in_all, kv_heads, card.kv_positions, head_dim, dtype=dtype),
                prefix=torch.empty(layers, 2, kv_heads, len(prefix), head_dim, dtype=dtype),
                last_token=torch.zeros(slots_in_all, dtype=torch.int32),
                params=torch.zeros(slots_in_all, ADMITTED_WORDS, dtype=torch.int32),
                biases=torch.zeros(slots_in_all, BIAS_WORDS, dtype=torch.int32, device=host),
                eos_ids=torch.tensor(card.eos_ids, dtype=torch.int32),
                history=history,
                rules=LogitRules.of(card.logit_options, card.eos_ids),
            )

    def another(self) -> DecodeState:
        """The same for as many other sequences, with the same prefix."""
        return replace(
            self,
            cache=torch.empty_like(self.cache),
            last_token=torch.zeros_like(self.last_token),
            params=torch.zeros_like(self.params),
            biases=torch.zeros_like(self.biases),
            history=self.history.clone(),
        )

    @property
    def slots(self) -> int:
        """Sequences that can run."""
        return self.cache.shape[2] - 1

    @property
    def prefix_len(self) -> int:
        return self.prefix.shape[3]

    def of_prefix(self) -> DecodeState:
        """The state of the step that computes the prefix: its memory is a cache of one slot, with nothing before it."""
        return replace(self, cache=self.prefix.unsqueeze(2), prefix=self.prefix[:, :, :, :0])
