"""A step's kernels in the order in which the device ran them, grouped by what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median
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
TILE = re.compile(r"(?<!\d)\d{2,3}x\d{2,3}(x\d{2,3})?(?!\d)")  # the first one; stages and clusters follow


@dataclass(frozen=True)
class Kernel:
    """One kernel or copy on the device: µs, from the beginning of its ramp to the end of its drain."""

    name: str
    us: float
    start_us: float = 0.0

    @property
    def end_us(self) -> float:
        return self.start_us + self.us


@dataclass
class Kind:
    """All kernels of one kind in a step. ``sort``: own, cuBLAS, copy or other; ``bound_us`` 0: not known.

    ``names``: launches by the kernels' own names.
    """

    name: str
    sort: str
    us: float = 0.0
    launches: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    bound_us: float = 0.0
    names: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the raw figures."""
        return asdict(self)

    def describe_names(self) -> str:
        """For people, the most frequent first, with tiles where the names have them."""
        found = sorted(self.names.items(), key=lambda each: -each[1])
        return ", ".join(f"{launches:g} × {name[:80]}{_tile(name)}" for name, launches in found)


@dataclass(frozen=True)
class Gaps:
    """Where no kernel and no copy ran, from a step's first kernel to its last one; medians of the steps.

    ``median_us`` and ``largest_us``: of single gaps of all steps; ``after``: the kernel in front of the largest one.
    ``copies_us``: between the copies around the kernels and the kernels, which is the host's time too.
    """

    span_us: float
    sum_us: float
    median_us: float
    largest_us: float
    after: str
    copies_us: float

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


def steps_of(kernels: Sequence[Kernel], steps: int) -> list[Sequence[Kernel]]:
    """The kernels of each step; [] where the steps differ: one kernel more in the first would shift all others."""
    size, over = divmod(len(kernels), steps)
    found = [kernels[at : at + size] for at in range(0, len(kernels), size or 1)]
    names = [[kernel.name for kernel in step] for step in found]
    return found if kernels and not over and all(each == names[0] for each in names) else []


def gaps_of(steps: Sequence[Sequence[Kernel]]) -> Gaps | None:
    """Of equal steps. None where there are none, or no kernels in them."""
    found, spans, around = [], [], []
    for step in steps:
        places = [at for at, kernel in enumerate(step) if sort_of(kernel.name)[0] != "copy"]
        if not places:
            return None
        idle = _idle(step)
        first, last = places[0], places[-1]
        found.append(idle[first:last])
        spans.append(max(kernel.end_us for kernel in step[first : last + 1]) - step[first].start_us)
        around.append(sum(us for us, _ in (*idle[:first], *idle[last:])))
    every = [gap for gaps in found for gap in gaps]
    largest_us, after = max(every, default=(0.0, ""))
    sums = [sum(us for us, _ in gaps) for gaps in found]
    middle = median(us for us, _ in every) if every else 0.0
    return Gaps(median(spans), median(sums), middle, largest_us, after, median(around)) if found else None


def _idle(step: Sequence[Kernel]) -> list[tuple[float, str]]:
    """Between each kernel and the next one: µs in which none ran, and the name in front. Kernels may overlap."""
    found, end_us = [], step[0].end_us
    for kernel, following in pairwise(step):
        end_us = max(end_us, kernel.end_us)
        found.append((max(0.0, following.start_us - end_us), kernel.name))
    return found


def kinds_of(kernels: Sequence[Kernel], steps: int, work: Mapping[str, Work], layers: int, peaks: Peaks) -> list[Kind]:
    """The kinds of one step, the longest first, of ``steps`` equal steps. Products are told apart by their order, where
    each is one kernel; else they are one kind."""
    names = [f"product {name}" for _ in range(layers) for name in LAYER]
    names += [name for name in work if name == "product head"]
    alike = steps_of(kernels, steps)
    apart = _in_order([sort_of(kernel.name)[0] == "cuBLAS" for kernel in alike[0]], names) if alike else {}
    found: dict[str, Kind] = {}
    for number, kernel in enumerate(kernels):
        sort, name = sort_of(kernel.name)
        if sort == "cuBLAS" and apart:
            name = apart[number % len(alike[0])]
        kind = found.setdefault(name, Kind(name, sort))
        kind.us += kernel.us / steps
        kind.launches += 1 / steps
        kind.names[kernel.name] = kind.names.get(kernel.name, 0.0) + 1 / steps
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


def _tile(name: str) -> str:
    found = TILE.search(name)
    return f" (tile {found.group()})" if found else ""
