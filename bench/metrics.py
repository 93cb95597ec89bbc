"""What a server says about itself: its /metrics page, and the difference between two looks at it."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from fastqps._core import STAGES

# Stages whose stamps belong to a whole batch: an item's share is the batch's time over its items.
BATCH_STAGES = ("gather", "launch", "device", "scatter")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(admin: str) -> Samples:
    """All samples of ``ADMIN/metrics`` by name and sorted labels."""
    with urllib.request.urlopen(f"{admin}/metrics", timeout=10) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


class Difference:
    """What happened between two scrapes."""

    def __init__(self, before: Samples, after: Samples) -> None:
        self._changes = {key: value - before.get(key, 0.0) for key, value in after.items()}

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of ``name`` that have these labels."""
        wanted = set(labels.items())
        return sum(v for (found, of), v in self._changes.items() if found == name and wanted <= set(of))

    def items_by_code(self) -> dict[str, float]:
        """Items answered, by gRPC status."""
        codes: dict[str, float] = {}
        for (name, labels), value in self._changes.items():
            if name == "fastqps_items_total" and value:
                code = dict(labels)["code"]
                codes[code] = codes.get(code, 0.0) + value
        return codes

    def batch_items(self) -> float:
        """Items in a batch, on average."""
        return self._mean("fastqps_batch_items")

    def stage_us(self) -> dict[str, float]:
        """Mean time that an item spent in each stage, in µs."""
        return {stage: 1e6 * self._mean("fastqps_stage_duration_seconds", stage=stage) for stage in STAGES}

    def stage_cost_us(self) -> dict[str, float]:
        """CPU time of an item in the stages that compute, in µs: waiting (queue, drain) is no cost."""
        spent, items = self.stage_us(), max(1.0, self.batch_items())
        cost = {stage: spent[stage] for stage in ("parse", "tokenize")}
        return cost | {stage: spent[stage] / items for stage in BATCH_STAGES}

    def _mean(self, name: str, **labels: str) -> float:
        count = self.total(f"{name}_count", **labels)
        return self.total(f"{name}_sum", **labels) / count if count else 0.0
