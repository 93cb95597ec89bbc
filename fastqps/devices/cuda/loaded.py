"""A model on a GPU, as all lanes of a process share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from fastqps._core import CudaError
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.memory import is_out_of_memory, report_oom_of_steps
from fastqps.devices.errors import DeviceFault
from fastqps.devices.start_lock import alone_on
from fastqps.models.card import ModelCard

M = TypeVar("M")


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """The model with its weights. Memory of the GPU is taken only within ``starting``."""

    card: ModelCard
    backend: Backend
    model: M

    def starting(self, max_tokens: int) -> AbstractContextManager[None]:
        """Calls the function ``starting`` for this model."""
        return starting(self.card, self.backend, max_tokens)


@contextmanager
def starting(card: ModelCard, backend: Backend, max_tokens: int) -> Iterator[None]:
    """Alone on the GPU among those that start.

    ``ConfigError`` where its memory is too small, ``DeviceFault`` where a kernel failed, be it another process's.
    """
    with alone_on(backend.uuid), report_oom_of_steps(card, max_tokens, backend.where), report_device_faults(backend):
        yield


@contextmanager
def report_device_faults(backend: Backend) -> Iterator[None]:
    """Maps errors to ``DeviceFault`` where the device has failed, and to ``torch.OutOfMemoryError`` for lack of memory.

    torch, Triton and cuBLAS have errors of their own for both. Of a fault the device itself is asked: whatever one asks
    of it fails from then on.
    """
    try:
        yield
    except (CudaError, torch.OutOfMemoryError):
        raise  # their class identifies them
    except RuntimeError as error:
        cause = _cause(error)
        reason = str(cause).partition("\n")[0]
        try:
            backend.api.synchronize()
        except CudaError:
            raise DeviceFault(f"the device has failed: {reason}") from error
        if is_out_of_memory(reason):
            raise torch.OutOfMemoryError(reason) from error
        if cause is not error:
            raise RuntimeError(reason) from error
        raise


def _cause(error: BaseException) -> BaseException:
    """The first of CUDA's errors, because the last one of a failed capture only reports an earlier failure."""
    while isinstance(before := error.__context__, RuntimeError):
        error = before
    return error
