"""Which of a model's matrix products run in FP8: none, all that may, or those for which it has proved faster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fastqps.models.fp8 import fits
from fastqps.models.ops import Site

Quantization = Literal["none", "fp8", "auto"]
GAIN_MIN = 0.05  # of the time: for less it is not worth what FP8 costs in accuracy
QUANTIZATIONS: tuple[Quantization, ...] = ("none", "fp8", "auto")


@dataclass(frozen=True)
class Product:
    """x [rows, inputs] · weightᵀ, weight [outputs, inputs].

    ``fused``: what makes the rows quantises them in passing, so that FP8 does not pay for that. ``weights``: as many of
    this shape are used in turn, and share the caches.
    """

    outputs: int
    inputs: int
    rows: int
    fused: bool
    weights: int


class Precision:
    """Decides for each product as a model is built, and says what it has decided.

    ``auto`` takes FP8 for a shape where that is at least ``GAIN_MIN`` faster over all sizes of steps together.

    ``rows``: the sizes of steps that ``auto`` looks at; ``time_us(product, fp8)`` measures one of them. ``fused``: the
    kinds of products whose rows this device quantises in passing.
    """

    def __init__(
        self,
        quantization: str = "none",
        rows: Sequence[int] = (),
        time_us: Callable[[Product, bool], float] | None = None,
        fused: Sequence[str] = (),
        log: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        if quantization not in QUANTIZATIONS:
            raise ValueError(f"quantization {quantization!r} is not one of {', '.join(QUANTIZATIONS)}")
        if quantization == "auto" and not (rows and time_us):
            raise ValueError("auto needs sizes of steps and something that measures")
        self.quantization = quantization
        self._rows, self._time_us, self._fused, self._log = tuple(rows), time_us, frozenset(fused), log
        self._chosen: dict[tuple[int, int, bool], bool] = {}
        self._asked = self._given = self._held = 0

    def wants_fp8(self, outputs: int, inputs: int, site: Site, *, held: bool = False) -> bool:
        """Whether this product runs in FP8. ``held``: the checkpoint has its weight in FP8, and so has decided where.

        Otherwise a head and the first and last layer are left alone: they are what costs most accuracy.
        """
        self._asked += 1
        self._held += held
        found = self._decide(outputs, inputs, site, held)
        self._given += found
        return found

    def conclude(self) -> None:
        """Says how much of the model is FP8. Called once it is built."""
        counts = f"of {self._asked} matrix products"
        if self.quantization != "none":
            self._log(f"quantization {self.quantization}: {self._given} {counts} in FP8")
        elif self._held:
            kept = "are FP8 in the checkpoint and dequantised; --quantization fp8 keeps them"
            self._log(f"quantization none: {self._held} {counts} {kept}")

    def _decide(self, outputs: int, inputs: int, site: Site, held: bool) -> bool:
        if self.quantization == "none" or not fits(outputs, inputs):
            return False
        if not held and (site.kind == "head" or site.layer in (0, site.layers - 1)):
            return False
        return self.quantization == "fp8" or self._faster(outputs, inputs, site)

    def _faster(self, outputs: int, inputs: int, site: Site) -> bool:
        """Measures a shape at its first product; the rest follow."""
        key = outputs, inputs, site.kind in self._fused
        if key not in self._chosen:
            assert self._time_us
            products = [Product(outputs, inputs, rows, key[2], site.layers) for rows in self._rows]
            plain, fp8 = ([self._time_us(product, in_fp8) for product in products] for in_fp8 in (False, True))
            self._chosen[key] = sum(fp8) <= (1 - GAIN_MIN) * sum(plain)
            self._log(_line(products, plain, fp8, self._chosen[key]))
        return self._chosen[key]


def _line(products: Sequence[Product], plain: Sequence[float], fp8: Sequence[float], chosen: bool) -> str:
    shape = f"{products[0].outputs} × {products[0].inputs}"
    rows = "/".join(f"{product.rows:,}" for product in products)
    times = (" / ".join(f"{us:,.1f}" for us in found) for found in (plain, fp8))
    with_rows = "" if products[0].fused else " with quantising its rows"
    return f"quantization auto: {shape} at {rows} rows: {{}} µs, FP8{with_rows} {{}} µs: {{}}".format(
        *times, "FP8" if chosen else "no FP8"
    )
