"""What the bench reads from a server's metrics: the figures of the time between two scrapes."""

from __future__ import annotations

from fastqps._core import STAGES
from fastqps.telemetry.scrape import Difference

# Stages whose stamps belong to a whole batch: an item's share is the batch's time over its items.
BATCH_STAGES = ("gather", "launch", "device", "scatter")


def items_by_code(seen: Difference) -> dict[str, float]:
    """Items answered, by gRPC status."""
    return {code: count for code, count in seen.by("fastqps_items_total", "code").items() if count}


def mean(seen: Difference, histogram: str, **labels: str) -> float:
    """Of what was observed; 0 where nothing was."""
    return seen.histogram(histogram, **labels).mean or 0.0


def stage_us(seen: Difference) -> dict[str, float]:
    """Mean time that an item spent in each stage, in µs."""
    return {stage: 1e6 * mean(seen, "fastqps_stage_duration_seconds", stage=stage) for stage in STAGES}


def stage_cost_us(seen: Difference) -> dict[str, float]:
    """CPU time of an item in the stages that compute, in µs: waiting (queue, drain) is no cost."""
    spent, items = stage_us(seen), max(1.0, mean(seen, "fastqps_batch_items"))
    cost = {stage: spent[stage] for stage in ("parse", "tokenize")}
    return cost | {stage: spent[stage] / items for stage in BATCH_STAGES}
