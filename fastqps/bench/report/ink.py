"""Colours by meaning, and figures as inline SVG that follows the page from light to dark.

matplotlib draws with one reserved colour for each name here. In the SVG ``var(--name)`` takes its place, so that the
page's style sheet decides. Text stays text, in the page's font.
"""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from itertools import pairwise
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# name: (light, dark)
COLOURS = {
    "ink": ("#1c2128", "#e6e8eb"),
    "faint": ("#5f6b78", "#9aa5b1"),
    "grid": ("#e3e6ea", "#2c333b"),
    "paper": ("#ffffff", "#14181d"),
    "p50": ("#2f6fd0", "#6ea8ff"),
    "p90": ("#0b8f8f", "#3fc6c0"),
    "p99": ("#d9650a", "#ff9d4d"),
    "p999": ("#a03bb0", "#d78be6"),
    "limit": ("#c62f3b", "#ff6b73"),
    "good": ("#23873f", "#56c878"),
    "doubtful": ("#a86b0c", "#e9b949"),
    "bad": ("#c62f3b", "#ff6b73"),
    # Stages, in groups: reception is blue, waiting amber, preparation green, the device orange, the answer purple.
    "receive": ("#a9c9f3", "#8db7f0"),
    "parse": ("#6ea1e4", "#5b93de"),
    "tokenize": ("#2f6fd0", "#3a78d6"),
    "queue": ("#e3b23c", "#d9a833"),
    "gather": ("#8fd0ab", "#7cc49a"),
    "launch": ("#3f9b6c", "#3a9465"),
    "device": ("#e0761f", "#e8822e"),
    "scatter": ("#d3b3e4", "#c9a3dd"),
    "drain": ("#ab78c6", "#a56fc2"),
    "send": ("#7f489a", "#8a52a6"),
    "wire": ("#9aa5b1", "#707b87"),
    # Why a device idles: the stages that keep it waiting have their colours.
    "no_work": ("#d5dbe1", "#3a434d"),
    "batch_delay": ("#e3b23c", "#d9a833"),
    "shared": ("#b7c9dd", "#52657a"),
    "other": ("#b08968", "#a9825f"),
    # Of the page alone.
    "panel": ("#f4f6f8", "#1d232a"),
    "chosen": ("#e9f5ec", "#1a2e21"),
}
_RESERVED = "#7e5a"
INK = {name: f"{_RESERVED}{index:02x}" for index, name in enumerate(COLOURS)}
_NAMES = {colour: name for name, colour in INK.items()}

WIDTH = 410  # px; the page scales it
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fastqps",
    "text.parse_math": False,  # names of points are not TeX
    "font.family": "DejaVu Sans",  # for the layout alone: comes with matplotlib
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK["ink"],
    "axes.labelsize": 10,
    "axes.labelcolor": INK["faint"],
    "axes.edgecolor": INK["faint"],
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": INK["faint"],
    "ytick.color": INK["faint"],
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK["ink"],
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": INK["ink"],
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.0,
    "legend.handletextpad": 0.4,
    "figure.dpi": 72,
}


class Drawing:
    """One figure of some panels, one below the other unless ``columns``. Use as a context manager around all drawing.

    >>> with Drawing("example", 300) as drawing:
    ...     drawing.panels[0].plot([1, 2], [3, 4], color=INK["p50"])
    ...     svg = drawing.svg("a line that rises from 3 to 4")
    """

    def __init__(self, key: str, height: float, rows: int = 1, columns: int = 1, heights: Any = None) -> None:
        """``key``: unique in the page. ``height`` in px; ``heights``: of the rows, relative."""
        self._context = rc_context(_STYLE)
        self._key, self._shape = key, (height, rows, columns, heights)

    def __enter__(self) -> Drawing:
        height, rows, columns, heights = self._shape
        self._context.__enter__()
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained", facecolor="none")
        grid = self.figure.subplots(
            rows, columns, squeeze=False, sharex=columns == 1, sharey=rows == 1, height_ratios=heights
        )
        self.panels: list[Axes] = list(grid.flat)
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def legend(self, panel: Axes) -> None:
        """Draws the legend of the panel's colours at the top, in as many columns as there is room for."""
        entries = {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
        labels = list(entries)
        if labels:
            columns = next(n for n in range(len(labels), 0, -1) if n == 1 or _width(labels, n) < WIDTH)
            columns = -(-len(labels) // -(-len(labels) // columns))  # as many rows, but even ones
            self.figure.legend(entries.values(), labels, loc="outside upper left", ncols=columns, borderpad=0)

    def svg(self, alt: str) -> str:
        """The figure as an ``<svg>`` element. ``alt``: what it shows, for readers who cannot see it."""
        raw = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a glyph missing in the layout's font exists in the reader's
            layout = self.figure.get_layout_engine()
            if layout is not None:  # here, or saving would draw everything twice for it
                layout.execute(self.figure)
                self.figure.set_layout_engine(None)
            self.figure.savefig(raw, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return _inline(raw.getvalue().decode(), alt, self._key)


def _width(labels: list[str], columns: int) -> float:
    """About how wide a legend is, in px: it fills one column after the other, the first ones with one more."""
    rows, longer = divmod(len(labels), columns)
    ends = [rows * k + min(k, longer) for k in range(columns + 1)]
    widest = [max(map(len, labels[a:b])) for a, b in pairwise(ends)]
    return sum(5.3 * letters + 26 for letters in widest)


_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|\s+(?=<)", re.DOTALL)
_ROOT = re.compile(r"<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>")
_IDS = re.compile(r" id=\"([^\"]*)\"")
_TAG_CHANGES = (  # in tags alone: text is a reader's
    (re.compile(r"(xlink:)?href=\"#"), r'href="#{key}-'),
    (re.compile(r"url\(#"), r"url(#{key}-"),
    (re.compile(r"font-family: [^;\"]*;? ?"), ""),
    (re.compile(r"(\.\d\d)\d+"), r"\1"),
    (re.compile(r" transform=\"rotate\(-?0 [^)]*\)\""), ""),
)
_COLOUR = re.compile(_RESERVED + "[0-9a-f]{2}")


def _inline(svg: str, alt: str, key: str) -> str:
    """A file of matplotlib's as an element: no fixed size, ids that are unique in the page, colours by name."""
    svg = _LEFT_OUT.sub("", svg[svg.index("<svg") :])
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg))
    named = {name for pair in used for name in pair if name}

    def change(tag: re.Match[str]) -> str:
        text = _IDS.sub(lambda found: f' id="{key}-{found[1]}"' if found[1] in named else "", tag[0])
        for pattern, replacement in _TAG_CHANGES:
            text = pattern.sub(replacement.format(key=key) if "{" in replacement else replacement, text)
        return _COLOUR.sub(lambda found: f"var(--{_NAMES[found[0]]})", text)

    root = f'<svg viewBox="{_ROOT.match(svg)[1]}" class="plot" role="img" aria-label="{escape(alt)}">'  # type: ignore[index]
    return root + re.sub(r"<[^>]+>", change, _ROOT.sub("", svg, count=1))
