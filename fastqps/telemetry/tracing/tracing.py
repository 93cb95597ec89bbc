"""Tracing of one server: reads the front doors' records of calls, which become spans and lines of the access log."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastqps._core import METHODS, dropped_lines, dropped_spans, now_ns, take_traces
from fastqps.process.background import UnexpectedError, in_background
from fastqps.telemetry.tracing.exporter import Exporter
from fastqps.telemetry.tracing.records import access_fields

TICK_S = 0.2
RECORDS_PER_TICK = 100  # for all doors; further records wait in the rings, or are dropped there
EXPORT_TIMEOUT_S = 10.0
COMPLAIN_S = 10.0  # from one line about dropped ones to the next
Access = Callable[[str, Mapping[str, Any]], None]


class Tracing:
    """``url``: of the collector; "": there are no spans. ``say(line)``: to the log. ``access(method, fields)``: a line
    of the access log. Both from any thread."""

    def __init__(
        self, url: str, segment: Any, models: Sequence[str], say: Callable[[str], None], access: Access | None = None
    ) -> None:
        self._url, self._segment, self._models, self._say, self._access = url, segment, models, say, access
        self._reading = threading.Lock()  # a ring has one reader
        self._exporter: Exporter | None = None
        self._lines_dropped, self._complain_s = 0, 0.0
        if url:
            self._open()

    def _open(self) -> None:
        # Here: it takes a third of a second, and most servers trace nothing.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        from fastqps.telemetry.tracing.spans import SpanMaker, make_resource

        self._reasons = _quiet_logger()
        secure = not self._url.startswith("http:")
        self._otlp = OTLPSpanExporter(endpoint=self._url, insecure=not secure, timeout=EXPORT_TIMEOUT_S)
        named = any(os.environ.get(name) for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"))
        self._maker = SpanMaker(self._models, make_resource(named))
        self._exporter = Exporter(lambda spans: self._otlp.export(spans) is SpanExportResult.SUCCESS, self._on_turn)

    async def run(self) -> None:
        """Exports spans and logs calls for ever. Errors do not end it, because a server can serve without them."""
        last_error = ""
        while True:
            await asyncio.sleep(TICK_S)
            try:  # the loop has more urgent things to do
                await in_background(functools.partial(self.collect, RECORDS_PER_TICK))
                last_error = ""
            except UnexpectedError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    self._say(f"tracing: records wait in the front doors, or are dropped there: {error}")

    def collect(self, records_max: int) -> int:
        """Takes at most ``records_max`` records from the doors' rings. Returns how many it took."""
        epoch_ns = time.time_ns() - now_ns()
        left = records_max
        with self._reading:
            for door in range(self._segment.sizes.doors):
                share = -(-left // (self._segment.sizes.doors - door))  # of a quiet door the others get the rest
                for record in take_traces(self._segment, door, share):
                    if record.has_line and self._access:
                        self._access(METHODS[record.method], access_fields(record, self._models))
                    if record.has_spans and self._exporter:
                        self._exporter.put(self._maker.spans(record, epoch_ns))
                    left -= 1
        self._count_dropped_lines()
        return records_max - left

    def _count_dropped_lines(self) -> None:
        dropped = sum(dropped_lines(self._segment, door) for door in range(self._segment.sizes.doors))
        now_s = time.monotonic()
        if dropped == self._lines_dropped or now_s < self._complain_s:
            return
        self._complain_s = now_s + COMPLAIN_S
        self._say(f"access log: {dropped - self._lines_dropped} lines were dropped; lower --access-log")
        self._lines_dropped = dropped

    def spans(self) -> dict[str, int]:
        """The number of spans by outcome; nothing without a collector."""
        if not self._exporter:
            return {}
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
        if self._exporter:
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
