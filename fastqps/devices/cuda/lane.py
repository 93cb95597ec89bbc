"""One stream of a GPU with the static memory of its steps, and a captured graph for each size of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from fastqps._core import HEADER_WORDS, STAMP_WORDS, CudaLane, CudaStep
from fastqps.devices.cuda.backend import Backend, Body, Graph
from fastqps.devices.cuda.buckets import Shape
from fastqps.devices.cuda.memory import report_oom_of_host
from fastqps.models.card import ModelCard

CLOSER_S_MAX = 10.0  # start-up time of a lane that goes into graphs which it could do without


class GraphLane(ABC):
    """Steps run one behind the other, so one staging block, one output block and one pool of memory serve them all.

    Both blocks are as large as the largest step needs. A graph reads and writes them by the layout of its own shape, so
    that a step is copied without the room that it does not fill. The host's blocks are those of each ``CudaStep`` on
    ``native``.
    """

    native: CudaLane  # launches into the stream
    complete = False  # every graph that ``capture_all`` makes is there: none is captured any more

    def __init__(self, backend: Backend, card: ModelCard, staging_words: int, output_words: int) -> None:
        self.backend = backend
        self._card = card
        self.stream = backend.make_stream()
        self.staging = torch.zeros(staging_words, dtype=torch.int32, device=backend.device)
        self._block = torch.zeros(STAMP_WORDS + output_words, dtype=torch.int32, device=backend.device)
        self.output = self._block[STAMP_WORDS:]
        self.stamps = self._block[:4].view(torch.int64)
        self._pool = backend.make_pool()
        self._graphs: dict[Shape, Graph] = {}
        self._steps: list[CudaStep] = []

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
    def closer(self) -> Sequence[Shape]:
        """Sizes that waste less, the most useful first."""
        return ()

    def smallest(self, n_tokens: int, n_items: int) -> Shape:
        """The size of ``covering`` in which a step runs. Raises ``ValueError`` for a step beyond all limits."""
        fits = [shape for shape in self.covering if shape.tokens >= n_tokens and shape.items >= n_items]
        if not fits:
            raise ValueError(
                f"a step of {n_tokens} tokens and {n_items} items is larger than any graph: a limit is off"
            )
        return min(fits)

    def capture(self, shape: Shape) -> None:
        """Makes the graph of a size, unless it is there, behind the steps that are in flight.

        Its kernels have then run once: compiled, with the libraries' workspaces made, for a step of no rows.
        """
        if shape in self._graphs:
            return
        for step in self._steps:
            step.wait()
        body = self.body(shape)

        def empty() -> None:
            self.staging[:HEADER_WORDS].zero_()
            body()

        self.backend.run(empty, self.stream)
        graph = self.backend.capture(body, self.stream, self._pool, self._block.data_ptr())
        self.native.add_graph(graph.handle, max_tokens=shape.tokens, max_items=shape.items)
        self._graphs[shape] = graph  # and with it the memory that the graph reads and writes

    def capture_all(self) -> None:
        """Makes all graphs that are needed, and as many of the others as a start-up has time for.

        Not later: a capture holds up the whole device, and what torch keeps for it.
        """
        if self.complete:
            return
        start = time.monotonic()
        for shape in self.covering:
            self.capture(shape)
        left = [shape for shape in self.closer if shape not in self._graphs]
        end = time.monotonic() + CLOSER_S_MAX
        while left and time.monotonic() < end:
            self.capture(left.pop(0))
        report = f"{self.backend.where}: {len(self._graphs)} graphs of {self._card.name} captured in "
        report += f"{time.monotonic() - start:.1f} s"
        print(report + (f"; {len(left)} finer ones left out, to start in time" if left else ""), flush=True)
        self.complete = True
