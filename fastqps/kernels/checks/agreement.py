"""The tolerance of a kernel's result against that of plain torch.

Both round the same numbers of float32, so they differ where the order of sums differs, and by roundings to the type of
what is written. A single number that is far off shows in the largest error; one that is a little off in many places
shows in the relative error, the ratio of two root mean squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


class Tolerance(NamedTuple):
    """``largest``: of one number, as a share of itself and of the root mean square. ``relative``: of all together."""

    largest: float
    relative: float


TOLERANCES = {
    torch.float32: Tolerance(1e-4, 2.5e-5),
    torch.float16: Tolerance(4e-3, 1e-3),
    torch.bfloat16: Tolerance(3e-2, 7.5e-3),
    torch.float8_e4m3fn: Tolerance(1 / 8, 3e-2),  # to the next number, and that seldom
    torch.float8_e4m3fnuz: Tolerance(1 / 8, 3e-2),
}
_FP8_FLOOR = 2.0**-7  # of rows scaled to the largest number: at least four steps between the smallest ones


@dataclass(frozen=True)
class Difference:
    """The deviation of a result. ``largest`` is an absolute error; infinite if only one of the two is a number."""

    result: str
    largest: float
    relative: float
    tolerance: Tolerance | None  # None: of what has to be equal

    def __str__(self) -> str:
        allowed = f"of {self.tolerance.relative:g} allowed" if self.tolerance else "it has to be equal"
        return f"{self.result}: largest error {self.largest:.3g}, relative error {self.relative:.3g} ({allowed})"


def compare(result: str, found: torch.Tensor, wanted: torch.Tensor) -> Difference | None:
    """None: they agree. ``ValueError`` where they are not of one shape and type."""
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        raise ValueError(f"{result} is {found.dtype} {list(found.shape)}, not {wanted.dtype} {list(wanted.shape)}")
    tolerance = TOLERANCES.get(wanted.dtype)
    a, b = found.double(), wanted.double()
    same = (a == b) | (a.isnan() & b.isnan())
    error = torch.where(same, 0.0, (a - b).abs().nan_to_num(torch.inf, posinf=torch.inf))
    size = torch.where(b.isfinite(), b, 0.0)
    rms = _rms(size)
    largest, relative = float(error.max()) if error.numel() else 0.0, float(_rms(error) / rms.clamp(min=1e-30))
    if tolerance is None:
        return None if bool(same.all()) else Difference(result, largest, relative, None)
    floor = _FP8_FLOOR if wanted.dtype.itemsize == 1 else tolerance.largest * rms
    agree = (error <= tolerance.largest * size.abs() + floor).all() and relative <= tolerance.relative
    return None if agree else Difference(result, largest, relative, tolerance)


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt() if x.numel() else x.new_zeros(())
