"""A step's kernels in the order in which the device ran them, grouped by what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.gpu.profile.bounds import Peaks
from bench.gpu.profile.step_work import Work

OWN = (  # kernels of fastqps.kernels, the longest name first where one contains another
    "embed_norm", "embed_tokens", "tile_attention", "slot_attention", "add_norm", "activate", "quantise_rows",
    "rope_kv", "last_rows", "logit_options", "sample_chunks", "sample", "pool", "stamp_end",
)  # fmt: skip
PRODUCTS = re.compile(r"gemm|cutlass|xmma|nvjet|cublas|splitk|(^|[^a-z])mm($|[^a-z])", re.IGNORECASE)
COPIES = ("Memcpy", "Memset")
LAYER = ("qkv", "out", "up", "down")


@dataclass(frozen=True)
class Kernel:
    """One kernel on the device; µs."""

    name: str
    us: float


@dataclass
class Kind:
    """All kernels of one kind in a step. ``sort``: own, cuBLAS, copy or other; ``bound_us`` 0: not known."""

    name: str
    sort: str
    us: float = 0.0
    launches: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    bound_us: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For the raw figures."""
        return asdict(self)


def sort_of(name: str) -> tuple[str, str]:
    """(sort, kind) of a kernel by its name."""
    if name.startswith(COPIES):
        return "copy", "copies"
    if own := next((each for each in OWN if each in name), None):
        return "own", own
    if PRODUCTS.search(name):
        return "cuBLAS", "products"
    return "other", name.split("(")[0].split("<")[0][-40:]


def kinds_of(kernels: Sequence[Kernel], steps: int, work: Mapping[str, Work], layers: int, peaks: Peaks) -> list[Kind]:
    """The kinds of one step, the longest first, of ``steps`` equal steps. Products are told apart by their order, where
    each is one kernel; else they are one kind."""
    per_step = len(kernels) // steps
    names = [f"product {name}" for _ in range(layers) for name in LAYER]
    names += [name for name in work if name == "product head"]
    first = [kernel.name for kernel in kernels[:per_step]]
    alike = [kernel.name for kernel in kernels] == steps * first
    apart = _in_order([sort_of(name)[0] == "cuBLAS" for name in first], names) if alike else {}
    found: dict[str, Kind] = {}
    for number, kernel in enumerate(kernels):
        sort, name = sort_of(kernel.name)
        if sort == "cuBLAS" and apart:
            name = apart[number % per_step]
        kind = found.setdefault(name, Kind(name, sort))
        kind.us += kernel.us / steps
        kind.launches += 1 / steps
    for kind in found.values():
        parts = [w for name, w in work.items() if name == kind.name]
        if kind.name == "products":
            parts = [w for name, w in work.items() if name.startswith("product ")]
        kind.bytes, kind.flops = sum(w.bytes for w in parts), sum(w.flops for w in parts)
        kind.bound_us = sum(w.bound_us(peaks) for w in parts)
    return sorted(found.values(), key=lambda kind: -kind.us)


def _in_order(products: Sequence[bool], names: Sequence[str]) -> dict[int, str]:
    """The product that each kernel of a step is, by its place; {} where they are not one kernel each."""
    places = [place for place, product in enumerate(products) if product]
    return dict(zip(places, names, strict=True)) if len(places) == len(names) else {}
