"""A dispatcher: pulls requests, runs them in batches on its device, gives the answers back. One model, one process."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque

import numpy as np

from fastqps._core import Heartbeat, Segment, Stepper, WakeFds
from fastqps.children import DispatcherSettings
from fastqps.devices import make_runner
from fastqps.lane import Lane, make_lane
from fastqps.models.card import ModelCard, ModelError
from fastqps.runners import Runner

IN_FLIGHT_MAX = 2  # steps on the device: one runs, the next one waits for it
SLEEP_MS_MAX = 1000  # a signal that comes between the look at `stopping` and the sleep is seen after this time
FENCED = 70  # exit code of a process that finds that it has been declared dead


class Dispatcher:
    """The loop, and what it needs."""

    def __init__(self, stepper: Stepper, lane: Lane[Runner]) -> None:
        self.stopping = False
        self._stepper = stepper
        self._lane = lane
        self._free = deque(_add(stepper, lane, i) for i in range(IN_FLIGHT_MAX))
        self._in_flight: deque[int] = deque()

    def serve(self) -> None:
        """Gathers, launches and scatters until ``stopping``: step n+1 is prepared while n runs, and n-1 is answered."""
        in_flight, free = self._in_flight, self._free
        while not self.stopping or in_flight:
            if in_flight:
                self._lane.wait(in_flight[0], self._stepper.ahead_s())
            launched = not self.stopping and bool(free) and self._launch(free[0])
            if launched:
                in_flight.append(free.popleft())
            if in_flight and (not launched or not free or self._lane.done(in_flight[0])):
                self._retire(in_flight[0])
                free.append(in_flight.popleft())

    def _launch(self, step: int) -> bool:
        gathered = self._stepper.gather(step, len(self._in_flight), SLEEP_MS_MAX)
        if gathered > 0:
            _check_ours(self._stepper.launch(step))
            self._lane.launch(step, *self._stepper.shape(step))
        _check_ours(gathered >= 0)
        return gathered > 0

    def _retire(self, step: int) -> None:
        self._lane.wait(step)
        _check_ours(self._stepper.scatter(step))


def _add(stepper: Stepper, lane: Lane[Runner], step: int) -> int:
    b = lane.runners[step].buffers()
    return stepper.add(max_items=b.max_items, max_tokens=b.max_tokens, width=b.width, **b.addresses())


def _check_ours(ours: bool) -> None:
    """Leaves at once, without a single further write, when the supervisor has declared this process dead."""
    if not ours:
        os._exit(FENCED)


def warm_up(lane: Lane[Runner], max_items: int, max_tokens: int, len_max: int) -> None:
    """Runs a batch of one short item and a full one through each step, so that the first request finds all ready.

    ``ModelError`` where the answers are no numbers: then every client's would be none.
    """
    for step, runner in enumerate(lane.runners):
        buffers = runner.buffers()
        for n_items, length in ((1, 2), (min(max_items, max(1, max_tokens // 32)), min(32, len_max, max_tokens))):
            n_tokens = n_items * length
            buffers.input_ids[:n_tokens] = 0
            buffers.token_type_ids[:n_tokens] = 0
            for item in range(n_items):
                first = runner.card.position_offset
                buffers.position_ids[item * length : (item + 1) * length] = range(first, first + length)
                buffers.cu_seqlens[item + 1] = (item + 1) * length
            lane.launch(step, n_items, n_tokens, length)
            lane.wait(step)
            if not np.isfinite(buffers.output[:n_items]).all():
                raise ModelError("the model's first answer is not finite: its weights hold NaN or infinity")


def main(settings: DispatcherSettings) -> int:
    """Serves until the supervisor stops us. ``ModelError`` and ``DeviceError`` where the model cannot be run here."""
    segment = Segment(settings.segment_fd)
    heartbeat = Heartbeat(segment, "dispatcher", settings.index, settings.parent_fd)
    card = ModelCard.from_json(segment.card(settings.route))
    items, tokens = settings.max_batch_items, settings.max_batch_tokens
    runner = make_runner(settings.device, card, items, tokens, dtype=settings.dtype, threads=settings.threads)
    lane = make_lane(runner, IN_FLIGHT_MAX)
    warm_up(lane, items, tokens, card.max_input_tokens)
    stepper = Stepper(
        segment,
        WakeFds(dispatchers=list(settings.wake_dispatchers), doors=list(settings.wake_doors)),
        settings.index,
        epoch=settings.epoch,
        route=settings.route,
        max_items=items,
        max_tokens=tokens,
        delay_ns=segment.route(settings.route)["max_batch_delay_ns"],
    )
    dispatcher = Dispatcher(stepper, lane)

    def stop(number: int, frame: object) -> None:
        dispatcher.stopping = segment.phase == "stopping"  # else it was meant for the supervisor, which drains first

    signal.signal(signal.SIGTERM, stop)
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would stop the device; nothing here makes cycles
    stepper.set_ready()
    dispatcher.serve()
    stepper.leave()
    lane.close()
    del heartbeat
    return 0
