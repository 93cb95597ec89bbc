"""An encoder's kernels on the GPU itself, at true shapes and in 16 bits; their other tests run there as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_rows import DEVICE, check_fp8, near, normal
from packed_rows import attention, packed
from torch.nn import functional as F

from fastqps.kernels.activate import activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.embed_norm import Embedded, embed_norm
from fastqps.kernels.layers import Attention, Tables
from fastqps.kernels.pool import pool
from fastqps.kernels.quantise_rows import quantise_rows
from fastqps.kernels.tile_attention import tile_attention

HAS_FP8 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
needs_fp8 = pytest.mark.skipif(not HAS_FP8, reason="needs a GPU with FP8 (8.9 or later)")
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-9}
LENGTHS = [int(n) for n in torch.randint(1, 70, (110,), generator=torch.Generator().manual_seed(3))] + [256, 512]


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x.float(), (x.shape[1],), weight, bias, 1e-12)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(
    ("heads", "size", "window", "rotary"),
    [
        (12, 32, 0, False),
        (12, 64, 0, False),
        (12, 64, 64, True),
        (12, 64, 0, True),
        (8, 128, 0, True),
        (3, 80, 9, True),
    ],
)
def test_attention_at_true_shapes(dtype: torch.dtype, heads: int, size: int, window: int, rotary: bool) -> None:
    step = packed(LENGTHS, spare_tokens=0)
    qkv, angles = normal(len(step.ids), 3 * heads * size).to(dtype), normal(600, size // 2, seed=5)
    table = torch.stack((angles.cos(), angles.sin()), 1) if rotary else None
    done = tile_attention(qkv, *step.bounds(), Attention(heads, heads, table, window=window))
    near(done, attention(qkv.float(), step, heads, window, table), 4 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("width", [384, 576, 768, 896, 1024, 2048])
def test_norms_at_true_widths(dtype: torch.dtype, width: int) -> None:
    x, residual = normal(300, width).to(dtype), normal(300, width, seed=1).to(dtype)
    weight, bias = normal(width, seed=2), normal(width, seed=3)
    done = add_norm(x, weight, bias, 1e-12, "layer", residual=residual, return_sum=True)
    assert done.sum is not None and done.sum.equal(x + residual)
    near(done.values, layer_norm(done.sum, weight, bias), 2 * ROUNDING[dtype])


@needs_fp8
@pytest.mark.parametrize("width", [384, 576, 4864, 8192])
def test_float8_is_the_nearest(width: int) -> None:
    x = normal(200, width).bfloat16()
    check_fp8(*quantise_rows(x), x.float())
    gated = activate(x, "silu", gated=True, fp8=True)
    check_fp8(gated.fp8, gated.scale, F.silu(x.float()[:, : width // 2]) * x.float()[:, width // 2 :])
    weight = normal(width, seed=1)
    normed = add_norm(x, weight, None, 1e-6, "rms", return_fp8=True)
    check_fp8(normed.fp8, normed.scale, F.rms_norm(x.float(), (width,), weight, 1e-6))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gelu_written_by_the_product(dtype: torch.dtype) -> None:
    """What ``CudaLinear.gelu`` counts on, against the exact function: the tanh's is within 5e-4 before rounding."""
    x, weight, bias = (normal(*s, seed=i).to(dtype) for i, s in enumerate([(500, 384), (1536, 384), (1536,)]))
    weight /= 20
    found = torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
    exact = F.gelu(F.linear(x.float(), weight.float(), bias.float()))
    assert ((found.float() - exact).abs() <= 6e-4 + 2 * ROUNDING[dtype] * exact.abs()).all()


def test_a_captured_step_follows_its_counts() -> None:
    """One graph, three steps of other items: rows, pooled vectors and stamps are those of each."""
    words, weight = normal(50, 384).bfloat16(), normal(384, seed=1)
    tables = Tables(words, weight=weight, eps=1e-12)
    steps = [packed(lengths, spare_tokens=700 - sum(lengths), spare_items=64 - len(lengths)) for lengths in _STEPS]
    ids, marks, counts = (torch.zeros_like(t) for t in (steps[0].ids, steps[0].cu_seqlens, steps[0].counts))
    stamps, out = torch.zeros(2, dtype=torch.int64, device=DEVICE), torch.zeros(64, 384, device=DEVICE)

    def work() -> tuple[Embedded, torch.Tensor]:
        rows = embed_norm(ids, None, marks, counts, tables, stamps=stamps)
        assert rows.values is not None
        attended = tile_attention(rows.values.repeat(1, 3), rows.row_start, rows.row_end, Attention(12, 12))
        return rows, pool(attended, marks, counts, "mean", out=out, stamps=stamps)

    run = captured(work)
    ended = 0
    for step in steps:
        for static, value in ((ids, step.ids), (marks, step.cu_seqlens), (counts, step.counts)):
            static.copy_(value)
        run()
        total, start, end = sum(step.lengths), *(int(t) for t in stamps)
        assert ended < start < end
        ended = end
        x = layer_norm(words[step.ids[:total].long()], weight, torch.zeros_like(weight)).bfloat16().float()
        wanted = attention(x.repeat(1, 3), step, 12, 0, None)
        for row, (first, last) in zip(out, step.spans(), strict=False):
            near(row, wanted[first:last].mean(0), 2e-2)


_STEPS = ([5, 30, 64, 7], [1] * 40 + [200], [512])


def captured(work: Callable[[], object]) -> Callable[[], None]:
    """A graph of ``work``, which has run before, as a server's steps have."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay
