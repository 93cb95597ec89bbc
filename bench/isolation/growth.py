"""By how much waits grow from one load to another."""

from __future__ import annotations

from bench.isolation.figures import Interval, Percentile
from bench.isolation.rounds import Rounds
from bench.row import Row


def growth_row(
    name: str, rounds: Rounds, kind: str, loads: tuple[str, str], share: float, most_us: float, accept: float | None
) -> Row:
    """In steps, of a percentile of a kind's waits, from the first load to the second."""
    step_us = rounds.step_us(loads[1])
    before, after = (rounds.percentile(load, kind, share, most_us) for load in loads)
    ends_us = [after.interval[0] - before.interval[1], after.interval[1] - before.interval[0]]
    each = (rounds.of_each(load, kind, share, most_us) for load in loads)
    ends_us += [late.value - early.value for early, late in zip(*each, strict=True)]
    ends_us += [-most_us, most_us] if rounds.hindered(*loads) else []
    note = f"{after}, before {before}; a step takes {step_us / 1e3:.2f} ms{rounds.doubtful}"
    return Row(
        name, (after.value - before.value) / step_us, "steps", accept, at_most=True,
        note=note, interval=(min(ends_us) / step_us, max(ends_us) / step_us),
    )  # fmt: skip


def ratio_interval(above: tuple[Percentile, list[Percentile]], below: tuple[Percentile, list[Percentile]]) -> Interval:
    """Of the ratio of two percentiles, each of all rounds and of each: whatever makes rounds differ widens it."""
    ends = [
        above[0].interval[0] / max(1.0, below[0].interval[1]),
        above[0].interval[1] / max(1.0, below[0].interval[0]),
        *(a.value / b.value for a, b in zip(above[1], below[1], strict=True)),
    ]
    return min(ends), max(ends)
