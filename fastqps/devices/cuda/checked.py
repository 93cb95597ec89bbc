"""The kernels that a model uses on this GPU: those that were tested here and agree with plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from fastqps._core import CudaError
from fastqps.devices.cuda.backend import Backend
from fastqps.devices.cuda.memory import is_out_of_memory
from fastqps.devices.errors import DeviceError, DeviceFault
from fastqps.devices.place import Place
from fastqps.kernels.checks import arguments_of, check, shape_of
from fastqps.kernels.journal import CRASHES_MAX, Journal, Verdict
from fastqps.ops.cuda.operations import Operations, torch_operations
from fastqps.process.startup import STARTUP
from fastqps.terminal import Level, say

P = ParamSpec("P")
R = TypeVar("R")
MODES = ("auto", "own", "torch")


def make_operations(place: Place, backend: Backend) -> Operations:
    """The operations that ``place.kernels`` chooses. ``DeviceError`` for an unknown mode."""
    if place.kernels not in MODES:
        raise DeviceError(f"no kernels {place.kernels!r}; there are: {', '.join(MODES)}")
    if place.kernels == "torch":
        return torch_operations()
    if place.kernels == "own":
        return Operations(lambda name, plain: backend.launcher(name))
    return Operations(Checked(backend, Journal(place.kernels_fd)).choose)


class Checked:
    """Checks each kernel at the first call with a shape, which must not be captured."""

    def __init__(self, backend: Backend, journal: Journal) -> None:
        self._backend, self._journal = backend, journal
        self._faults: dict[str, str] = {}  # by kernel and shape; "": the kernel is used

    def choose(self, name: str, plain: Callable[P, R], /) -> Callable[P, R]:
        """Calls the kernel where it agrees with ``plain``, else ``plain``."""
        kernel = self._launcher(name)

        @wraps(plain)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            arguments = arguments_of(plain, args, kwargs)
            shape = shape_of(name, arguments)
            key = f"{name} {shape}"
            if key not in self._faults:
                if self._backend.capturing():
                    raise RuntimeError(f"{key} is captured before it was called: it cannot be checked now")
                self._faults[key] = self._settle(name, shape, lambda: self._try(name, kernel, plain, arguments, shape))
            chosen: Callable[..., R] = plain if self._faults[key] else kernel
            return chosen(*args, **kwargs)

        return call

    def _launcher(self, name: str) -> Callable[..., Any]:
        try:
            return self._backend.launcher(name)
        except ImportError as error:  # Triton is missing, or not the one that is needed
            reason = str(error)

            def missing(**arguments: Any) -> None:
                raise RuntimeError(reason)

            return missing

    def _settle(self, name: str, shape: str, attempt: Callable[[], str]) -> str:
        """The fault of a kernel at a shape: another process's verdict, or that of the ``attempt``."""
        try:
            with STARTUP.stage("kernels"), self._journal.locked():
                return self._settle_alone(name, shape, attempt)
        except TimeoutError as error:
            raise DeviceError(f"kernel {name}: {error}") from None

    def _settle_alone(self, name: str, shape: str, attempt: Callable[[], str]) -> str:
        gpu = self._backend.kind
        if died := self._journal.unfinished():
            self._conclude(Verdict(*died, fault="the check ended its process", crashed=True))
        known = [verdict for verdict in self._journal.verdicts() if verdict.gpu == gpu]
        for verdict in known:
            if (verdict.kernel, verdict.shape) == (name, shape):
                return verdict.fault
        crashed = sorted({verdict.kernel for verdict in known if verdict.crashed})
        if name in crashed:
            fault = "its check at another shape ended the process"
        elif len(crashed) >= CRASHES_MAX:
            fault = f"it is not tried: {' and '.join(crashed)} ended their processes"
        else:
            self._backend.api.synchronize()  # a device that has failed already is not held against the kernel
            with self._journal.announced(gpu, name, shape, keep=DeviceFault):
                fault = attempt()
        self._conclude(Verdict(gpu, name, shape, fault))
        return fault

    def _conclude(self, verdict: Verdict) -> None:
        self._journal.conclude(verdict)
        if verdict.fault:
            say(
                f"kernel {verdict.kernel} is replaced by torch on {verdict.gpu}, for {verdict.shape}: {verdict.fault}",
                Level.WARNING,
            )

    def _try(
        self,
        name: str,
        kernel: Callable[..., Any],
        plain: Callable[..., Any],
        arguments: dict[str, Any],
        shape: str,
    ) -> str:
        try:
            difference = check(name, kernel, plain, arguments)
        except torch.OutOfMemoryError:
            raise  # of the GPU, and no fault of the kernel
        except Exception as error:  # the compiler has errors of many types
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            try:
                self._backend.api.synchronize()
            except CudaError:
                raise DeviceFault(
                    f"the device has failed in the check of kernel {name} ({shape}): {reason}; "
                    "kernels torch (--kernels torch) serves without it"
                ) from error
            if is_out_of_memory(reason):
                raise torch.OutOfMemoryError(reason) from error
            return f"it does not run: {reason}"
        return str(difference) if difference else ""
