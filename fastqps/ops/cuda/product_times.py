"""How long matrix products take on this GPU, in the model's type and in FP8: what ``--quantization auto`` goes by.

They are timed as they are served, in a captured graph: outside of one the host would take longer than most of them. A
product with an epilogue is timed together with the kernel that follows it, because FP8 moves work there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from fastqps.kernels.operations import Operations, own_operations
from fastqps.ops.cuda.ops import CudaNorm
from fastqps.ops.cuda.products import CudaActivated, CudaFp8Linear, CudaLinear
from fastqps.ops.fp8 import quantised_for
from fastqps.ops.interface import Rows
from fastqps.ops.precision import Product

WEIGHTS_MAX_BYTES = 1 << 30  # of one shape: many times what the GPU's caches hold
RUNS = 9
REPLAYS = 10  # of the graph in each run


def product_times(
    dtype: torch.dtype, device: torch.device, kernels: Operations | None = None
) -> Callable[[Product, bool], float]:
    """The function with which ``Precision`` measures products."""

    def time_us(product: Product, fp8: bool) -> float:
        # Outside of inference mode, in which a decoder is loaded: the first capture of a process makes tensors that all
        # others write, and captures outside of that mode could not.
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(device):
            count, run = products(product, fp8, dtype, device, kernels)
            found = _graph_us(run) / count
            del run
            torch.cuda.empty_cache()  # who looks at free memory next should not miss these weights
            return found

    return time_us


def products(
    product: Product, fp8: bool, dtype: torch.dtype, device: torch.device, kernels: Operations | None = None
) -> tuple[int, Callable[[], object]]:
    """(how many, what runs them): one for each of the weights, which share the caches as those of the layers do."""
    kind = product.kind
    make = partial(torch.empty, device=device, dtype=dtype)
    size = kind.outputs * kind.inputs * dtype.itemsize
    count = max(1, min(product.weights, WEIGHTS_MAX_BYTES // size))
    kernels = kernels or own_operations()
    x = make(product.rows, kind.inputs).normal_()
    weights = [make(kind.outputs, kind.inputs).normal_() for _ in range(count)]
    bias = make(kind.outputs).zero_() if kind.epilogue == "gelu" else None
    linears: list[CudaLinear | CudaFp8Linear]
    if fp8:
        linears = [CudaFp8Linear(quantised_for(device, weight), bias, dtype) for weight in weights]
    else:
        linears = [CudaLinear(weight, bias) for weight in weights]
    runs = [_with_epilogue(product, linear, make(product.rows, kind.outputs).zero_(), kernels) for linear in linears]
    rows = Rows(None, *kernels.quantise_rows(x)) if fp8 and kind.fused else Rows(x)
    if fp8 and not kind.fused:
        return count, lambda: [run(Rows(None, *kernels.quantise_rows(x))) for run in runs]
    return count, lambda: [run(rows) for run in runs]


def _with_epilogue(
    product: Product, linear: CudaLinear | CudaFp8Linear, residual: torch.Tensor, kernels: Operations
) -> Callable[[Rows], object]:
    """The product with what the kernel behind it does, for a reader of the same type as the product itself."""
    kind = product.kind
    if kind.epilogue == "gelu":
        activated = CudaActivated(linear, "gelu", kernels, gated=False)
        return lambda rows: activated(rows, linear)
    if kind.epilogue == "residual":
        norm = CudaNorm(torch.ones(kind.outputs, device=residual.device), None, 1e-6, "rms", kernels)
        return lambda rows: norm.add(linear, rows, residual, linear)
    return linear


def _graph_us(run: Callable[[], object]) -> float:
    """The median time of one replay."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()  # kernels are compiled, and cuBLAS takes its workspace: neither can be captured
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    taken: list[float] = []
    with torch.cuda.stream(stream):
        for _ in range(1 + RUNS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            for _ in range(REPLAYS):
                graph.replay()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) * 1000 / REPLAYS)
    return median(taken[1:])
