"""The runner of steps on a GPU, which encoders and decoders share: they launch steps, and wait for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

import torch

from fastqps._core import CudaStep
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.loaded import Loaded
from fastqps.devices.cuda.watch import DEBUG
from fastqps.process.startup import STARTUP
from fastqps.runners.first_steps import Run

M = TypeVar("M")  # the model
L = TypeVar("L", bound=GraphLane)
B = TypeVar("B")  # StepBuffers or DecodeBuffers


class GraphSteps(ABC, Generic[M, L, B]):
    """``AsyncRunner``: steps of one set of pinned buffers. Without ``use`` it makes a lane of its own when it needs it.

    Lanes hold all but the weights, so a runner for another lane is made as one for another step of the same.
    """

    instant = False

    def __init__(self, loaded: Loaded[M], max_items: int, max_tokens: int) -> None:
        self.card = loaded.card
        self._loaded, self._max_items, self._max_tokens = loaded, max_items, max_tokens
        self._lane: L | None = None
        self._step: CudaStep | None = None
        self._buffers: B | None = None

    @abstractmethod
    def make_lane(self) -> L:
        """Its model's, for steps of its sizes. Takes memory of the GPU."""

    @abstractmethod
    def make_buffers(self, step: CudaStep) -> B:
        """Views of the step's pinned blocks."""

    @abstractmethod
    def run_first_steps(self, run: Run) -> None:
        """``run`` of a short step and a full one. ``ModelError`` where the answers are no numbers."""

    def make_stream(self) -> L:
        with self._loaded.starting(self._max_tokens):
            return self.make_lane()

    def use(self, stream: L) -> None:
        self._lane, self._step = stream, stream.make_step()
        self._buffers = self.make_buffers(self._step)

    @property
    def lane(self) -> L:
        """The lane on which its steps run."""
        self._need_lane()
        assert self._lane
        return self._lane

    @property
    def step(self) -> CudaStep:
        """The pinned blocks of a step, and their launcher."""
        self._need_lane()
        assert self._step
        return self._step

    def buffers(self) -> B:
        """Views of the pinned blocks of its step."""
        self._need_lane()
        assert self._buffers
        return self._buffers

    def for_another_step(self) -> Self:
        return type(self)(self._loaded, self._max_items, self._max_tokens)

    def for_another_lane(self) -> Self:
        return self.for_another_step()

    def warm_up(self) -> None:
        """Captures the graphs with which a lane starts and runs a short step and a full one; nothing may run yet.

        ``ModelError`` where the answers are no numbers, ``ConfigError`` where the memory is too small for the steps.
        """
        lane = self.lane
        with self._loaded.starting(self._max_tokens):
            with STARTUP.stage("graphs"):
                lane.capture_first()
            self.run_first_steps(self._run_captured)

    def launch(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """Starts a step. Before ``settle`` the graph that fits it is captured when it is first needed."""
        lane, step = self.lane, self.step
        if lane.settled:
            if DEBUG:
                self._loaded.backend.watch()
            step.launch(n_items, n_tokens, n_new)
            lane.note(n_tokens, n_items, step)
        else:
            lane.capture_for(n_tokens, n_items)
            step.launch(n_items, n_tokens, n_new)

    def settle(self) -> bool:
        return self.lane.settle()

    def can_refine(self) -> bool:
        return self.lane.can_refine()

    def refine(self) -> None:
        self.lane.refine()

    def due_s(self) -> float:
        return self.step.due_s()

    def wait(self) -> None:
        self.step.wait()

    def run(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """One step, from launch to end."""
        self.launch(n_items, n_tokens, n_new)
        self.wait()

    def _run_captured(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """``run`` in the graphs that there are."""
        self.step.launch(n_items, n_tokens, n_new)
        self.wait()

    def run_eagerly(self, n_items: int, n_tokens: int, n_new: int, /) -> None:
        """``run`` without a graph: the same kernels over the same rows, launched one by one. For tests."""
        lane, step = self.lane, self.step
        shape = lane.closest(n_tokens, n_items)
        body = lane.body(shape)
        size = {"max_tokens": shape.tokens, "max_items": shape.items}
        packed = torch.from_numpy(step.pack(n_items, n_tokens, n_new, **size))

        def copy_and_run() -> None:
            step.copy_slots()
            self._loaded.backend.api.synchronize(lane.stream.cuda_stream)
            lane.staging[: len(packed)].copy_(packed)
            body()

        self._loaded.backend.run(copy_and_run, lane.stream)
        torch.from_numpy(step.output).copy_(lane.output)
        step.unpack(n_items, **size)

    def _need_lane(self) -> None:
        if self._lane is None:
            self.use(self.make_stream())
