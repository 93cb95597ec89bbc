"""The stages of a traced call, from its front door's record."""

from __future__ import annotations

from fastqps._core import METHODS, STAGES, TraceRecord

OF_ONE = ("Predict", "Generate", "Steps")  # calls of the others may have several items; an edge's items are calls


def span_ns(record: TraceRecord) -> tuple[int, int]:
    """Returns (start, end): when the request arrived, and when its answer was written. The end is never before the
    start."""
    return record.at_ns[0], max(record.at_ns[-1], record.at_ns[0])


def stages(record: TraceRecord) -> list[tuple[str, int, int]]:
    """(name, start, end) of each stage that it went through, within the whole and one after the other.

    The one in which it ended without an answer lasts to its end. A call of many items has none of its own.
    """
    if not record.is_item and METHODS[record.method] not in OF_ONE:
        return []
    found = []
    first_ns, last_ns = span_ns(record)
    for k, name in enumerate(STAGES):
        start, end = record.at_ns[k : k + 2]
        if not start:
            continue
        last = not end and record.code
        if not end and not last:
            continue
        start = min(max(start, first_ns), last_ns)
        found.append((name, start, last_ns if last else min(max(end, start), last_ns)))
        if last:
            break
    return found
