"""What a long run's processes held, over its time."""

from __future__ import annotations

from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, rate_axis
from fastqps.bench.report.reading import Json, list_at, mapping_at, number_at, numbers_at

_MIB = 1 << 20
_INKS = ("p50", "p99", "p90", "p999", "good", "faint")


def process_drift(result: Json) -> Plot | None:
    """Private memory and open descriptors by role."""
    samples = [sample for sample in list_at(result, "processes") if number_at(sample, "t_s") is not None]
    roles = list(dict.fromkeys(role for sample in samples for role in mapping_at(sample, "memory_bytes")))
    if len(samples) < 2 or not roles:
        return None
    with Drawing(320, rows=2) as drawing:
        memory, descriptors = drawing.panels
        for role, ink in zip(roles, _INKS * len(roles), strict=False):
            for panel, key, unit in ((memory, "memory_bytes", _MIB), (descriptors, "descriptors", 1)):
                known = [
                    (number_at(sample, "t_s"), held / unit)
                    for sample in samples
                    if (held := numbers_at(sample, key).get(role)) is not None
                ]
                if known:
                    panel.plot(*zip(*known, strict=True), color=INK[ink], label=role)
        rate_axis(memory, "private MiB", of_y=True)
        rate_axis(descriptors, "descriptors", of_y=True)
        descriptors.set_xlabel("seconds")
        drawing.legend(memory)
        first, last = samples[0], samples[-1]
        alt = "; ".join(
            f"{role}: {numbers_at(first, 'memory_bytes').get(role, 0) / _MIB:.0f} MiB at first, "
            f"{numbers_at(last, 'memory_bytes').get(role, 0) / _MIB:.0f} MiB at last"
            for role in roles
        )
        svg = drawing.svg(f"{alt}.", "processes")
    reading = (
        "Level lines are what a long run should show. A line that climbs after the first minutes is a leak: of memory, "
        "or of connections and files."
    )
    return Plot("processes", "Memory and descriptors", svg, reading)
