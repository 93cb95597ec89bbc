"""Counters by tenant: rows of several front doors that change hands, and sums that stay true."""

from __future__ import annotations

import pytest
from fake_source import FakeSource, process

from fastqps.telemetry.metrics.tenants import NAMES_MAX, TenantMeter

pytestmark = pytest.mark.compute


@pytest.fixture
def source() -> FakeSource:
    return FakeSource(*[process() for _ in range(5)])


def shown(meter: TenantMeter) -> dict[str, tuple[int, ...]]:
    """(items, tokens, refused) by tenant."""
    found: dict[str, list[int]] = {}
    for family, name in zip(meter.families(), ("items", "tokens", "refused"), strict=True):
        for sample in family.samples:
            assert sample.name == f"fastqps_tenant_{name}_total"
            found.setdefault(sample.labels["tenant"], []).append(int(sample.value))
    return {tenant: tuple(counts) for tenant, counts in found.items()}


def test_front_doors_are_added_up_by_name(source: FakeSource) -> None:
    source.tenants = [
        ([(0, 2, "a", 5, 50, 1), (1, 2, "b", 1, 10, 0)], (10, 100, 2)),
        ([(0, 2, "b", 2, 20, 0), (7, 4, "others", 1, 10, 0)], (3, 30, 5)),
    ]
    meter = TenantMeter(source)
    assert shown(meter) == {"a": (5, 50, 1), "b": (3, 30, 0), "others": (5, 50, 6)}
    assert shown(meter) == {"a": (5, 50, 1), "b": (3, 30, 0), "others": (5, 50, 6)}


def test_a_row_that_changes_hands_takes_nothing_from_anybody(source: FakeSource) -> None:
    source.tenants[0] = ([(0, 2, "a", 5, 50, 1)], (5, 50, 1))
    meter = TenantMeter(source)
    meter.sample()
    source.tenants[0] = ([(0, 4, "b", 2, 20, 0)], (9, 90, 1))  # 2 of a's items were not read any more
    assert shown(meter) == {"a": (5, 50, 1), "b": (2, 20, 0), "others": (2, 20, 0)}
    source.tenants[0] = ([(0, 6, "a", 1, 10, 0)], (10, 100, 1))
    assert shown(meter) == {"a": (6, 60, 1), "b": (2, 20, 0), "others": (2, 20, 0)}


def test_counters_never_fall(source: FakeSource) -> None:
    """Rows are read after the sums, so a row may have more than the sum; a row may be unreadable once."""
    meter = TenantMeter(source)
    source.tenants[0] = ([(0, 2, "a", 4, 40, 0)], (6, 60, 0))
    meter.sample()
    source.tenants[0] = ([(0, 2, "a", 9, 90, 0)], (8, 80, 0))
    assert shown(meter) == {"a": (9, 90, 0), "others": (2, 20, 0)}
    source.tenants[0] = ([], (12, 120, 0))
    assert shown(meter)["a"] == (9, 90, 0)
    source.tenants[0] = ([(0, 2, "a", 10, 100, 0)], (12, 120, 0))
    assert shown(meter)["a"] == (10, 100, 0)


def test_names_are_bounded_and_what_is_dropped_becomes_others(source: FakeSource) -> None:
    meter = TenantMeter(source)
    for i in range(NAMES_MAX + 10):
        source.tenants[0] = ([(0, 2 * i, f"t{i}", 1, 10, 0)], (i + 1, 10 * (i + 1), 0))
        meter.sample()
    found = shown(meter)
    assert len(found) == NAMES_MAX + 1 and f"t{NAMES_MAX + 9}" in found
    assert found["others"] == (10, 100, 0)
