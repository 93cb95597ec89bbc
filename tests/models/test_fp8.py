"""The FP8 quantiser and its product against dequantising and multiplying."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

from fastqps.kernels.float8_format import E4M3FN, E4M3FNUZ, format_of, format_on
from fastqps.kernels.torch_ops import rows as rows_in_torch
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.ops import fp8
from fastqps.ops.fp8 import (
    Quantised,
    Weight,
    as_fnuz,
    by_part,
    concatenate,
    multiply,
    quantise_weight,
    quantised_for,
    split,
)

pytestmark = pytest.mark.compute

E4M3_VALUES = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
E4M3_FINITE = E4M3_VALUES[E4M3_VALUES.isfinite()]


def rows(n: int, width: int, seed: int = 0, spread: float = 1.0) -> torch.Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)) * spread


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.float() - expected).norm() / expected.norm())


def test_rows_are_scaled_to_the_format_and_rounded_to_its_nearest_number() -> None:
    x = rows(40, 96, spread=3.0)
    values, scales = quantise_rows(x)
    assert values.dtype == torch.float8_e4m3fn and scales.dtype == torch.float32 and scales.shape == (40, 1)
    assert torch.equal(scales[:, 0], x.abs().amax(1) / 448)
    assert (values.float().abs().amax(1) == 448).all()
    scaled = x * (448 / x.abs().amax(1, keepdim=True))
    best = scaled[:, :, None].sub(E4M3_FINITE).abs().amin(2)
    assert torch.equal((scaled - values.float()).abs(), best)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_that_the_format_holds_come_back_exactly(dtype: torch.dtype) -> None:
    x = E4M3_FINITE.reshape(2, -1).to(dtype)
    values, scales = quantise_rows(x)
    assert torch.equal(values.float() * scales, x.float())


@pytest.mark.parametrize(("outputs", "inputs"), [(16, 16), (1536, 384), (384, 1536), (48, 896)])
@pytest.mark.parametrize("n", [1, 17, 64])
def test_the_product_is_that_of_the_dequantised(outputs: int, inputs: int, n: int) -> None:
    weight = quantise_weight(rows(outputs, inputs, 1, 0.05))
    x, scales = quantise_rows(rows(n, inputs, 2))
    bias = rows(1, outputs, 3)[0]
    expected = (x.float() * scales) @ weight.dequantised().T
    # Half of the last of bf16's 8 bits is 2⁻⁸ at most, and 1.7e-3 on average over more than a few numbers.
    for dtype, most in ((torch.float32, 1e-6), (torch.bfloat16, 2e-3 if n > 1 else 2**-8)):
        assert relative(multiply(x, scales, weight, None, dtype), expected) <= most
        with_bias = multiply(x, scales, weight, bias, dtype)
        assert with_bias.dtype == dtype
        assert relative(with_bias, expected + bias) <= most


def test_a_torch_without_such_a_product_gives_the_same() -> None:
    weight, bias = quantise_weight(rows(48, 64, 1)), rows(1, 48, 3)[0]
    x, scales = quantise_rows(rows(5, 64, 2))
    expected = multiply(x, scales, weight, bias, torch.float32)
    with mock.patch.object(fp8, "has_product", lambda device: False):
        found = multiply(x, scales, weight, bias, torch.float32)
        assert multiply(x, scales, weight, None, torch.bfloat16).dtype == torch.bfloat16
    assert relative(found, expected) <= 1e-6


def test_a_product_without_a_quick_kernel_is_made_by_the_precise_one() -> None:
    """As cuBLAS has none for some of few rows with a bias. It is asked for a quick one once."""
    scaled_mm, asked = torch._scaled_mm, []

    def picky(*args: Any, use_fast_accum: bool, **more: Any) -> torch.Tensor:
        asked.append(use_fast_accum)
        if use_fast_accum:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling …")
        return scaled_mm(*args, use_fast_accum=False, **more)

    weight, bias = quantise_weight(rows(48, 64, 1)), rows(1, 48, 3)[0].bfloat16()
    x, scales = quantise_rows(rows(17, 64, 2))
    expected = multiply(x, scales, weight, bias, torch.bfloat16)
    with mock.patch.object(fp8, "_precise", set()), mock.patch.object(torch, "_scaled_mm", picky):
        found = [fp8.product(x, scales, weight, bias, torch.bfloat16, quick=True) for _ in range(2)]
    assert all(torch.equal(each, expected) for each in found)
    assert asked == [True, False, False]


def test_this_torch_has_such_a_product() -> None:
    """Else nothing above has looked at it: older ones have none on the CPU."""
    if torch.__version__ < "2.13":
        pytest.skip(f"torch {torch.__version__} may have no FP8 products on the CPU")
    assert fp8.has_product(torch.device("cpu"))


def test_quantising_costs_a_few_percent_of_a_product() -> None:
    x, weight = rows(64, 384, 1), rows(1536, 384, 2, 0.05)
    found = multiply(*quantise_rows(x), quantise_weight(weight), None, torch.float32)
    assert 0.02 < relative(found, x @ weight.T) < 0.05


def test_an_outlier_costs_its_own_row_only() -> None:
    x, weight = rows(8, 64, 1), rows(32, 64, 2)
    wild_x, wild_weight = x.clone(), weight.clone()
    wild_x[3, 5], wild_weight[7, 2] = 1e5, -1e5
    quiet = multiply(*quantise_rows(x), quantise_weight(weight), None, torch.float32)
    wild = multiply(*quantise_rows(wild_x), quantise_weight(wild_weight), None, torch.float32)
    others, channels = [i for i in range(8) if i != 3], [i for i in range(32) if i != 7]
    assert torch.equal(wild[others][:, channels], quiet[others][:, channels])
    assert relative(wild, wild_x @ wild_weight.T) < 0.05


def test_rows_of_zeros_give_zeros() -> None:
    x, weight = rows(4, 32, 1), rows(16, 32, 2)
    x[2], weight[5] = 0, 0
    found = multiply(*quantise_rows(x), quantise_weight(weight), None, torch.float32)
    assert found.isfinite().all()
    assert not found[2].any() and not found[:, 5].any()
    assert found[[0, 1, 3]][:, :5].all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_without_numbers_spoils_no_other(bad: float) -> None:
    x, weight = rows(4, 32, 1), rows(16, 32, 2)
    expected = multiply(*quantise_rows(x), quantise_weight(weight), None, torch.float32)
    x[1, 7] = bad
    found = multiply(*quantise_rows(x), quantise_weight(weight), None, torch.float32)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2, 3]], expected[[0, 2, 3]])


def test_tiny_and_huge_rows_keep_their_size() -> None:
    x = rows(3, 64, 1) * torch.tensor([[1e-11], [1.0], [1e15]])
    values, scales = quantise_rows(x)
    for row, back in zip(x, values.float() * scales, strict=True):
        assert relative(back, row) < 0.05


def test_weights_of_one_input_are_joined() -> None:
    parts = [rows(16, 32, i) for i in range(3)]
    quantised = [quantise_weight(part) for part in parts]
    whole = concatenate(quantised)
    assert isinstance(whole, Quantised)
    assert torch.equal(whole.dequantised(), quantise_weight(torch.cat(parts)).dequantised())
    mixed = concatenate([quantised[0], parts[1]])
    assert isinstance(mixed, torch.Tensor)
    assert torch.equal(mixed, torch.cat([quantised[0].dequantised(), parts[1]]))
    assert torch.equal(fp8.plain(concatenate(parts)), torch.cat(parts))


def test_weights_that_lie_in_one_tensor_are_split_as_they_would_be_in_full() -> None:
    whole = quantise_weight(torch.randn(2 * 3 * 16, 32))
    parts: list[Weight] = [*split(by_part(whole, heads=2), (32, 48, 16))]
    plain = split(by_part(whole.dequantised(), heads=2), (32, 48, 16))
    assert torch.equal(plain[0], whole.dequantised()[[*range(16), *range(48, 64)]])
    for part, full in zip(parts, plain, strict=True):
        assert isinstance(part, Quantised) and torch.equal(part.dequantised(), full)


def test_what_is_joined_for_its_size_alone_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On ``meta``: torch would import its compilers for that, seconds of a start."""
    parts = [rows(16, 32, 0), rows(48, 32, 1)]
    whole = torch.cat([*parts, rows(1, 32, 2).double()])
    monkeypatch.setattr(torch, "cat", None)
    monkeypatch.setattr(fp8, "quantise_rows", None)
    sizes = [part.to("meta") for part in parts]
    found = fp8.joined([*sizes, torch.empty(1, 32, dtype=torch.float64, device="meta")])
    assert found.is_meta and (found.shape, found.dtype) == (whole.shape, whole.dtype)
    quantised = concatenate([quantise_weight(part) for part in sizes])
    assert isinstance(quantised, Quantised) and quantised.values.is_meta
    assert (quantised.values.shape, quantised.values.dtype) == ((64, 32), fp8.E4M3)
    assert (quantised.scales.shape, quantised.scales.dtype) == ((64,), torch.float32)


def test_a_checkpoint_keeps_its_values_in_the_format_of_an_mi300() -> None:
    bits = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    weight = Quantised(bits.view(torch.float8_e4m3fn), torch.linspace(0.1, 3, 16))
    found, expected = as_fnuz(weight), weight.dequantised()
    assert found.values.dtype == torch.float8_e4m3fnuz
    assert torch.equal(found.dequantised().nan_to_num(7e7), expected.nan_to_num(7e7))
    assert int(expected.isnan().sum()) == 2 and int((expected == 0).sum()) == 2
    assert not found.dequantised()[expected == 0].signbit().any()
    sizes = as_fnuz(Quantised(weight.values.to("meta"), weight.scales.to("meta")))
    assert sizes.values.is_meta and sizes.values.dtype == torch.float8_e4m3fnuz and sizes.shape == (16, 16)


@pytest.mark.parametrize(
    ("hip", "architecture", "expected"),
    [
        (None, "sm_90", E4M3FN),
        ("7.0", "gfx942:sramecc+:xnack-", E4M3FNUZ),
        ("7.0", "gfx950:sramecc+:xnack-", E4M3FN),
    ],
)
def test_the_format_is_the_devices(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, architecture: str, expected: object
) -> None:
    properties = mock.Mock(gcnArchName=architecture)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert format_of(architecture) == expected
    assert format_on.__wrapped__(torch.device("cuda:0")) == expected
    assert format_on(torch.device("cpu")) == E4M3FN


def test_rows_and_weights_in_the_format_of_an_mi300(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = rows(17, 64, 2), rows(48, 64, 1, 0.05)
    held = quantise_weight(weight)
    for module in (fp8, rows_in_torch):
        monkeypatch.setattr(module, "format_on", lambda device: E4M3FNUZ)
    values, scales = quantise_rows(x)
    assert values.dtype == torch.float8_e4m3fnuz and (values.float().abs().amax(1) == 240).all()
    for found in (quantised_for(x.device, weight), quantised_for(x.device, held)):
        assert found.values.dtype == torch.float8_e4m3fnuz
        assert relative((values.float() * scales) @ found.dequantised().T, x @ weight.T) < 0.05
    assert torch.equal(quantised_for(x.device, held).dequantised(), held.dequantised())


def test_only_multiples_of_16_fit() -> None:
    assert fp8.fits(1536, 384) and fp8.fits(16, 16)
    assert not fp8.fits(1536, 24) and not fp8.fits(2, 384)
