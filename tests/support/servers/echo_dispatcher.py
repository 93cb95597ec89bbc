"""The usual dispatcher on a device whose answers show what they answer, and that takes as long as it is told.

A request for token ids is answered with [first, last, sum, count, number of the step, 0 …], to be read with
``normalize`` off. A step with the id SLOW + n takes at least n hundredths of a second; one with the id of a gate
(gates.py) lasts until a test opens it. SIGUSR2 stops its loop between two steps, but not its heart. Generators:
echo_generator.py.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Sequence

import echo_generator
from gates import pass_through

from fastqps.devices import Place, null
from fastqps.dispatcher import loop as dispatcher
from fastqps.models.card import ModelCard
from fastqps.process.children import DispatcherSettings
from fastqps.runners.kinds import DECODE, ENCODE

SLOW = 30_000
SLOW_MAX = 500
UNIT_S = 0.01
STEPS = itertools.count()  # of this process


def echo(ids: Sequence[int]) -> list[float]:
    """The first values of the answer to a request."""
    return [float(ids[0]), float(ids[-1]), float(sum(ids)), float(len(ids))]


class EchoRunner(null.NullRunner):
    instant = False

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        buffers = self.buffers()
        longest = int(buffers.input_ids[:n_tokens].max())
        if SLOW <= longest <= SLOW + SLOW_MAX:
            time.sleep((longest - SLOW) * UNIT_S)
        pass_through(set(buffers.input_ids[:n_tokens].tolist()))
        buffers.output[:n_items] = 0
        step = next(STEPS)
        for i in range(n_items):
            ids = buffers.input_ids[buffers.cu_seqlens[i] : buffers.cu_seqlens[i + 1]]
            values = (ids[0], ids[-1], ids.sum(), len(ids), step)[: buffers.output.shape[1]]  # a ranker has one
            buffers.output[i, : len(values)] = values

    def for_another_step(self) -> EchoRunner:
        buffers = self.buffers()
        return EchoRunner(self.card, buffers.max_items, buffers.max_tokens)


def make_runner(card: ModelCard, max_items: int, max_tokens: int, place: Place) -> EchoRunner:
    return EchoRunner(card, max_items, max_tokens)


class Stoppable(dispatcher.Dispatcher):
    """Stands still when told to, with nothing on its device: a step there would be too slow, not the loop."""

    stuck = False

    def _due_s(self) -> float:
        if Stoppable.stuck and not any(self._in_flight):
            time.sleep(3600)
        return super()._due_s()


def stop_the_loop(number: int, frame: object) -> None:
    Stoppable.stuck = True


def main(settings: DispatcherSettings) -> int:
    """The usual one. The null device changes here: tests that import this module must keep theirs."""
    null.RUNNERS.update({ENCODE: make_runner, DECODE: echo_generator.make_decoder})  # type: ignore[dict-item]
    dispatcher.Dispatcher = Stoppable  # type: ignore[misc]
    signal.signal(signal.SIGUSR2, stop_the_loop)
    return dispatcher.main(settings)
