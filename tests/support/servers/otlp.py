"""An OTLP receiver: what a collector would be told, kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from grpc_server import grpc_server
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass
class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """``spans``: all that came, each with the attributes of its resource as ``span.resource``."""

    refuse: bool = False
    hang: threading.Event | None = None  # exports wait for it
    requests: list[Any] = field(default_factory=list)
    address: str = ""

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The service's one method."""
        if self.hang:
            self.hang.wait()
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not today")
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> list[tuple[dict[str, Any], Any]]:
        """(the attributes of its resource, the span) for each."""
        return [
            (attributes(resource.resource.attributes), span)
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def receiver(port: int = 0, **options: Any) -> Iterator[Receiver]:
    found = Receiver(**options)
    add = partial(trace_service_pb2_grpc.add_TraceServiceServicer_to_server, found)
    with grpc_server(add, port=port) as found.address:
        yield found
