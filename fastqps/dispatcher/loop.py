"""A dispatcher: claims requests of one model, runs them in batches on its device, and writes the answers.

The loop is the same for every kind of steps: gather, launch, run, scatter. ``fastqps.runners.kinds`` lists the kinds.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastqps._core import CudaError, DecodeStepper, Segment, Stepper
from fastqps.devices import DeviceFault, make_runner
from fastqps.dispatcher.process import DispatcherProcess, check_alive, wake_fds
from fastqps.dispatcher.step_size import StepLimits, step_limits
from fastqps.dispatcher.structured import Structured
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.process.children import DispatcherSettings
from fastqps.process.startup import STARTUP
from fastqps.runners.kinds import step_kind
from fastqps.runners.lane import Lane, make_lanes

IN_FLIGHT_MAX = 2  # steps on a lane: one runs and the next one waits. With --async-steps off only one
# The longest sleep. It bounds how late idle time is counted, and how late a signal is seen that arrives after the check
# of `stopping`.
IDLE_S = (0.1,)
SHARE = 0.1  # of the time, that lanes may take to refine
LOOK_S = 0.02  # between two looks at what lanes want


class Dispatcher:
    """The dispatcher's loop and its state."""

    def __init__(self, stepper: Stepper, lanes: Sequence[Lane[Any]], structured: Structured | None = None) -> None:
        self.stopping = False
        self._structured = structured  # of a generator
        self._stepper = stepper
        self._steps = [
            _Step(runner.buffers().add_to(stepper, i), i, lane, place)
            for i, lane in enumerate(lanes)
            for place, runner in enumerate(lane.runners)
        ]
        self._in_flight: list[deque[_Step]] = [deque() for _ in lanes]  # of each lane, the oldest first
        self._refinement = Refinement(lanes)

    def serve(self) -> None:
        """Gathers, launches and scatters until ``stopping``: step n+1 is prepared while n runs, and n-1 is answered.

        Only ``gather`` waits: for requests, for the time to prepare a step, or for a lane to finish one.
        """
        while not self.stopping or any(self._in_flight):
            look = self._stepper.rest if self.stopping else self._stepper.gather
            gathered = look(self._due_s())
            if gathered is not None:
                self._launch(gathered)
            if self._structured:
                self._structured.poll()  # behind the launch, which takes the structures of those that have joined
            for steps in self._in_flight:
                while steps and steps[0].due_s() == 0:
                    self._retire(steps.popleft())
            if self._refinement.due() and not self.stopping:
                self._refine()

    def _refine(self) -> None:
        """Lets the next lane that wants to prepare for its steps, behind those in flight."""
        if (lane := self._refinement.lane()) is not None:
            self._refinement.run(lane, partial(self._drain, self._in_flight[lane]))

    def _drain(self, steps: deque[_Step]) -> None:
        while steps:
            self._retire(steps.popleft())

    def _launch(self, gathered: int) -> None:
        check_alive(gathered >= 0)
        check_alive(self._stepper.launch(gathered))
        step = self._steps[gathered]
        if self._structured:
            buffers = step.on.runners[step.place].buffers()
            self._structured.launch(step.lane, gathered, buffers, bool(self._in_flight[step.lane]))
        step.on.launch(step.place, *self._stepper.shape(gathered))
        self._in_flight[step.lane].append(step)

    def _retire(self, step: _Step) -> None:
        step.on.wait(step.place)  # raises the step's exception
        if self._structured:
            self._structured.retire(step.lane, step.on.runners[step.place].buffers())
        check_alive(self._stepper.scatter(step.number))

    def _due_s(self) -> float:
        """The longest wait: until a lane without a signal may be done, or IDLE_S if nothing runs."""
        return min([steps[0].due_s() for steps in self._in_flight if steps] or IDLE_S)


class _Step(NamedTuple):
    """One set of buffers of a lane."""

    number: int  # in the stepper
    lane: int
    on: Lane[Any]
    place: int  # in the lane

    def due_s(self) -> float:
        return self.on.due_s(self.place)


class Refinement:
    """When lanes may prepare, between steps, what makes their later steps faster: on a GPU a captured graph at a time.

    A server starts with few graphs, so that it serves soon, and steps of usual sizes get their own while it serves.
    Each holds its dispatcher up for some steps. So captures take a small share of the time, however many are wanted.
    ``settle`` ends the start of all lanes. ``clock``: seconds.
    """

    def __init__(self, lanes: Sequence[Lane[Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes = {i: lane for i, lane in enumerate(lanes) if lane.settle()}
        self._next_s = clock()

    def due(self) -> bool:
        """Whether it is time to ask for a ``lane``."""
        return bool(self._lanes) and self._clock() >= self._next_s

    def lane(self) -> int | None:
        """The number of a lane that can refine. Those that did so last come last."""
        self._next_s = self._clock() + LOOK_S
        return next((i for i, lane in self._lanes.items() if lane.can_refine()), None)

    def run(self, number: int, drain: Callable[[], None]) -> None:
        """Lets this lane prepare one thing, after ``drain`` has ended its steps in flight: both count as its time."""
        lane = self._lanes.pop(number)
        self._lanes[number] = lane
        began_s = self._clock()
        drain()
        lane.refine()
        ended_s = self._clock()
        self._next_s = ended_s + (ended_s - began_s) * (1 / SHARE - 1)


def make_stepper(card: ModelCard, segment: Segment, settings: DispatcherSettings, limits: StepLimits) -> Stepper:
    """Makes the native half of the loop, for the kind of the model's steps."""
    return step_kind(card).make_stepper(
        segment,
        wake_fds(settings),
        settings.index,
        epoch=settings.epoch,
        route=settings.route,
        max_items=limits.items,
        max_tokens=limits.tokens,
        delay_ns=segment.route(settings.route).max_batch_delay_ns,
    )


def load_lanes(card: ModelCard, settings: DispatcherSettings, segment: Segment) -> list[Lane[Any]]:
    """Loads the model onto its device, as lanes with all steps that can be in flight."""
    with STARTUP.stage("weights"):
        runner = make_runner(
            settings.device,
            card,
            settings.max_batch_items,
            settings.max_batch_tokens,
            dtype=settings.dtype,
            quantization=settings.quantization,
            threads=settings.threads,
            segment=segment,
            index=settings.device_index,
            weights_fd=settings.weights_fd,
            table_fd=settings.table_fd,
            kernels=settings.kernels,
            kernels_fd=settings.kernels_fd,
        )
    wake_fd = settings.wake_dispatchers[settings.index]
    with STARTUP.stage("device"):
        return make_lanes(runner, settings.lanes, IN_FLIGHT_MAX if settings.async_steps else 1, wake_fd)


def make_structured(
    card: ModelCard, stepper: Stepper, settings: DispatcherSettings, lanes: Sequence[Lane[Any]]
) -> Structured | None:
    """What lets a generator's texts have a structure."""
    if not isinstance(stepper, DecodeStepper):
        return None
    structured = Structured(stepper, card, lanes, settings.wake_dispatchers[settings.index])
    stepper.on_structured(structured.poll)
    return structured


def main(settings: DispatcherSettings) -> int:
    """Serves until the supervisor stops this process.

    Raises ``ModelError`` or ``DeviceError`` if the model cannot run here, and ``DeviceFault`` if the device fails.
    """
    try:
        return serve(settings)
    except CudaError as error:
        raise DeviceFault(f"the device has failed: {error}") from error


def serve(settings: DispatcherSettings) -> int:
    """Serves as ``main`` does, but lets ``CudaError`` through."""
    # Imports make no garbage, and loading little, which ``prepare`` collects. Later a collection would stall the
    # device. The loop makes no cycles, and captures between steps make few and are bounded.
    gc.disable()
    process = DispatcherProcess(settings)
    segment, card = process.segment, process.card
    lanes = load_lanes(card, settings, segment)
    if settings.weights_fd < 0:  # otherwise the weight holder has checked them
        check_files(card)
    with STARTUP.stage("first_steps"):
        for lane in lanes:
            lane.warm_up()
    stepper = make_stepper(card, segment, settings, step_limits(card, settings, segment, lanes))
    dispatcher = Dispatcher(stepper, lanes, make_structured(card, stepper, settings, lanes))
    process.prepare(dispatcher)
    process.serve(dispatcher, stepper)
    for lane in lanes:
        lane.close()
    process.end()
    return 0
