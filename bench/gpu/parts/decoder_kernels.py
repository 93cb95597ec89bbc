"""The kernels of a decoder's step: half of its rows are prompts of 50, half go on with one token each."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from bench.gpu.parts.encoder_kernels import rows, tokens_on
from bench.gpu.parts.kernels import Make, Timed
from bench.gpu.shapes import Shape
from bench.gpu.stand import Stand
from fastqps.kernels.activate import activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.quantise_rows import quantise_rows


def _norm(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x, residual = (rows(stand, tokens_on(stand), shape.hidden) for _ in range(2))
    weight = torch.ones(shape.hidden, device=stand.device)

    def work(fp8: bool = False) -> object:
        return add_norm(
            x, weight, None, 1e-6, "rms", residual=residual, want_sum=True, want_values=not fp8, want_fp8=fp8
        )

    yield Timed(f"add_norm of {len(x)} rows", work, 4.0 * x.nbytes)
    if stand.cuda:
        yield Timed(f"add_norm of {len(x)} rows, to FP8", lambda: work(True), 3.5 * x.nbytes)
        yield Timed(f"quantise_rows of {len(x)} rows", lambda: quantise_rows(x), 1.5 * x.nbytes)


def _activate(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x = rows(stand, tokens_on(stand), 2 * int(shape.sizes["intermediate_size"]))

    def work(fp8: bool = False) -> object:
        return activate(x, "silu", gated=True, fp8=fp8)

    yield Timed(f"activate of {len(x)} rows, silu, gated", work, 1.5 * x.nbytes)
    if stand.cuda:
        yield Timed(f"activate of {len(x)} rows, silu, gated, to FP8", lambda: work(True), 1.25 * x.nbytes)


KERNELS: dict[str, Make] = {"add_norm": _norm, "activate": _activate}
