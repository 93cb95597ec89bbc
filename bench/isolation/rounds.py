"""Loads that are measured in turn, and the ends of each over all rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from bench.isolation.figures import Percentile, percentile
from bench.isolation.mix import Ends, Kind, run
from bench.isolation.subject import host_share, step_us
from bench.runner import Bench
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.live.remote import fetch_counts
from fastqps.telemetry.live.view import view

BEHIND = 0.05  # share of the time


@dataclass
class Rounds:
    """``ends``: by load and kind, one of each round. ``steps_us``: by load."""

    ends: dict[str, dict[str, list[Ends]]] = field(default_factory=dict)
    steps_us: dict[str, list[float]] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)

    def all(self, load: str, kind: str) -> Ends:
        """Of all rounds together."""
        return reduce(add, self.ends[load][kind])

    def percentile(self, load: str, kind: str, share: float, most_us: float) -> Percentile:
        """Of the waits of all rounds together."""
        return percentile(self.all(load, kind).wait_us, share, most_us, self.late_us(load, share))

    def of_each(self, load: str, kind: str, share: float, most_us: float) -> list[Percentile]:
        """The same of each round."""
        late_us = self.late_us(load, share)
        return [percentile(ends.wait_us, share, most_us, late_us) for ends in self.ends[load][kind]]

    def late_us(self, load: str, share: float) -> float:
        """How late the generator was by itself: that percentile of its worst round."""
        times = [point["own_lateness_us"] for point in self.points if point["name"] == load]
        return max(float(found[f"p{100 * share:.0f}"]) for found in times)

    def step_us(self, load: str) -> float:
        """The mean step of a load."""
        return sum(self.steps_us[load]) / len(self.steps_us[load])

    def hindered(self, *loads: str) -> bool:
        """Whether the host kept the device waiting in one of these loads, so that its times prove nothing."""
        return any(point["host_share"] > BEHIND for point in self.points if point["name"] in loads)

    @property
    def doubtful(self) -> str:
        """For a note: how often the generator was the limit, and whether the device waited for the host; empty if
        neither was so. What is said of shares and steps holds where the device is the limit."""
        late = sum(point["verdict"] == "INVALID" for point in self.points)
        behind = max(point["host_share"] for point in self.points)
        return (f"; the generator was late in {late} of {len(self.points)} runs" if late else "") + (
            f"; the device waited for the host for up to {100 * behind:.0f} % of a run" if behind > BEHIND else ""
        )


Loads = Mapping[str, Callable[[int], Sequence[Kind]]]  # by name: the calls of a round with this seed


def measure(bench: Bench, claim: str, server: ServerProcess, loads: Loads, deadline_s: float) -> Rounds:
    """Each load of a claim in turn, in every round. Every round has its own arrivals, which loads share."""
    rounds = Rounds()
    for number in range(bench.repetitions):
        for name, kinds in loads.items():
            before = fetch_counts(server.admin)
            mixed = run(server.address, kinds(number), bench.folder, deadline_s)
            after = fetch_counts(server.admin)
            step = step_us(before, after)
            rounds.steps_us.setdefault(name, []).append(step)
            for kind, ends in mixed.ends.items():
                rounds.ends.setdefault(name, {}).setdefault(kind, []).append(ends)
            seen = {"step_us": step, "host_share": host_share(view(before, after))}
            rounds.points.append({"name": name, "round": number, **seen, **mixed.run})
    bench.points += [{**point, "name": f"{claim}, {point['name']}"} for point in rounds.points]
    return rounds
