"""A traced call as its front door wrote it (``TraceRecord`` in csrc/core/layout.h)."""

from __future__ import annotations

from typing import NamedTuple

from fastqps._core import METHODS, STAGES

OF_MANY = ("PredictBatch", "PredictStream")


class Record(NamedTuple):
    """A call that has ended, or an item of one that has many. -1: no such thing is known."""

    is_item: bool
    trace_id: bytes
    parent_id: bytes  # all 0: nobody's
    span_id: bytes
    state: bytes  # the client's tracestate
    method: int
    code: int
    model: int
    dispatcher: int
    items: int  # of the call
    input_tokens: int
    output_tokens: int
    batch_items: int  # that were in its batch; 0: not known
    at_ns: tuple[int, ...]  # stage k from at_ns[k] to at_ns[k + 1], by now_ns(); 0: it was not reached

    @property
    def start_ns(self) -> int:
        """When its client's request came."""
        return self.at_ns[0]

    @property
    def end_ns(self) -> int:
        """When its answer was written; never before its start."""
        return max(self.at_ns[-1], self.start_ns)

    def stages(self) -> list[tuple[str, int, int]]:
        """(name, start, end) of each stage that it went through, within the whole and one after the other.

        The one in which it ended without an answer lasts to its end. A call of many items has none of its own.
        """
        if not self.is_item and METHODS[self.method] in OF_MANY:
            return []
        found = []
        for k, name in enumerate(STAGES):
            start, end = self.at_ns[k : k + 2]
            if not start:
                continue
            last = not end and self.code
            if not end and not last:
                continue
            start = min(max(start, self.start_ns), self.end_ns)
            found.append((name, start, self.end_ns if last else min(max(end, start), self.end_ns)))
            if last:
                break
        return found
