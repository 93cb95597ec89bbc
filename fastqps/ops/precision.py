"""Which of a model's matrix products are quantised, by rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fastqps._core import INT8_INPUTS_MAX
from fastqps.ops.fp8 import fits
from fastqps.ops.interface import Site
from fastqps.terminal import say

Quantization = Literal["none", "fp8", "int8", "auto"]
QUANTIZATIONS: tuple[Quantization, ...] = ("none", "fp8", "int8", "auto")
AUTO_SIDE_MIN = 768  # a product with a shorter side is too short to gain by FP8
AUTO_OUT_MIN = 4096  # inputs of attention's output projection, from which on FP8 pays for a kernel that quantises rows


class Precision:
    """Decides for each product as a model is built, and logs what it has decided.

    ``auto``: FP8 for the products that are large enough to gain by it.
    """

    def __init__(self, quantization: str = "none", log: Callable[[str], None] = say) -> None:
        if quantization not in QUANTIZATIONS:
            raise ValueError(f"quantization {quantization!r} is not one of {', '.join(QUANTIZATIONS)}")
        self.quantization, self._log = quantization, log
        self.int8 = quantization == "int8"
        self._asked = self._given = self._held = 0

    def quantises(self, outputs: int, inputs: int, site: Site, *, held: bool = False) -> bool:
        """Whether this product runs in 8 bits. ``held``: the checkpoint has its weight in FP8.

        A checkpoint in FP8 has decided which products run in FP8. Otherwise a head and the first and last layer keep
        the model's type: they cost most accuracy. int8 takes all but the head of an encoder.
        """
        self._asked += 1
        self._held += held
        quantised = self._decide(outputs, inputs, site, held)
        self._given += quantised
        return quantised

    def conclude(self) -> None:
        """Logs how much of the model is quantised. Called once it is built."""
        counts = f"of {self._asked} matrix products"
        if self.quantization != "none":
            self._log(f"quantization {self.quantization}: {self._given} {counts} in {'int8' if self.int8 else 'FP8'}")
        elif self._held:
            kept = "are FP8 in the checkpoint and dequantised; --quantization fp8 keeps them"
            self._log(f"quantization none: {self._held} {counts} {kept}")

    def _decide(self, outputs: int, inputs: int, site: Site, held: bool) -> bool:
        if self.int8:
            return site.kind != "head" and inputs <= INT8_INPUTS_MAX
        if self.quantization == "none" or not fits(outputs, inputs):
            return False
        inner = site.kind not in ("head", "logits") and 0 < site.layer < site.layers - 1
        if not inner and not held:
            return False
        # No kernel can quantise attention's rows as it writes them, because each program has one head of them.
        if self.quantization == "fp8":
            return held or site.kind != "out"
        return min(outputs, inputs) >= AUTO_SIDE_MIN and (site.kind != "out" or inputs >= AUTO_OUT_MIN)
