"""The server's load in shared memory: what the supervisor says is what a front door reads, and when it was said."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fastqps._core import Segment, Sizes, create_segment, now_ns

VALUES = {
    "utilization": 1.25,
    "cpu_utilization": 0.5,
    "memory_utilization": 0.25,
    "requests_per_second": 1e5,
    "errors_per_second": 3.5,
    "queue_wait_s": 0.0005,
    "items_waiting": 7.0,
    "items_running": 64.0,
}


@pytest.fixture
def segments() -> Iterator[tuple[Segment, Segment]]:
    fd = create_segment(Sizes(doors=1, dispatchers=1, models=1, slots=16, max_tokens=8, answer_bytes=32))
    yield Segment(fd), Segment(fd)
    os.close(fd)


def test_load_is_empty_before_it_was_said(segments: tuple[Segment, Segment]) -> None:
    assert segments[0].load() == {"updated_ns": 0, **dict.fromkeys(VALUES, 0.0)}


def test_load_as_said_by_another_process(segments: tuple[Segment, Segment]) -> None:
    before = now_ns()
    segments[0].set_load(**VALUES)
    found = segments[1].load()
    assert before <= found.pop("updated_ns") <= now_ns()
    assert found == VALUES
