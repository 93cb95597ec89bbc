"""What a front door's record of a call says: its stages, and the fields of its line in the access log."""

from __future__ import annotations

from collections.abc import Sequence

from fastqps import errors
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
    intervals = []
    first_ns, last_ns = span_ns(record)
    for k, name in enumerate(STAGES):
        start, end = record.at_ns[k : k + 2]
        if not start:
            continue
        last = not end and record.code
        if not end and not last:
            continue
        start = min(max(start, first_ns), last_ns)
        intervals.append((name, start, last_ns if last else min(max(end, start), last_ns)))
        if last:
            break
    return intervals


def access_fields(record: TraceRecord, models: Sequence[str]) -> dict[str, str | int | float]:
    """The fields of a call's line; those that are not known are left out. None of them is a client's text."""
    start_ns, end_ns = span_ns(record)
    fields: dict[str, str | int | float] = {
        "status": errors.StatusCode(record.code).name,
        "duration_ms": round((end_ns - start_ns) / 1e6, 3),
    }
    if 0 <= record.model < len(models):
        fields["model"] = models[record.model]
    for name in ("items", "input_tokens", "output_tokens"):
        if value := getattr(record, name):
            fields[name] = value
    times = {name: (end - start) / 1e6 for name, start, end in stages(record)}
    return fields | {f"{name}_ms": round(times[name], 3) for name in ("queue", "device") if name in times}
