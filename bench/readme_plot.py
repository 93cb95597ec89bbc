"""The README's plot: the ratio of fastqps to each baseline, as bars on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _ROW = 880, 430, 34
_AXIS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Bar:
    """``ratio``: fastqps over the baseline of the same run, at least 0.1."""

    label: str
    ratio: float


def plot(bars: Sequence[Bar]) -> str:
    """An SVG image of ``bars``, one row each."""
    height = _ROW * len(bars) + 60
    scale = (_WIDTH - _LEFT - 80) / math.log10(_AXIS[-1])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img">',
        "<title>fastqps beside other software, in the same run on 2 CPU cores</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for tick in _AXIS:
        x = _LEFT + scale * math.log10(tick)
        lines.append(f'<path d="M{x:.0f} 20V{height - 30}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 12}" text-anchor="middle" fill="#555">{tick} ×</text>')
    for row, bar in enumerate(bars):
        y = 26 + row * _ROW
        length = max(scale * math.log10(bar.ratio), 1.0)
        lines.append(f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end" fill="#222">{escape(bar.label)}</text>')
        lines.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.0f}" height="22" fill="#4a76a8"/>')
        lines.append(f'<text x="{_LEFT + length + 8:.0f}" y="{y + 16}" fill="#222">{bar.ratio:.3g} ×</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
