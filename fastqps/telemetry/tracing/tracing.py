"""Tracing of one server: reads the front doors' trace records, and exports them as spans."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastqps._core import dropped_spans, now_ns, take_traces
from fastqps.process.background import UnexpectedError, in_background
from fastqps.telemetry.tracing.exporter import Exporter

TICK_S = 0.2
RECORDS_PER_TICK = 100  # for all doors; further records wait in the rings, or are dropped there
EXPORT_TIMEOUT_S = 10.0


class Tracing:
    """``url``: of the collector. ``say(line)``: to the log; from any thread."""

    def __init__(self, url: str, segment: Any, models: Sequence[str], say: Callable[[str], None]) -> None:
        # Here: it takes a third of a second, and most servers trace nothing.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        from fastqps.telemetry.tracing.spans import SpanMaker, make_resource

        self._segment, self._say = segment, say
        self._reading = threading.Lock()  # a ring has one reader
        self._reasons = _quiet_logger()
        self._url = url
        self._otlp = OTLPSpanExporter(endpoint=url, insecure=url.startswith("http:"), timeout=EXPORT_TIMEOUT_S)
        named = any(os.environ.get(name) for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"))
        self._maker = SpanMaker(models, make_resource(named))
        self._exporter = Exporter(lambda spans: self._otlp.export(spans) is SpanExportResult.SUCCESS, self._on_turn)

    async def run(self) -> None:
        """Exports spans for ever. Errors do not end it, because a server can serve without traces."""
        last_error = ""
        while True:
            await asyncio.sleep(TICK_S)
            try:  # the loop has more urgent things to do
                await in_background(functools.partial(self.collect, RECORDS_PER_TICK))
                last_error = ""
            except UnexpectedError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    self._say(f"tracing: spans wait in the front doors, or are dropped there: {error}")

    def collect(self, records_max: int) -> int:
        """Takes at most ``records_max`` records from the doors' rings. Returns how many it took."""
        epoch_ns = time.time_ns() - now_ns()
        left = records_max
        with self._reading:
            for door in range(self._segment.sizes.doors):
                share = -(-left // (self._segment.sizes.doors - door))  # of a quiet door the others get the rest
                for record in take_traces(self._segment, door, share):
                    self._exporter.put(self._maker.spans(record, epoch_ns))
                    left -= 1
        return records_max - left

    def spans(self) -> dict[str, int]:
        """The number of spans by outcome."""
        doors = sum(dropped_spans(self._segment, door) for door in range(self._segment.sizes.doors))
        return {
            "exported": self._exporter.exported,
            "failed": self._exporter.failed,
            "dropped": self._exporter.dropped + doors,
        }

    def close(self, grace_s: float) -> None:
        """Exports the last spans; blocks for ``grace_s`` at most."""
        until_s = time.monotonic() + grace_s
        while self.collect(RECORDS_PER_TICK) and time.monotonic() < until_s:
            pass
        self._exporter.close(max(0.0, until_s - time.monotonic()))
        self._otlp.shutdown()

    def _on_turn(self, works: bool) -> None:
        if works:
            self._say(f"tracing: {self._url} takes spans again")
        else:
            reason = self._reasons.last or "no reason given"
            self._say(f"tracing: {self._url} takes no spans, they are dropped: {reason}")


class _Reasons(logging.Handler):
    """Keeps OpenTelemetry's newest message about exports, which the server logs once."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = " ".join(record.getMessage().split())[:300]


def _quiet_logger() -> _Reasons:
    reasons, logger = _Reasons(), logging.getLogger("opentelemetry")
    logger.handlers[:] = [reasons]
    logger.propagate = False
    return reasons
