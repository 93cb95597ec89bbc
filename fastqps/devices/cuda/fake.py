"""A GPU for tests: its memory is the CPU's, its streams are threads, its graphs are Python functions that they call."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fastqps._core import CudaApi
from fastqps.devices.cuda.backend import Body, Graph, Stream
from fastqps.devices.cuda.watch import Watched
from fastqps.devices.errors import DeviceError
from fastqps.host.gpus import VISIBLE
from fastqps.kernels import torch_ops
from fastqps.ops.cuda.operations import launcher

FAULTS = "FASTQPS_TEST_KERNEL_FAULTS"  # "pool=compile,add_norm=miscompute,sample=crash"


def faulty(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """``kernel`` with the fault that the environment has for its name."""
    faults = dict(part.partition("=")[::2] for part in os.environ.get(FAULTS, "").split(",") if part)
    if name not in faults:
        return kernel

    def fail(*args: Any, **named: Any) -> Any:
        match faults[name]:
            case "compile":
                raise RuntimeError("PassManager::run failed\nat line 7")
            case "crash":
                os.abort()
            case "miscompute":
                return _spoiled(kernel(*args, **named), named)
            case fault:
                raise ValueError(f"{FAULTS}: no fault {fault!r}")

    return fail


def _spoiled(returned: Any, arguments: dict[str, Any]) -> Any:
    """The result with an error of a tenth; of one that only writes, its tokens with one of 1 or its logits."""
    if returned is None:
        returned = (arguments["tokens"] if "tokens" in arguments else arguments["logits"],)
    results = (returned,) if isinstance(returned, torch.Tensor) else returned
    values = next(x for x in results if x is not None)
    values += 0.1 * values.abs() if values.is_floating_point() else 1
    return returned


_NAME = "GPU-fake-"
_MULTIPROCESSORS = 132
_MEMORY_CALLS = ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost")
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class _Stream:
    cuda_stream: int


class _NoCollection:
    """Suspends Python's garbage collector, which could free objects that wait for the stream of its own thread."""

    def __init__(self) -> None:
        self._lock, self._inside, self._enabled = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            self._enabled = gc.isenabled() if not self._inside else self._enabled
            self._inside += 1
            gc.disable()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._enabled and not self._inside:
                gc.enable()


_no_collection = _NoCollection()


class FakeCuda(Watched):
    """``Backend`` over csrc/tests' CUDA runtime. Everything above it is the same as on a GPU."""

    kind = "fake GPU"
    interprets = os.environ.get("FASTQPS_TEST_FAKE_KERNELS") == "1"  # kernels, which is slow; else torch stands in

    def __init__(self, library: str, index: int) -> None:
        self.api = CudaApi(library)
        seen = os.environ.get(VISIBLE, "")  # by its identifier, as a server's process is told which one is its own
        index = int(seen.rpartition("-")[2]) if seen.startswith(_NAME) else index
        if index >= self.api.device_count():
            raise DeviceError(f"device cuda:{index} is not there: CUDA sees {self.api.device_count()} GPUs")
        self.api.set_device(index)
        self.device = torch.device("cpu")
        self.where = f"cuda:{index}"
        self.name = "fake"
        self.uuid = f"{_NAME}{index}"
        self.multiprocessors = _MULTIPROCESSORS
        self._replay = threading.local()
        self._library = ctypes.CDLL(library)
        self._library.fakeCount.restype = ctypes.c_int64
        self._library.fakeGraphCreate.restype = ctypes.c_void_p
        self._library.fakeGraphCreate.argtypes = [_Callback, ctypes.c_void_p, ctypes.c_void_p]

    def memory(self) -> tuple[int, int]:
        return self.api.memory()

    def trim(self) -> None:
        """It is Python's."""

    def host_words(self, rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        host = torch.zeros(rows, width, dtype=torch.int32)
        return host, host

    def make_stream(self) -> Stream:
        return _Stream(self.api.make_stream())

    def make_pool(self) -> Any:
        return None

    def run(self, body: Body, stream: Stream) -> None:
        self.api.synchronize(stream.cuda_stream)
        body()

    def capture(self, body: Body, stream: Stream, pool: Any, stamps: int) -> Graph:
        del stream, pool

        def run(user: int | None) -> None:
            del user
            try:
                self._replay.runs = True
                with _no_collection:
                    body()
                self._replay.runs = False
            except BaseException:  # a kernel cannot raise: the step's answers stay unchanged
                traceback.print_exc()

        callback = _Callback(run)
        return Graph(self._library.fakeGraphCreate(callback, None, stamps), (callback, body))

    def capturing(self) -> bool:
        return getattr(self._replay, "runs", False)

    def launcher(self, name: str) -> Callable[..., Any]:
        return faulty(name, launcher(name) if self.interprets else getattr(torch_ops, name))

    def seal(self) -> None:
        self._library.fakeMark()  # counts all callers, not only ``api``

    def check_memory(self) -> None:
        calls = {name: self._library.fakeCount(name.encode()) for name in _MEMORY_CALLS}
        if any(calls.values()):
            raise RuntimeError(f"while serving, device memory was allocated or freed: {calls}")
