"""A step's kernels in the order in which the device ran them, grouped by what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from bench.gpu.profile.bounds import Peaks, Work

OWN = (  # kernels of fastqps.kernels, the longest name first where one contains another
    "embed_norm", "embed_tokens", "tile_attention", "slot_attention", "add_norm", "activate", "quantise_rows",
    "rope_kv", "last_rows", "logit_options", "sample_chunks", "sample", "pool", "stamp_end",
)  # fmt: skip
PRODUCTS = re.compile(r"gemm|cutlass|xmma|nvjet|cublas|splitk|(^|[^a-z])mm($|[^a-z])", re.IGNORECASE)
COPIES = ("Memcpy", "Memset")
LAYER = ("qkv", "out", "up", "down")


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
    bound_us: float = 0.0
    names: dict[str, float] = field(default_factory=dict)

    def describe(self) -> str:
        """A line for people, the most frequent name first."""
        names = sorted(self.names.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{launches:g} × {name[:80]}" for name, launches in names)
        return f"{self.launches:.0f} launches, at least {self.bound_us:.0f} µs; {listed}"


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

    def describe(self) -> str:
        """A line for people."""
        return (
            f"of {self.span_us:.0f} µs under the profiler; median {self.median_us:.2f} µs, largest "
            f"{self.largest_us:.2f} µs behind {self.after[:80]}; beside copies {self.copies_us:.1f} µs"
        )


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
    steps_of_kernels = [kernels[at : at + size] for at in range(0, len(kernels), size or 1)]
    names = [[kernel.name for kernel in step] for step in steps_of_kernels]
    return steps_of_kernels if kernels and not over and all(each == names[0] for each in names) else []


def gaps_of(steps: Sequence[Sequence[Kernel]]) -> Gaps | None:
    """The gaps of equal steps. None where there are no steps, or no kernels in them."""
    gaps_by_step, spans, around = [], [], []
    for step in steps:
        places = [at for at, kernel in enumerate(step) if sort_of(kernel.name)[0] != "copy"]
        if not places:
            return None
        idle = _idle(step)
        first, last = places[0], places[-1]
        gaps_by_step.append(idle[first:last])
        spans.append(max(kernel.end_us for kernel in step[first : last + 1]) - step[first].start_us)
        around.append(sum(us for us, _ in (*idle[:first], *idle[last:])))
    if not gaps_by_step:
        return None
    every = [gap for gaps in gaps_by_step for gap in gaps] or [(0.0, "")]
    sums = [sum(us for us, _ in gaps) for gaps in gaps_by_step]
    return Gaps(median(spans), median(sums), median(us for us, _ in every), *max(every), median(around))


def _idle(step: Sequence[Kernel]) -> list[tuple[float, str]]:
    """The gap between each kernel and the next one: its µs, and the kernel in front. Kernels may overlap."""
    idle, end_us = [], step[0].end_us
    for kernel, following in pairwise(step):
        end_us = max(end_us, kernel.end_us)
        idle.append((max(0.0, following.start_us - end_us), kernel.name))
    return idle


def kinds_of(kernels: Sequence[Kernel], steps: int, work: Mapping[str, Work], layers: int, peaks: Peaks) -> list[Kind]:
    """The kinds of one step, the longest first, of ``steps`` equal steps. Products are told apart by their order, where
    each is one kernel; else they are one kind."""
    names = [f"product {name}" for _ in range(layers) for name in LAYER]
    names += [name for name in work if name == "product head"]
    first = next(iter(steps_of(kernels, steps)), ())
    places = [place for place, kernel in enumerate(first) if sort_of(kernel.name)[0] == "cuBLAS"]
    apart = dict(zip(places, names, strict=True)) if len(places) == len(names) else {}
    kinds: dict[str, Kind] = {}
    for number, kernel in enumerate(kernels):
        sort, name = sort_of(kernel.name)
        if sort == "cuBLAS" and apart:
            name = apart[number % len(first)]
        kind = kinds.setdefault(name, Kind(name, sort))
        kind.us += kernel.us / steps
        kind.launches += 1 / steps
        kind.names[kernel.name] = kind.names.get(kernel.name, 0.0) + 1 / steps
    for kind in kinds.values():
        of_it = [name for name in work if name == kind.name or (kind.name == "products" and "product " in name)]
        kind.bound_us = sum(work[name].bound_us(peaks) for name in of_it)
    return sorted(kinds.values(), key=lambda kind: -kind.us)
