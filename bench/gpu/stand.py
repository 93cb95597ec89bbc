"""The device on which kernels are timed: a GPU with CUDA events and graphs, or the CPU as its stand-in in a dry run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Protocol

import torch

Work = Callable[[], object]
WARM = 3


class Graph(Protocol):
    """Work that was captured."""

    def replay(self) -> None:
        """Runs it again, on the current stream."""


class Stand(Protocol):
    """One device."""

    device: torch.device
    cuda: bool

    def synchronize(self) -> None: ...
    def graph(self, work: Work) -> Graph: ...
    def elapsed_us(self, work: Work, calls: int) -> float: ...


def open_stand(dry: bool) -> Stand:
    """The first GPU; the CPU if ``dry``."""
    return CpuStand() if dry else CudaStand()


class CudaStand:
    """The first GPU that this process sees."""

    cuda = True

    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(self.device)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def graph(self, work: Work) -> Graph:
        """Captured on a stream of its own, after it has run there."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM):
                work()
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream):
            work()
        torch.cuda.synchronize()
        return captured

    def elapsed_us(self, work: Work, calls: int) -> float:
        """The device's time for so many calls, one behind the other."""
        start, end = _timer(), _timer()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000


def _timer() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class CpuStand:
    """The same calls without a GPU: graphs are functions, streams are nothing."""

    cuda = False
    device = torch.device("cpu")

    def synchronize(self) -> None:
        """Nothing runs by itself."""

    def graph(self, work: Work) -> Graph:
        return _CpuGraph(work)

    def elapsed_us(self, work: Work, calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            work()
        return (time.perf_counter() - began) * 1e6


class _CpuGraph:
    def __init__(self, work: Work) -> None:
        self._work = work

    def replay(self) -> None:
        self._work()


def time_us(stand: Stand, work: Work, *, seconds: float = 0.04, rounds: int = 5) -> float:
    """One call, as the device runs it behind others: the median of ``rounds``, of about ``seconds`` in all."""
    if not stand.cuda:
        return stand.elapsed_us(work, 1)  # a dry run proves that it runs
    for _ in range(WARM):
        work()
    stand.synchronize()
    once = max(1e-3, stand.elapsed_us(work, 1))
    calls = max(1, min(1000, int(seconds * 1e6 / rounds / once)))
    return statistics.median(stand.elapsed_us(work, calls) for _ in range(rounds)) / calls


def kernel_us(stand: Stand, work: Work, *, copies: int = 20, seconds: float = 0.04) -> float:
    """One call without what launching it costs the host: ``copies`` in a graph. Data may stay in the cache."""

    if not stand.cuda:
        return stand.elapsed_us(work, 1)

    def many() -> None:
        for _ in range(copies):
            work()

    return time_us(stand, stand.graph(many).replay, seconds=seconds) / copies
