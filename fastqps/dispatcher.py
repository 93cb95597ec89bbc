"""A dispatcher: pulls requests, runs them in batches on its device, gives the answers back. One model, one process.

An encoder's step answers its whole batch. A decoder's step makes one token of every sequence that runs: requests join
at any step and leave at their own last token. The loop is the same.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Callable
from typing import Any, TypedDict

from fastqps._core import DecodeStepper, Heartbeat, Segment, Stepper, WakeFds
from fastqps.children import DispatcherSettings
from fastqps.devices import make_decoder, make_runner
from fastqps.lane import Lane, make_lane
from fastqps.models.card import ModelCard
from fastqps.runners import StepRunner

IN_FLIGHT_MAX = 2  # steps on the device: one runs, the next one waits for it. --async-steps off: one
# So late at most is idle time told, and seen a signal that comes between the look at `stopping` and the sleep.
SLEEP_MS_MAX = 100
FENCED = 70  # exit code of a process that finds that it has been declared dead


class Dispatcher:
    """The loop, and what it needs."""

    def __init__(
        self, stepper: Stepper | DecodeStepper, lane: Lane[Any], prepare: Callable[[int], None] | None = None
    ) -> None:
        self.stopping = False
        self._stepper = stepper
        self._lane = lane
        self._prepare = prepare  # what builds a gathered step over again
        self._free = deque(stepper.add(**runner.buffers().arguments()) for runner in lane.runners)
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
        _check_ours(gathered >= 0)
        if gathered:
            if self._prepare:
                self._prepare(step)
            _check_ours(self._stepper.launch(step))
            self._lane.launch(step, *self._stepper.shape(step))
        return bool(gathered)

    def _retire(self, step: int) -> None:
        self._lane.wait(step)
        _check_ours(self._stepper.scatter(step))


def _check_ours(ours: bool) -> None:
    """Leaves at once, without a single further write, when the supervisor has declared this process dead."""
    if not ours:
        os._exit(FENCED)


def make_stepper(segment: Segment, settings: DispatcherSettings) -> Stepper | DecodeStepper:
    """The native half of the loop: a decoder's where ``max_running`` says so."""
    fds = WakeFds(dispatchers=list(settings.wake_dispatchers), doors=list(settings.wake_doors))
    common = _Common(
        epoch=settings.epoch,
        route=settings.route,
        max_tokens=settings.max_batch_tokens,
        delay_ns=segment.route(settings.route)["max_batch_delay_ns"],
    )
    if settings.max_running:
        return DecodeStepper(segment, fds, settings.index, max_running=settings.max_running, **common)
    return Stepper(segment, fds, settings.index, max_items=settings.max_batch_items, **common)


class _Common(TypedDict):
    epoch: int
    route: int
    max_tokens: int
    delay_ns: int


def load_lane(card: ModelCard, settings: DispatcherSettings, segment: Segment) -> Lane[Any]:
    """The model on its device, with the steps that can be in flight."""
    tokens, device = settings.max_batch_tokens, settings.device
    place = _Place(dtype=settings.dtype, threads=settings.threads, segment=segment, index=settings.device_index)
    runner: StepRunner
    if settings.max_running:
        runner = make_decoder(device, card, settings.max_running, tokens, **place)
    else:
        runner = make_runner(device, card, settings.max_batch_items, tokens, **place)
    return make_lane(runner, IN_FLIGHT_MAX if settings.async_steps else 1)


class _Place(TypedDict):
    dtype: str
    threads: int
    segment: Segment
    index: int


def load_preparation(
    settings: DispatcherSettings, stepper: Stepper | DecodeStepper, lane: Lane[Any]
) -> Callable[[int], None] | None:
    """What prepares gathered steps over again, if anything does."""
    if settings.preparation == "native":
        return None
    from fastqps.runners.preparation import PythonPreparation  # here: it imports torch, which not every device needs

    return PythonPreparation(stepper, lane.runners)


def main(settings: DispatcherSettings) -> int:
    """Serves until the supervisor stops us. ``ModelError`` and ``DeviceError`` where the model cannot be run here."""
    segment = Segment(settings.segment_fd)
    heartbeat = Heartbeat(segment, "dispatcher", settings.index, settings.parent_fd)
    card = ModelCard.from_json(segment.card(settings.route))
    lane = load_lane(card, settings, segment)
    lane.warm_up()
    stepper = make_stepper(segment, settings)
    dispatcher = Dispatcher(stepper, lane, load_preparation(settings, stepper, lane))

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
