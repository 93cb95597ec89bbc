"""Spans of a record: the call's, and one for each stage that it went through."""

from __future__ import annotations

import random
from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from fastqps import __version__, errors
from fastqps._core import METHODS, TraceRecord
from fastqps.telemetry.tracing.records import span_ns, stages

# Other methods belong to protocols that are spoken over gRPC and HTTP alike, so they have no service of gRPC.
SERVICES = dict.fromkeys(("Predict", "PredictBatch", "PredictStream", "Generate"), "fastqps.v1.PredictService")
SERVICE_NAME = "fastqps"
# The codes that OpenTelemetry counts as a server's failure.
FAILURES = ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
_SCOPE = InstrumentationScope("fastqps", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def make_resource(name_given: bool) -> Resource:
    """The resource of all spans. ``name_given``: OpenTelemetry's own variables name the service."""
    own = {"service.version": __version__}
    return Resource.create(own if name_given else {"service.name": SERVICE_NAME, **own})


def call_name(method: str) -> str:
    """The name of a call's span: that of the service and its method, or of the method alone."""
    return f"{SERVICES[method]}/{method}" if method in SERVICES else method


class SpanMaker:
    """Makes spans of records. ``models``: names, by index."""

    def __init__(self, models: Sequence[str], resource: Resource) -> None:
        self._models = models
        self._resource = resource
        self._random = random.Random()

    def spans(self, record: TraceRecord, epoch_ns: int) -> list[ReadableSpan]:
        """Makes the spans of a record, its own span first. ``epoch_ns``: offset of its times to those since 1970."""
        trace_id = int.from_bytes(record.trace_id, "big")
        state = TraceState.from_header([record.state.decode("ascii", "replace")]) if record.state else TraceState()
        own = SpanContext(trace_id, int.from_bytes(record.span_id, "big"), False, _SAMPLED, state)
        parent_id = int.from_bytes(record.parent_id, "big")
        parent = SpanContext(trace_id, parent_id, not record.is_item, _SAMPLED, state) if parent_id else None
        failed = errors.StatusCode(record.code).name in FAILURES
        start_ns, end_ns = span_ns(record)
        spans = [
            ReadableSpan(
                name="item" if record.is_item else call_name(METHODS[record.method]),
                context=own,
                parent=parent,
                resource=self._resource,
                attributes=self._attributes(record),
                kind=SpanKind.INTERNAL if record.is_item else SpanKind.SERVER,
                status=Status(StatusCode.ERROR, errors.StatusCode(record.code).name) if failed else Status(),
                start_time=start_ns + epoch_ns,
                end_time=end_ns + epoch_ns,
                instrumentation_scope=_SCOPE,
            )
        ]
        for name, start_ns, end_ns in stages(record):
            spans.append(
                ReadableSpan(
                    name=name,
                    context=SpanContext(trace_id, self._random.getrandbits(64) or 1, False, _SAMPLED, state),
                    parent=own,
                    resource=self._resource,
                    start_time=start_ns + epoch_ns,
                    end_time=end_ns + epoch_ns,
                    instrumentation_scope=_SCOPE,
                )
            )
        return spans

    def _attributes(self, record: TraceRecord) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {}
        service = SERVICES.get(METHODS[record.method])
        if service and not record.is_item:
            attributes |= {"rpc.system": "grpc", "rpc.service": service}
        attributes["rpc.method"] = METHODS[record.method]
        attributes["rpc.grpc.status_code"] = record.code
        if 0 <= record.model < len(self._models):
            attributes["fastqps.model"] = self._models[record.model]
        if record.dispatcher >= 0:
            attributes["fastqps.dispatcher"] = record.dispatcher
        for name in ("input_tokens", "output_tokens", "batch_items"):
            if value := getattr(record, name):
                attributes[f"fastqps.{name}"] = value
        if not record.is_item:
            attributes["fastqps.items"] = record.items
        return attributes
