"""The interface to CUDA that the steps of a GPU need to start. ``CudaStep`` makes the calls of each step itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from fastqps._core import CudaApi

Body = Callable[[], None]  # computes one step, from a staging block to an output block


class Graph(NamedTuple):
    """A captured step: the handle for ``CudaLane.add_graph``, and the objects that must live as long as it can run."""

    handle: int
    kept: Any


class Stream(Protocol):
    """It lives as long as the object."""

    @property
    def cuda_stream(self) -> int:
        """Its handle."""


class Backend(Protocol):
    """One GPU in this process. Steps do not need it: it is for starts, and for captures between steps."""

    api: CudaApi
    device: torch.device
    where: str  # for people: cuda:0
    name: str  # the make of the GPU: all of one name are equally fast
    uuid: str  # the same for every process that uses this GPU
    multiprocessors: int
    kind: str  # the same for GPUs on which the same code runs: "NVIDIA H200 (9.0)"

    def memory(self) -> tuple[int, int]:
        """Free and total bytes, as all processes that use the GPU leave them."""

    def trim(self) -> None:
        """Gives memory back that was taken for work which has ended."""

    def host_words(self, rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """int32 [rows, width] of zeros in the host's memory: as the host writes them, and as the device reads them."""

    def make_stream(self) -> Stream:
        """One that waits for no other."""

    def make_pool(self) -> Any:
        """Makes a memory pool for graphs that never run at the same time."""

    def run(self, body: Body, stream: Stream) -> None:
        """Runs ``body`` after the stream's present work, and waits for its end."""

    def capture(self, body: Body, stream: Stream, pool: Any, stamps: int) -> Graph:
        """The work that ``body`` gives to the stream, for any number of times. It may run once.

        ``stamps`` is the address of the output block, where the step's first and last kernel tell the time.
        """

    def capturing(self) -> bool:
        """Whether this thread's stream is being captured, so that its work does not run now."""

    def launcher(self, name: str) -> Callable[..., Any]:
        """The launcher of the kernel of that name. Raises ``ImportError`` if Triton cannot be used."""

    def watch(self) -> None:
        """``RuntimeError`` if since its first call anything was done but steps: the debug mode's look at each."""
