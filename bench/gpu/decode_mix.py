"""Steps of running sequences with some prompts beside them, on one lane of a decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastqps._core import DecodeBatch
from fastqps.runners.lane import Lane

Made = tuple[int, int, int]  # what a lane's launch takes


class DecodeMix:
    """``running`` sequences that go on with one row each, and ``prompts`` of ``length`` tokens in every step.

    ``run`` runs one step to its end.
    """

    def __init__(self, lane: Lane[Any], running: int, prompts: int, length: int, run: Callable[[Made], float]) -> None:
        self._runner, self._run = lane.runners[0], run
        self._wanted, self._prompts, self._length = running, prompts, length
        buffers = self._runner.buffers()
        self._room = max(1, (buffers.max_tokens - running) // length)  # prompts of a step that only fills
        self._batch = DecodeBatch(buffers.max_runs, len(self._runner.card.prefix_ids))
        self._step = self._batch.add(**buffers.blocks())
        self._users: set[int] = set()
        self._named = 0

    def once(self) -> float:
        """One such step; µs, as ``run`` says. Sequences that have ended before are replaced, which is not timed."""
        while len(self._users) < self._wanted:
            self._one(min(self._room, self._wanted - len(self._users)))
        before = set(self._users)
        took_us = self._one(self._prompts)
        for user in self._users - before:  # as many run in the next one
            self._batch.drop(user)
        self._users &= before
        return took_us

    def close(self) -> None:
        """Gives the places of its sequences back."""
        for user in self._users:
            self._batch.drop(user)
        self._users = set()

    def _one(self, prompts: int) -> float:
        card = self._runner.card
        ids = [i * 7919 % card.vocab_size for i in range(1, self._length + 1)]
        self._batch.begin(self._step)
        for _ in range(prompts):
            self._named += 1
            most = card.max_output_tokens
            self._batch.admit(self._step, ids, user=self._named, max_tokens=most, ignore_eos=True)
            self._users.add(self._named)
        took_us = self._run(self._batch.seal(self._step))
        ended = {user for user, _, _, finish in self._batch.retire(self._step) if finish}
        self._users -= ended
        return took_us
