"""The debug mode: once all is warm, a step may copy, launch a graph and look for its end, and nothing else."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from fastqps._core import CudaApi

DEBUG = os.environ.get("FASTQPS_DEBUG_DEVICE") == "1"
STEP_CALLS = {"cudaMemcpyAsync", "cudaMemcpy3DAsync", "cudaGraphLaunch", "cudaEventRecord", "cudaEventQuery"}
# cudaGetLastError does not call the device. It clears the error that a query leaves which returns "not ready".
STEP_CALLS |= {"cudaGetLastError"}


class Watched(ABC):
    """Holds a backend to that. ``watch`` is called at each step; its first call begins."""

    api: CudaApi
    _sealed = False

    def watch(self) -> None:
        """``RuntimeError`` if since the first call memory was allocated, or CUDA was asked for more than steps."""
        if not self._sealed:
            self._sealed = True
            self.seal()
            self.api.mark()
        self.check_memory()
        if others := sorted({name for name, count in self.api.counts().items() if count} - STEP_CALLS):
            raise RuntimeError(f"while serving, CUDA was asked for more than steps: {', '.join(others)}")

    @abstractmethod
    def seal(self) -> None:
        """Makes synchronising calls raise from now on, and ``check_memory`` look."""

    @abstractmethod
    def check_memory(self) -> None:
        """``RuntimeError`` if since ``seal`` device memory was allocated or freed."""
