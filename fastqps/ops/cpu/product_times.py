"""How long matrix products take on this CPU, in bf16 or fp32 and quantised: what ``--quantization auto`` goes by."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from fastqps.ops.cpu.fp8 import CpuFp8Linear
from fastqps.ops.cpu.int8 import CpuInt8Linear
from fastqps.ops.cpu.linear import CpuLinear
from fastqps.ops.precision import Format, Product
from fastqps.ops.rows import rows_for

RUNS_MIN, RUNS_MAX = 7, 100
LONG_S = 0.05  # of one product's runs


def product_times(dtype: torch.dtype, quantised_format: Format) -> Callable[[Product, bool], float]:
    """The function with which ``Precision`` measures products: one weight of each shape, whatever the caches hold."""

    make = CpuInt8Linear if quantised_format == "int8" else CpuFp8Linear

    def time_us(product: Product, quantised: bool) -> float:
        x, weight = (torch.randn(n, product.kind.inputs) for n in (product.rows, product.kind.outputs))
        x = x.to(dtype)
        linear = make(weight, None, dtype) if quantised else CpuLinear(weight, None, dtype)
        with torch.inference_mode():
            return _shortest_us(lambda: linear(rows_for(x, linear)))

    return time_us


def _shortest_us(run: Callable[[], object]) -> float:
    """The shortest of some runs, the first of which is not counted."""
    run()
    taken: list[float] = []
    while len(taken) < RUNS_MIN or (len(taken) < RUNS_MAX and sum(taken) < LONG_S):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken) * 1e6
