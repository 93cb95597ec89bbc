"""Kernels of rows against plain PyTorch: norms with their residual sum, float8 rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_rows import DEVICE, by_torch_too, check_fp8, count, kernel_only, near, normal, rows_of_programs
from torch.nn import functional as F

from fastqps.kernels.activate import Activation, activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.quantise_rows import quantise_rows
from fastqps.kernels.shapes import row_shape

pytestmark = pytest.mark.compute
computed_by = by_torch_too(__name__, "activate", "add_norm", "quantise_rows")


@pytest.mark.parametrize("width", [48, 384, 576])
def test_layer_norm_of_a_sum(width: int) -> None:
    x, residual, weight, bias = normal(5, width), normal(5, width, seed=1), normal(width), normal(width, seed=2)
    done = add_norm(x, weight, bias, 1e-12, "layer", residual=residual)
    near(done.values, F.layer_norm(x + residual, (width,), weight, bias, 1e-12))
    assert done.sum is None and done.fp8 is None and done.scale is None


def test_rms_norm_keeps_the_sum() -> None:
    x, residual, weight = normal(3, 96), normal(3, 96, seed=1), normal(96)
    done = add_norm(x, weight, None, 1e-6, "rms", residual=residual, return_sum=True, return_fp8=True)
    wanted = F.rms_norm(x + residual, (96,), weight, 1e-6)
    near(done.sum, x + residual)
    near(done.values, wanted)
    check_fp8(done.fp8, done.scale, wanted)


def test_norm_without_residual_or_bias() -> None:
    x, weight = normal(4, 64) + 3, normal(64)
    near(add_norm(x, weight, None, 1e-5, "layer").values, F.layer_norm(x, (64,), weight, None, 1e-5))
    done = add_norm(x, weight, None, 1e-5, "rms", return_values=False, return_fp8=True)
    assert done.values is None
    check_fp8(done.fp8, done.scale, F.rms_norm(x, (64,), weight, 1e-5))


@kernel_only
@pytest.mark.parametrize("rows", [0, 3, 6])
def test_padding_rows_are_not_written(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, 7.0))
    x, weight = normal(6, 32), normal(32)
    x[rows:] = torch.nan  # whatever is left there from another step
    done = add_norm(x, weight, None, 1e-6, "rms", residual=x, count=count(rows), return_sum=True)
    assert done.sum is not None and done.values is not None
    near(done.values[:rows], F.rms_norm(2 * x[:rows], (32,), weight, 1e-6))
    assert (done.sum[rows:] == 7).all() and (done.values[rows:] == 7).all()


@kernel_only
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("live", [0, 5, 8])
def test_rows_of_one_program_are_as_those_of_several(
    live: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, beside rows that are not finite, and with padding in a program that has other rows, too."""
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, 7.0))
    x, residual, weight, bias = normal(8, 384), normal(8, 384, seed=1), normal(384), normal(384, seed=2)
    x[1], x[live:] = torch.inf, torch.nan
    args, more = (x.to(dtype), weight, bias, 1e-12), {"residual": residual.to(dtype), "count": count(live)}
    for kind in ("layer", "rms"):
        found = []
        for rows in (1, 2, 4):
            rows_of_programs(monkeypatch, "add_norm", rows)
            done = add_norm(*args, kind, **more, return_sum=True, return_fp8=True)  # type: ignore[arg-type]
            assert done.sum is not None and done.values is not None and done.fp8 is not None and done.scale is not None
            assert (done.sum[live:] == 7).all() and (done.values[live:] == 7).all()
            numbers = [done.sum, done.values, done.fp8[:live].view(torch.uint8), done.scale[:live]]
            found.append([x.nan_to_num(-3.0) for x in numbers])
        assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))
        assert not live or found[0][1][[0, 2, 3, 4]].abs().max() < 20


def test_how_many_rows_a_program_has() -> None:
    """Several only where there are enough for all multiprocessors, and that they divide."""
    rows = {width: [row_shape(width, n).rows for n in (64, 2044, 2048, 2050, 5632)] for width in (32, 384, 768, 2048)}
    assert rows == {32: [1, 1, 4, 1, 4], 384: [1, 1, 4, 1, 4], 768: [1, 1, 2, 2, 2], 2048: [1, 1, 1, 1, 1]}


_PLAIN: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


@pytest.mark.filterwarnings("ignore:overflow")  # the interpreter's exp(large), whose inverse is 0 as it should be
@pytest.mark.parametrize("kind", _PLAIN)
def test_activations(kind: Activation) -> None:
    x = normal(11, 300) * 3
    wanted = _PLAIN[kind](x)
    near(activate(x, kind).values, wanted)
    done = activate(x, kind, fp8=True)
    assert done.values is None
    check_fp8(done.fp8, done.scale, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_of_16_bits(dtype: torch.dtype) -> None:
    x = torch.linspace(-12, 12, 2000, device=DEVICE).to(dtype)[None]
    found, wanted = activate(x, "gelu").values, F.gelu(x.float())
    assert found is not None and found.dtype == dtype
    rounding = torch.finfo(dtype).eps / 2
    if dtype == torch.bfloat16 and DEVICE == "cpu":
        rounding *= 2  # the interpreter cuts bfloat16 off
    assert ((found.float() - wanted).abs() <= 8e-5 + 1.1 * rounding * wanted.abs()).all()


def test_gated_activations() -> None:
    x = normal(9, 2 * 272) * 3
    x[7:] = torch.nan
    wanted = F.silu(x[:7, :272]) * x[:7, 272:]
    done, small = activate(x, "silu", gated=True, count=count(7)), activate(x, "silu", gated=True, fp8=True)
    assert done.values is not None and small.fp8 is not None and small.scale is not None
    near(done.values[:7], wanted)
    check_fp8(small.fp8[:7], small.scale[:7], wanted)


def test_quantised_rows() -> None:
    x = normal(6, 200) * torch.logspace(-3, 3, 6, device=DEVICE)[:, None]
    fp8, scale = quantise_rows(x, count(6))
    check_fp8(fp8, scale, x)
    assert ((fp8.float() * scale - x).abs() <= x.abs().amax(1, keepdim=True) / 7).all()


@kernel_only
@pytest.mark.skipif(DEVICE != "cpu", reason="other GPUs cannot write e4m3fnuz; on gfx942 all tests above do")
def test_quantised_rows_of_an_mi300(monkeypatch: pytest.MonkeyPatch) -> None:
    """In e4m3fnuz. No number is so small that the interpreter makes it a negative zero, which is its NaN."""
    monkeypatch.setattr("fastqps.kernels.fp8.architecture", lambda: "gfx942")
    x = normal(6, 200)
    x = (x + x.sign()) * torch.logspace(-3, 3, 6, device=DEVICE)[:, None]
    fp8, scale = quantise_rows(x, count(6))
    assert fp8.dtype == torch.float8_e4m3fnuz
    check_fp8(fp8, scale, x)


def test_a_row_of_zeros_stays_zero() -> None:
    fp8, scale = quantise_rows(torch.zeros(2, 32, device=DEVICE))
    assert (fp8.float() == 0).all() and (scale > 0).all() and scale.isfinite().all()


@kernel_only
def test_what_is_not_contiguous_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"residual .* is not contiguous"):
        add_norm(normal(4, 32), normal(32), None, 1e-6, "rms", residual=normal(32, 4).t())
    with pytest.raises(ValueError, match=r"x .* is not contiguous"):
        activate(normal(4, 64)[:, :32], "relu")
