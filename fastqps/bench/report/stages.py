"""A point's stages, from the first byte of a request to the last of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from fastqps.bench.report import wording
from fastqps.bench.report.reading import STAGES, Json, mapping_at, number_at, points_of, text_at

WIRE = "wire"


def stage_means(point: Json) -> dict[str, float]:
    """Mean µs of each stage as the server measured it, then ``wire``: what the generator saw beyond them."""
    means = {}
    for name in mapping_at(point, "stages_us"):
        value = number_at(point, "stages_us", name, "mean")
        if value is not None:
            means[str(name)] = max(0.0, value)
    service = number_at(point, "service_time_us", "mean")
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


def stage_table(result: Json) -> list[list[str]]:
    """Rows of text: the points' names; each stage with its time and share of each point; the sum. [] without stages."""
    columns = [(text_at(point, "name"), means) for point in points_of(result) if (means := stage_means(point))]
    columns = [(name, means) for name, means in columns if sum(means.values()) > 0]
    if not columns:
        return []
    every = [means for _, means in columns]
    return [
        ["stage", *(name for name, _ in columns)],
        *([stage, *(_cell(means, stage) for means in every)] for stage in stage_names(every)),
        ["end to end", *(wording.time(sum(means.values())) for means in every)],
        *([f"{part} share", *(_share(means, part) for means in every)] for part in ("device", "queue", "host", WIRE)),
    ]


def _cell(means: dict[str, float], stage: str) -> str:
    us = means.get(stage, 0.0)
    return f"{wording.time(us)} · {wording.percent(us / sum(means.values()))}"


def _share(means: dict[str, float], part: str) -> str:
    return wording.percent(stage_shares(means)[part])
