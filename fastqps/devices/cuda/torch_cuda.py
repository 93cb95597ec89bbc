"""A real GPU, through torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fastqps._core import CudaApi
from fastqps.devices.cuda.backend import Body, Graph, Stream
from fastqps.devices.cuda.watch import Watched
from fastqps.devices.errors import DeviceError
from fastqps.ops.cuda.operations import launcher

_WATCHED = ("num_alloc_retries", "num_device_alloc", "num_device_free", "allocation.all.allocated")


class _DeviceView:
    """Pinned memory of the host as a GPU has it, at the same addresses. torch keeps it as long as its tensor."""

    def __init__(self, host: torch.Tensor) -> None:
        self._host = host
        data, shape = (host.data_ptr(), False), tuple(host.shape)
        self.__cuda_array_interface__ = {"data": data, "shape": shape, "typestr": "<i4", "version": 3}


class TorchCuda(Watched):
    """``Backend`` over torch.cuda, and over the CUDA runtime that torch has loaded."""

    def __init__(self, index: int) -> None:
        if torch.version.cuda is None and torch.version.hip is None:
            needs = f"device cuda:{index} needs a torch with CUDA or ROCm"
            raise DeviceError(f"{needs}; this one ({torch.__version__}) has neither")
        try:
            gpus = torch.cuda.device_count()
            if index >= gpus:
                raise DeviceError(f"device cuda:{index} is not there: CUDA sees {gpus} GPUs")
            torch.cuda.set_device(index)
            torch.cuda.init()  # type: ignore[no-untyped-call]
            properties = torch.cuda.get_device_properties(index)
        except RuntimeError as error:
            raise DeviceError(f"device cuda:{index} cannot be used: {str(error).splitlines()[0]}") from error
        self.device = torch.device("cuda", index)
        self.where = f"cuda:{index}"
        self.name = f"{properties.name}, compute capability {properties.major}.{properties.minor}"
        self.uuid = f"GPU-{properties.uuid}"
        self.kind = f"{properties.name} ({properties.major}.{properties.minor})"
        self.multiprocessors = properties.multi_processor_count
        self.api = CudaApi()
        self.api.set_device(index)
        self._then: dict[str, int] = {}

    def memory(self) -> tuple[int, int]:
        self.trim()  # torch's cached memory counts as free
        return torch.cuda.mem_get_info(self.device)

    def trim(self) -> None:
        torch.cuda.empty_cache()

    def host_words(self, rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        host = torch.zeros(rows, width, dtype=torch.int32, pin_memory=True)
        return host, torch.as_tensor(_DeviceView(host), device=self.device)

    def make_stream(self) -> Stream:
        stream: Stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        return stream

    def make_pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    def run(self, body: Body, stream: Stream) -> None:
        # The default stream's work (copies of weights and tables to the device) comes first.
        torch.cuda.synchronize(self.device)
        with torch.cuda.stream(stream):  # type: ignore[arg-type]
            body()
        torch.cuda.synchronize(self.device)

    def capture(self, body: Body, stream: Stream, pool: Any, stamps: int) -> Graph:
        del stamps  # the kernels' business
        graph = torch.cuda.CUDAGraph()
        # On the lane's own stream: torch keeps workspaces of matrix products by stream, and graphs of two lanes that
        # shared one would overwrite each other's. Other threads' calls do not concern this capture: thread_local. Not
        # by torch.cuda.graph, which gives all cached memory back each time: the next run would have to take it again.
        with torch.cuda.stream(stream):  # type: ignore[arg-type]
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                body()
            finally:
                graph.capture_end()
            graph.replay()  # on its way to the device now, not with the first request that needs it
        torch.cuda.synchronize(self.device)
        return Graph(int(graph.raw_cuda_graph_exec()), graph)

    def capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def launcher(self, name: str) -> Callable[..., Any]:
        return launcher(name)

    def seal(self) -> None:
        torch.cuda.set_sync_debug_mode("error")
        self._then = self._memory_events()

    def check_memory(self) -> None:
        if (now := self._memory_events()) != self._then:
            raise RuntimeError(f"while serving, device memory was allocated or freed: {self._then} became {now}")

    def _memory_events(self) -> dict[str, int]:
        stats = torch.cuda.memory_stats(self.device)
        return {name: int(stats.get(name, 0)) for name in _WATCHED}
