"""What tests of kernels share: where they run, and how rows in float8 are compared."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from fastqps.kernels import TRITON_MISSING, torch_ops
from fastqps.kernels.shapes import RowShape

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if TRITON_MISSING:
    pytest.skip(TRITON_MISSING, allow_module_level=True)


def by_torch_too(module: str, *names: str) -> Any:
    """A fixture ``computed_by``: the tests of ``module`` run with its launchers, and with the same names of torch_ops.

    ``kernel_only`` marks those that are about kernels alone.
    """

    @pytest.fixture(autouse=True, params=["kernel", "torch"])
    def computed_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        if request.param == "torch":
            for name in names:
                monkeypatch.setattr(sys.modules[module], name, getattr(torch_ops, name))
        return str(request.param)

    return computed_by


kernel_only = pytest.mark.parametrize("computed_by", ["kernel"], indirect=True)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Seeded random numbers on the tests' device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def rows_of_programs(monkeypatch: pytest.MonkeyPatch, module: str, rows: int) -> None:
    """Lets each program of a kernel have so many rows, however few there are."""
    shape = RowShape(512, 1, rows)
    monkeypatch.setattr(f"fastqps.kernels.{module}.row_shape", lambda width, rows: shape)


def count(rows: int) -> torch.Tensor:
    """Rows from there on are padding."""
    return torch.tensor([rows], dtype=torch.int32, device=DEVICE)


def near(found: torch.Tensor | None, wanted: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Fails unless both agree, absolutely or relative to the wanted number."""
    assert found is not None
    torch.testing.assert_close(found.float(), wanted.float(), atol=tolerance, rtol=tolerance)


def check_fp8(fp8: torch.Tensor | None, scale: torch.Tensor | None, wanted: torch.Tensor) -> None:
    """Row by row: the scale is the largest / 448 (e4m3fnuz: 240), and every number the nearest that float8 e4m3 has.

    The interpreter loses the carry where rounding reaches the next power of two (127 gives 64, not 128): there such a
    half passes too. On a GPU it does not.
    """
    assert fp8 is not None and scale is not None
    largest = wanted.abs().amax(1, keepdim=True)
    most = 240 if fp8.dtype == torch.float8_e4m3fnuz else 448
    near(scale, largest / most, 1e-6)
    nearest = (wanted * (most / largest)).to(fp8.dtype).float()
    found = fp8.float()

    # A last-bit difference in a number that lies between two neighbours may round to the other of them.
    def off(numbers: torch.Tensor) -> torch.Tensor:
        return (numbers - nearest).abs() / nearest.abs().clamp(min=2**-6)

    lost_carry = (off(2 * found) <= 1 / 8) & (found.abs().frexp().mantissa == 0.5) & (DEVICE == "cpu")
    assert ((off(found) <= 1 / 8) | lost_carry).all()
    assert ((off(found) > 0) & ~lost_carry).float().mean() <= 0.02
