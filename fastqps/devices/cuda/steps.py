"""What encoders and decoders on a GPU have in common: their steps are launched, and waited for."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch

from fastqps._core import CudaStep
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.lane import GraphLane
from fastqps.devices.cuda.watch import DEBUG
from fastqps.models.card import ModelCard

L = TypeVar("L", bound=GraphLane)


class GraphSteps(Generic[L]):
    """Steps of one set of pinned buffers. Before ``use`` it has a lane of its own as soon as it needs one."""

    instant = False
    prepare_us = 0.0

    def __init__(self, card: ModelCard, backend: Backend) -> None:
        self.card = card
        self._backend = backend
        self._lane: L | None = None
        self._step: CudaStep | None = None
        self._warm = False

    def make_stream(self) -> L:
        raise NotImplementedError

    def use(self, stream: L) -> None:
        self._lane, self._step = stream, stream.make_step()

    @property
    def lane(self) -> L:
        """Where its steps run."""
        if self._lane is None:
            self.use(self.make_stream())
        assert self._lane is not None
        return self._lane

    @property
    def step(self) -> CudaStep:
        """Its pinned blocks, and what launches them."""
        assert self.lane is not None and self._step is not None
        return self._step

    def launch(self, n_items: int, n_tokens: int, third: int, /) -> None:
        """Starts a step. Before ``warm_up`` its graph is captured when it is first needed."""
        if not self._warm:
            self.lane.capture(self.lane.smallest(n_tokens, n_items))
        elif DEBUG:
            self._backend.watch()
        self.step.launch(n_items, n_tokens, third)

    def due_s(self) -> float:
        return self.step.due_s()

    def wait(self) -> None:
        self.step.wait()

    def run(self, n_items: int, n_tokens: int, third: int, /) -> None:
        """One step, from launch to end."""
        self.launch(n_items, n_tokens, third)
        self.wait()

    def _compute(self, n_items: int, n_tokens: int) -> None:
        """The step in ``buffers()`` by the kernels of its graph, launched one by one."""
        lane = self.lane
        body = lane.body(lane.smallest(n_tokens, n_items))

        def copy_and_run() -> None:
            lane.staging.copy_(torch.from_numpy(self.step.staging)[: len(lane.staging)])
            body()

        self._backend.run(copy_and_run, lane.stream)
        torch.from_numpy(self.step.output).copy_(lane.output)
