"""Which of a model's matrix products are quantised: none, all that gain by it, or those that have proved faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from fastqps._core import INT8_INPUTS_MAX
from fastqps.ops.fp8 import fits
from fastqps.ops.interface import Site
from fastqps.process.startup import STARTUP
from fastqps.terminal import say

Quantization = Literal["none", "fp8", "int8", "auto"]
Format = Literal["fp8", "int8"]
Epilogue = Literal["", "residual", "gelu"]
GAIN_MIN = 0.05  # of the time: for less it is not worth what it costs in accuracy
QUANTIZATIONS: tuple[Quantization, ...] = ("none", "fp8", "int8", "auto")
_NAMES: dict[Format, str] = {"fp8": "FP8", "int8": "int8"}


@dataclass(frozen=True)
class Kind:
    """The properties that decide the speed of a product: a weight's shape, and the operations before and after it.

    ``fused``: the kernel that makes the rows also quantises them, so that a quantised product needs no launch for that.
    ``epilogue``: what the product in the model's type does with its result in the same launch, and an FP8 product
    leaves to the next kernel: the addition of the residual, or gelu.
    """

    outputs: int
    inputs: int
    fused: bool
    epilogue: Epilogue = ""


@dataclass(frozen=True)
class Product:
    """x [rows, inputs] · weightᵀ, weight [outputs, inputs]. ``weights``: as many share the caches in one step."""

    kind: Kind
    rows: int
    weights: int


@dataclass(frozen=True, kw_only=True)
class Timed(Kind):
    """A kind of product as it was measured, and whether it is quantised."""

    us: tuple[float, ...]  # in the model's type, for each size of steps
    quantised_us: tuple[float, ...]
    quantised: bool

    @property
    def kind(self) -> Kind:
        return Kind(self.outputs, self.inputs, self.fused, self.epilogue)


class Precision:
    """Decides for each product as a model is built, and logs what it has decided.

    ``auto`` quantises a kind of product where that is at least ``GAIN_MIN`` faster over all sizes of steps together.

    ``rows``: the sizes of steps that ``auto`` measures; ``time_us(product, quantised)`` measures one of them.
    ``fused``: the sites whose rows this device quantises in the kernel that makes them. ``auto_format``: the format
    that ``auto`` weighs on this device.
    """

    def __init__(
        self,
        quantization: str = "none",
        rows: Sequence[int] = (),
        time_us: Callable[[Product, bool], float] | None = None,
        fused: Sequence[str] = (),
        auto_format: Format = "fp8",
        log: Callable[[str], None] = say,
    ) -> None:
        if quantization not in QUANTIZATIONS:
            raise ValueError(f"quantization {quantization!r} is not one of {', '.join(QUANTIZATIONS)}")
        if quantization == "auto" and not (rows and time_us):
            raise ValueError("auto needs sizes of steps and something that measures")
        self.quantization, self.rows, self.log = quantization, tuple(rows), log
        self.format: Format = "int8" if quantization == "int8" else "fp8" if quantization == "fp8" else auto_format
        self.measured = False  # by this process, and not recalled
        self._time_us, self._fused = time_us, frozenset(fused)
        self._timed: dict[Kind, Timed] = {}
        self._plain_gelu = -1  # the newest layer whose product writes gelu itself
        self._asked = self._given = self._held = 0

    @property
    def timed(self) -> tuple[Timed, ...]:
        """The times that ``auto`` has measured or recalled."""
        return tuple(self._timed.values())

    def recall(self, timed: Iterable[Timed]) -> None:
        """Takes over what another process has measured and chosen."""
        self._timed.update((found.kind, found) for found in timed)

    def quantises(self, outputs: int, inputs: int, site: Site, *, held: bool = False, epilogue: Epilogue = "") -> bool:
        """Whether this product runs in ``format``. ``held``: the checkpoint has its weight in FP8.

        A checkpoint in FP8 has decided which products run in FP8. Otherwise a head and the first and last layer keep
        the model's type: they cost most accuracy.
        """
        self._asked += 1
        self._held += held
        found = self._decide(outputs, inputs, site, held, epilogue)
        self._given += found
        if epilogue == "gelu" and not found:
            self._plain_gelu = site.layer
        return found

    def conclude(self) -> None:
        """Logs how much of the model is quantised. Called once it is built."""
        counts = f"of {self._asked} matrix products"
        if self.quantization != "none":
            self.log(f"quantization {self.quantization}: {self._given} {counts} in {_NAMES[self.format]}")
        elif self._held:
            kept = "are FP8 in the checkpoint and dequantised; --quantization fp8 keeps them"
            self.log(f"quantization none: {self._held} {counts} {kept}")

    def _decide(self, outputs: int, inputs: int, site: Site, held: bool, epilogue: Epilogue) -> bool:
        if self.quantization == "none" or not fits(outputs, inputs):
            return False
        if self.format == "int8":
            held = False
            if inputs > INT8_INPUTS_MAX:
                return False
        if not held and (site.kind == "head" or site.layer in (0, site.layers - 1)):
            return False
        if self.quantization == "int8":
            return True
        if self.quantization == "fp8":
            # No kernel can quantise attention's rows as it writes them, because each program has one head of them.
            return held or site.kind != "out"
        if site.kind == "down" and site.layer == self._plain_gelu:
            return False  # FP8 rows would take gelu out of the product before, and add a launch
        return self._faster(Kind(outputs, inputs, site.kind in self._fused, epilogue), site.layers)

    def _faster(self, kind: Kind, weights: int) -> bool:
        """Measures a kind at its first product; the rest follow."""
        if kind not in self._timed:
            assert self._time_us
            if not self._timed:
                self.log(f"quantization auto: measuring products; --quantization none or {self.format} skips that")
            products = [Product(kind, rows, weights) for rows in self.rows]
            with STARTUP.stage("choices"):
                plain, quantised = (tuple(self._time_us(p, way) for p in products) for way in (False, True))
            faster = sum(quantised) <= (1 - GAIN_MIN) * sum(plain)
            timed = Timed(**asdict(kind), us=plain, quantised_us=quantised, quantised=faster)
            self._timed[kind], self.measured = timed, True
            self.log(_line(timed, self.rows, _NAMES[self.format]))
        return self._timed[kind].quantised


def _line(timed: Timed, rows: Sequence[int], name: str) -> str:
    plain, quantised = (" / ".join(f"{us:,.1f}" for us in times) for times in (timed.us, timed.quantised_us))
    with_rows = "" if timed.fused else " with quantising its rows"
    with_epilogue = f" with its {timed.epilogue}" if timed.epilogue else ""
    sizes = "/".join(f"{n:,}" for n in rows)
    return (
        f"quantization auto: {timed.outputs} × {timed.inputs}{with_epilogue} at {sizes} rows: {plain} µs, "
        f"{name}{with_rows} {quantised} µs: {'' if timed.quantised else 'no '}{name}"
    )
