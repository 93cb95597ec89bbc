"""Own products of the CPU, in int8, bf16 and fp32: against plain torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fastqps import _core
from fastqps.devices import DeviceError
from fastqps.devices.cuda.precision import make_precision
from fastqps.devices.place import Place
from fastqps.ops.cpu.matrix import CpuMatrix
from fastqps.ops.cpu.ops import CpuActivated
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import quantise_weight
from fastqps.ops.interface import Rows
from fastqps.ops.rows import FUNCTIONS, kind_of

pytestmark = pytest.mark.compute


def rounded(x: torch.Tensor) -> torch.Tensor:
    """What int8 leaves of each row: multiples of its largest number / 127."""
    largest = x.float().abs().amax(-1, keepdim=True)
    by = torch.tensor(127.0) / largest.clamp(min=1e-30)  # of a plain number, torch would multiply the reciprocal
    return (x.float() * by).round() * (largest / 127)


def product(x: torch.Tensor, weight: torch.Tensor, int8: bool = True) -> torch.Tensor:
    if not int8:
        return (x.double() @ weight.to(x.dtype).double().T).float()
    return (rounded(x).double() @ rounded(weight).double().T).float()


def close(found: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.float(), want, rtol=tolerance, atol=tolerance)


TYPES = pytest.mark.parametrize(
    ("dtype", "int8"),
    [(torch.float32, True), (torch.bfloat16, True), (torch.bfloat16, False), (torch.float32, False)],
)


@TYPES
@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(1, 16, 16), (7, 48, 400), (130, 160, 64), (9, 37, 51)])
def test_a_product_is_that_of_the_rounded_numbers(
    rows: int, outputs: int, inputs: int, dtype: torch.dtype, int8: bool
) -> None:
    torch.manual_seed(rows)
    x, weight, bias = (
        torch.randn(rows, inputs).to(dtype),
        torch.randn(outputs, inputs) / inputs**0.5,
        torch.randn(outputs),
    )
    linear = CpuMatrix(weight, bias, dtype, int8, Tape())
    want = product(x, weight, int8) + bias
    close(linear(Rows(x)), want, dtype)
    residual = torch.randn(rows, outputs).to(dtype)
    sums = want + residual.float()
    close(linear.add_residual(Rows(x), residual), sums, dtype)
    close(CpuMatrix(weight, None, dtype, int8, Tape())(Rows(x)), want - bias, dtype)


@TYPES
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("outputs", [96, 74])
def test_activations_follow_the_product(outputs: int, activation: str, dtype: torch.dtype, int8: bool) -> None:
    torch.manual_seed(3)
    x, weight, bias = 3 * torch.randn(50, 64).to(dtype), torch.randn(outputs, 64) / 8, torch.randn(outputs)
    linear = CpuMatrix(weight, bias, dtype, int8, Tape())
    want = product(x, weight, int8) + bias
    gate, up = want.chunk(2, 1)
    function = FUNCTIONS[kind_of(activation)]
    close(CpuActivated(linear, activation, False, Tape())(Rows(x), linear).tensor, function(want), dtype)
    close(CpuActivated(linear, activation, True, Tape())(Rows(x), linear).tensor, function(gate) * up, dtype)


def test_a_checkpoint_in_fp8_is_dequantised() -> None:
    x, weight = torch.randn(5, 32), quantise_weight(torch.randn(16, 32))
    assert torch.equal(
        CpuMatrix(weight, None, torch.float32, True, Tape())(Rows(x)),
        CpuMatrix(weight.dequantised(), None, torch.float32, True, Tape())(Rows(x)),
    )


@TYPES
@pytest.mark.parametrize("outputs", [1536, 74])
@pytest.mark.parametrize("rows", [1, 12, 47, 300])
def test_neither_company_nor_threads_change_a_row(rows: int, outputs: int, dtype: torch.dtype, int8: bool) -> None:
    torch.manual_seed(rows)
    x, weight = torch.randn(rows, 384).to(dtype), torch.randn(outputs, 384)
    linear, before, found = CpuMatrix(weight, None, dtype, int8, Tape()), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            found.append(CpuActivated(linear, "gelu", True, Tape())(Rows(x), linear).tensor)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])
    for row in (0, rows // 2, rows - 1):
        alone = CpuActivated(linear, "gelu", True, Tape())(Rows(x[row : row + 1].clone()), linear).tensor
        assert torch.equal(alone[0], found[0][row])


def test_a_weight_with_nan_answers_nan() -> None:
    weight = torch.randn(16, 16)
    weight[3, 5] = torch.nan
    out = CpuMatrix(weight, None, torch.float32, True, Tape())(Rows(torch.randn(2, 16)))
    assert out[:, 3].isnan().all() and out.isnan().sum() == 2


@pytest.mark.parametrize(
    ("outputs", "inputs", "number"),
    [(0, 16, "int8"), (16, (1 << 16) + 16, "int8"), (0, 16, "bfloat16"), (16, 0, "float32")],
)
def test_shapes_without_a_product(outputs: int, inputs: int, number: str) -> None:
    with pytest.raises(ValueError, match=f"a weight of {outputs} x {inputs} has no product"):
        _core.Matrix(0, 0, outputs, inputs, number)


def test_products_that_are_none() -> None:
    x = torch.zeros(1, 24)
    with pytest.raises(ValueError, match="number: 'float16' is none of int8, bfloat16, float32"):
        _core.Matrix(x.data_ptr(), 0, 1, 24, "float16")
    matrix, wide = (_core.Matrix(x.data_ptr(), 0, 1, 24, number) for number in ("bfloat16", "float32"))
    with pytest.raises(ValueError, match="a weight of bf16 multiplies rows of bf16"):
        matrix.multiply(_core.Program(), x.data_ptr(), x.data_ptr(), False, 1)
    with pytest.raises(ValueError, match="a weight of fp32 multiplies rows of fp32"):
        wide.multiply(_core.Program(), x.data_ptr(), x.data_ptr(), True, 1)
    with pytest.raises(ValueError, match="half of 1 gated outputs is no multiple of 16"):
        matrix.multiply(_core.Program(), x.data_ptr(), x.data_ptr(), True, 1, gated=True)
    with pytest.raises(ValueError, match="-4 is no number of rows"):
        matrix.multiply(_core.Program(), x.data_ptr(), x.data_ptr(), True, -4)
    zeros = torch.zeros(32, 16)
    head = _core.Matrix(zeros.data_ptr(), 0, 32, 16, "int8", exact=zeros.data_ptr())
    for behind in ({"gated": True}, {"residual": zeros.data_ptr()}, {"activation": "relu"}):
        with pytest.raises(ValueError, match="nothing behind it but its bias"):
            head.multiply(_core.Program(), zeros.data_ptr(), zeros.data_ptr(), False, 1, **behind)


def test_names_that_nothing_has() -> None:
    program, rows = _core.Program(), (0, False, 0, False, 16, 0, 1)
    with pytest.raises(ValueError, match="mode: 'cls' is none of mean, max"):
        program.pool(*rows, "cls")
    with pytest.raises(ValueError, match="mode: 'mean' is none of cls, lasttoken, tokens"):
        program.pick_rows(*rows, "mean")
    with pytest.raises(ValueError, match="activation: 'tanh' is none of none, gelu, gelu_tanh, relu, silu"):
        program.gate(0, 0, False, 1, 16, "tanh")


def test_a_gpu_refuses_it() -> None:
    backend: Any = SimpleNamespace(device=torch.device("cpu"), where="cuda:0")
    with pytest.raises(DeviceError, match="--quantization int8: cuda:0 multiplies in no int8, only cpu does") as caught:
        make_precision(Place("cuda:0", quantization="int8"), backend)
    assert "\n" not in str(caught.value)
