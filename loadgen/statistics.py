"""Student's t, and a line through measured values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean


@dataclass(frozen=True)
class Line:
    """The line of least squares. ``half``: half of the 95 % interval of its slope."""

    slope: float
    half: float
    middle_at: float
    middle: float

    def value(self, at: float) -> float:
        return self.middle + self.slope * (at - self.middle_at)


def line(at: Sequence[float], values: Sequence[float]) -> Line:
    """The line through at least three values."""
    middle_at, middle = fmean(at), fmean(values)
    spread = sum((a - middle_at) ** 2 for a in at)
    slope = sum((a - middle_at) * (v - middle) for a, v in zip(at, values, strict=True)) / spread
    rest = sum((v - middle - slope * (a - middle_at)) ** 2 for a, v in zip(at, values, strict=True))
    return Line(slope, t95(len(at) - 2) * math.sqrt(rest / (len(at) - 2) / spread), middle_at, middle)


def t95(freedom: float) -> float:
    """Student's t for a 95 % interval."""
    return t_quantile(0.975, max(1.0, freedom))


def t_quantile(p: float, freedom: float) -> float:
    """Student's t: x with P(T <= x) = p, for p >= 0.5.

    Exact for one and two degrees of freedom; what lies between two whole numbers below three is rounded down, to an
    interval that is rather too wide. From three on by the expansion in powers of 1 / freedom (Abramowitz and Stegun
    26.7.5): within 0.2 % for p up to 0.975, 1 % up to 0.995, 5 % up to 0.9995.
    """
    if freedom < 2:
        return math.tan(math.pi * (p - 0.5))
    if freedom < 3:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (k + 1) for k, term in enumerate(terms))
