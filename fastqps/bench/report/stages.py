"""The stages of a request, from its first byte to the last byte of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from fastqps.bench.report import wording
from fastqps.bench.report.points import STAGES
from fastqps.bench.results.point import Point

WIRE = "wire"


def stage_means(point: Point) -> dict[str, float]:
    """Mean µs of each stage as the server measured it, then ``wire``: what the generator saw beyond them."""
    found = {name: spent.get("mean") for name, spent in (point.stages_us or {}).items()}
    means = {name: max(0.0, us) for name, us in found.items() if us is not None}
    service = point.service_time_us.get("mean")
    if means and WIRE not in means and service is not None:
        means[WIRE] = max(0.0, service - sum(means.values()))
    return means


def stage_names(means: Sequence[dict[str, float]]) -> list[str]:
    """The stages that take any time in some of these, in the order of a request's life; ``wire`` last."""
    named = dict.fromkeys([*STAGES, *(name for one in means for name in one if name != WIRE), WIRE])
    return [name for name in named if any(one.get(name, 0.0) > 0 for one in means)]


def stage_shares(means: dict[str, float]) -> dict[str, float]:
    """Shares of the end-to-end time: device, waiting for it, the host's own work, wire. {} without stages."""
    total = sum(means.values())
    if total <= 0:
        return {}
    device, queue, wire = (means.get(stage, 0.0) / total for stage in ("device", "queue", WIRE))
    return {"device": device, "queue": queue, "host": max(0.0, 1 - device - queue - wire), WIRE: wire}


def stage_table(points: Sequence[Point]) -> list[list[str]]:
    """Rows of text: the points' names; each stage with its time and share of each point; the sum. [] without stages."""
    columns = [(wording.one_line(p.name), means) for p in points if sum((means := stage_means(p)).values()) > 0]
    if not columns:
        return []
    every = [means for _, means in columns]
    return [
        ["stage", *(name for name, _ in columns)],
        *([stage, *(_cell(means, stage) for means in every)] for stage in stage_names(every)),
        ["end to end", *(wording.time(sum(means.values())) for means in every)],
        *(
            [f"{part} share", *(wording.percent(stage_shares(means)[part]) for means in every)]
            for part in ("device", "queue", "host", WIRE)
        ),
    ]


def _cell(means: dict[str, float], stage: str) -> str:
    us = means.get(stage, 0.0)
    parts = wording.time(us), wording.percent(us / sum(means.values()))
    return " · ".join(part.replace(" ", "\u00a0") for part in parts)  # a line may end between them only
