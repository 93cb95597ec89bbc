"""Random steps of a decoder for tests of kernels: packed rows, padding that means nothing, a cache on each side."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from kernel_rows import DEVICE

from fastqps._core import ADMITTED_WORDS, BIAS_WORDS
from fastqps.kernels.layers import Attention
from fastqps.ops.decode_step import DecodeState, DecodeStep, LogitRules

JUNK = 0x3FFFFFF0  # in padding: whoever follows it leaves every tensor


def ints(values: list[int], size: int, device: str = "cpu") -> torch.Tensor:
    """int32 [size]: ``values``, then junk."""
    return torch.tensor(values + [JUNK] * (size - len(values)), dtype=torch.int32, device=device)


@dataclass(frozen=True)
class Rows:
    """A step of ``runs``, (slot, first position, rows) each, padded to T rows and S runs on the tests' device."""

    runs: list[tuple[int, int, int]]
    T: int
    S: int

    @property
    def positions(self) -> list[int]:
        return [first + i for _, first, n in self.runs for i in range(n)]

    @property
    def kv_slots(self) -> list[int]:
        return [slot for slot, _, n in self.runs for _ in range(n)]

    @property
    def starts(self) -> list[int]:
        return [*accumulate((n for _, _, n in self.runs), initial=0)]

    def counts(self, admitted: int = 0) -> torch.Tensor:
        return ints([len(self.positions), len(self.runs), admitted], 16, DEVICE)

    def on_device(self, name: str) -> torch.Tensor:
        """``positions``, ``kv_slots`` or ``starts``, padded."""
        return ints(getattr(self, name), self.S + 1 if name == "starts" else self.T, DEVICE)

    def exact(
        self, ids: torch.Tensor | None = None, made: torch.Tensor | None = None, admitted: torch.Tensor | None = None
    ) -> DecodeStep:
        """The same for the CPU's kernels, without padding."""
        n, runs = len(self.positions), len(self.runs)
        none = torch.zeros(n, dtype=torch.int32)
        tokens, finish = (torch.zeros(runs, dtype=torch.int32) for _ in range(2))
        return DecodeStep(
            none if ids is None else ids,
            ints(self.positions, n),
            ints(self.kv_slots, n),
            ints(self.starts, runs + 1),
            none[:runs] if made is None else made,
            tokens,
            torch.zeros(runs),
            finish,
            none[:0] if admitted is None else admitted,
            top=torch.zeros(runs, 40, dtype=torch.int32),
        )


@dataclass
class Slots:
    """Sequences that run: what each slot holds. ``random_step`` mixes prompts and running sequences."""

    slots: int
    length: int
    prefix_len: int
    rng: random.Random
    held: dict[int, int] = field(default_factory=dict)

    def random_step(self, T: int, S: int) -> Rows:
        runs: list[tuple[int, int, int]] = []
        left = self.rng.randint(1, T)
        for slot in self.rng.sample(range(self.slots), min(S, self.slots)):
            own = self.held.get(slot, 0)
            if own >= self.length - 1:
                own = 0  # a new sequence takes its place
            n = 1 if own else self.rng.randint(1, min(self.length - 1, max(1, left)))
            if n > left:
                break
            runs.append((slot, self.prefix_len + own, n))
            self.held[slot], left = own + n, left - n
        return Rows(runs, T, S)


def heads_of(heads: int, kv_heads: int, head_dim: int, positions: int, norm: bool) -> Attention:
    """A layer's attention with rotary positions, and with norms of queries and keys if ``norm``."""
    angles = torch.outer(torch.arange(float(positions)), 1e4 ** (-torch.arange(0, head_dim, 2) / head_dim))
    rotary = torch.stack((angles.cos(), angles.sin()), 1).contiguous()
    q_norm, k_norm = (torch.rand(head_dim) + 0.5 if norm else None for _ in range(2))
    return Attention(heads, kv_heads, rotary, q_norm, k_norm, 1e-6)


def empty_state(slots: int, n_eos: int = 0, positions: int = 16) -> DecodeState:
    """Sampling's part of a state, on the CPU; no cache, and no rules."""
    nothing = torch.zeros(0)
    return DecodeState(
        nothing,
        nothing,
        torch.zeros(slots, dtype=torch.int32),
        torch.zeros(slots, ADMITTED_WORDS, dtype=torch.int32),
        torch.zeros(slots, BIAS_WORDS, dtype=torch.int32),
        torch.arange(n_eos, dtype=torch.int32),
        torch.zeros(slots, positions, dtype=torch.int32),
        LogitRules.of(None, ()),
    )


def on_tests_device(state: DecodeState) -> DecodeState:
    """A copy of it."""
    names = [f for f in DecodeState.__dataclass_fields__ if f != "rules"]
    r = state.rules
    rules = LogitRules(r.table.to(DEVICE), r.ids.to(DEVICE), r.n_forced, r.longest)
    return DecodeState(**{name: getattr(state, name).clone().to(DEVICE) for name in names}, rules=rules)
