"""One stream of a GPU with the static memory of its steps, and a captured graph for each size of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import torch

from fastqps._core import HEADER_WORDS, STAMP_WORDS, CudaLane, CudaStep
from fastqps.devices.cuda.backend import Backend, Body, Graph
from fastqps.devices.cuda.buckets import Shape
from fastqps.devices.cuda.demand import Demand, smallest
from fastqps.devices.cuda.loaded import report_device_faults
from fastqps.devices.cuda.memory import report_oom_of_host
from fastqps.devices.cuda.watch import DEBUG
from fastqps.models.card import ModelCard
from fastqps.terminal import say

FINER_S_MAX = 0.5  # of a lane's start that goes into graphs which it could do without
GRAPHS_MAX = 192  # of a lane: each takes some memory of the device and of the host


class GraphLane(ABC):
    """Steps run one behind the other, so one staging block, one output block and one pool of memory serve them all.

    Both blocks are as large as the largest step needs. A graph reads and writes them by the layout of its own shape, so
    that a step is copied without the room that it does not fill. The host's blocks are those of each ``CudaStep`` on
    ``native``.

    A start captures few graphs. Until ``settle``, a step has the graph that fits it captured before it runs. From then
    on a step runs at once in the smallest graph that holds it, and ``refine`` captures between steps what is wanted.
    """

    native: CudaLane  # launches into the stream

    def __init__(self, backend: Backend, card: ModelCard, staging_words: int, output_words: int) -> None:
        self.backend = backend
        self._card = card
        self.stream = backend.make_stream()
        self.staging = torch.zeros(staging_words, dtype=torch.int32, device=backend.device)
        self._block = torch.zeros(STAMP_WORDS + output_words, dtype=torch.int32, device=backend.device)
        self.output = self._block[STAMP_WORDS:]
        self.stamps = self._block[:4].view(torch.int64)
        self.pool = backend.make_pool()
        self.graphs: dict[Shape, Graph] = {}
        self._steps: list[CudaStep] = []
        self.settled, self._refined = False, 0
        self._demand: Demand | None = None  # None: no graph is captured any more

    @property
    def addresses(self) -> dict[str, int]:
        """The arguments of ``CudaLane``: its stream and the addresses of its blocks."""
        blocks = {"staging": self.staging.data_ptr(), "output": self._block.data_ptr()}
        return {"stream": self.stream.cuda_stream, **blocks}

    def make_step(self) -> CudaStep:
        """Pinned blocks for one more step that can be in flight. ``ConfigError`` where there is no memory for them."""
        with report_oom_of_host(self._card, self.backend.where):
            self._steps.append(CudaStep(self.native))
        return self._steps[-1]

    @abstractmethod
    def body(self, shape: Shape) -> Body:
        """Computes a step of up to that size between the blocks, laid out for ``shape``, from static tensors alone."""

    @property
    @abstractmethod
    def covering(self) -> Sequence[Shape]:
        """Sizes between which every step that the limits allow finds one that holds it; the largest first."""

    @property
    def finer(self) -> Sequence[Shape]:
        """Sizes that waste less, the largest first, where their number is known beforehand."""
        return ()

    @abstractmethod
    def closest(self, n_tokens: int, n_items: int) -> Shape:
        """The size of the graph that fits a step which the limits allow."""

    def capture(self, shape: Shape) -> None:
        """Makes the graph of a size, unless it is there, behind the steps that are in flight.

        Its kernels have then run once: compiled, with the libraries' workspaces made, for a step of no rows.
        """
        if shape in self.graphs:
            return
        self.wait()
        body = self.body(shape)

        def empty() -> None:
            self.empty_staging()
            body()

        self.backend.run(empty, self.stream)
        if not any(larger.tokens >= shape.tokens and larger.items >= shape.items for larger in self.graphs):
            self.backend.trim()  # the pool of the graphs grows by as much as that run has taken
        graph = self.backend.capture(body, self.stream, self.pool, self._block.data_ptr())
        self.native.add_graph(graph.handle, max_tokens=shape.tokens, max_items=shape.items)
        self.graphs[shape] = graph  # and with it the memory that the graph reads and writes

    def wait(self) -> None:
        """Returns when the steps in flight have ended."""
        for step in self._steps:
            step.wait()

    def empty_staging(self) -> None:
        """Leaves a step of no rows, for graphs that run as they are captured."""
        self.staging[:HEADER_WORDS].zero_()

    def capture_first(self) -> None:
        """Makes the graphs without which a step could find none, and finer ones for ``FINER_S_MAX``; once."""
        if self.graphs.keys() >= set(self.covering):
            return
        start = time.monotonic()
        for shape in self.covering:
            self.capture(shape)
        end = time.monotonic() + FINER_S_MAX
        for shape in self.finer:
            if time.monotonic() > end:
                break
            self.capture(shape)
        self.backend.trim()
        took_s = time.monotonic() - start
        captured = f"{len(self.graphs)} graphs of {self._card.name} captured in {took_s:.1f} s"
        say(f"{self.backend.where}: {captured}")

    def capture_for(self, n_tokens: int, n_items: int) -> None:
        """Makes the graph for a step that is about to run, before ``settle``."""
        shape = self.closest(n_tokens, n_items)
        if len(self.graphs) >= GRAPHS_MAX:
            shape = smallest(self.covering, shape)
        self.capture(shape)

    def settle(self) -> bool:
        """Begins to serve. Returns whether ``refine`` may have something to capture later.

        The debug mode, in which nothing but steps may happen, captures nothing more.
        """
        self.settled = True
        complete = bool(self.finer) and set(self.finer) <= self.graphs.keys()
        self._demand = None if DEBUG or complete else Demand()
        return self._demand is not None

    def note(self, n_tokens: int, n_items: int, step: CudaStep) -> None:
        """A step of this size was launched."""
        if self._demand is not None and (shape := self.closest(n_tokens, n_items)) not in self.graphs:
            self._demand.note(shape, Shape(*step.graph))

    def can_refine(self) -> bool:
        """Whether ``refine`` would capture a graph now."""
        return self._wanted() is not None

    def refine(self) -> None:
        """Captures the graph that the latest steps would have saved most in, when no step is in flight."""
        if (shape := self._wanted()) is None:
            return
        start = time.monotonic()
        if not self.try_capture(partial(self.capture, shape)):
            self._demand = None
            return
        self._refined += 1
        if self._refined.bit_count() == 1:  # the first ones, then ever fewer
            took_ms = 1000 * (time.monotonic() - start)
            captured = f"graphs of {self._card.name} captured while serving: {self._refined}"
            say(f"{self.backend.where}: {captured}, the last in {took_ms:.0f} ms")
        if len(self.graphs) >= GRAPHS_MAX:
            say(f"{self.backend.where}: {GRAPHS_MAX} graphs of {self._card.name}, the most of a lane")
            self._demand = None

    def try_capture(self, capture: Callable[[], None]) -> bool:
        """Whether there was memory for a ``capture`` while serving. Without it, steps go on in the graphs there are."""
        try:
            with report_device_faults(self.backend):
                capture()
        except torch.OutOfMemoryError as error:
            say(f"{self.backend.where}: no memory for finer graphs: {error}")
            self.backend.trim()
            return False
        self.backend.trim()  # other processes may need what the run before the capture took
        return True

    def _wanted(self) -> Shape | None:
        return self._demand.best_shape(self.graphs) if self._demand else None
