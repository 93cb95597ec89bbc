"""Calls of every method that a server serves, by the descriptors of its reflection: there are no stubs of most."""

from __future__ import annotations

from typing import Any

import grpc
from serving import PATIENCE_S

from fastqps.api.reflection import message_class

_OF_PACKAGE = {"inference": "inference.ModelInferRequest", "tei.v1": "tei.v1.EmbedRequest"}


def method_at(channel: grpc.Channel, path: str) -> tuple[Any, type[Any]]:
    """The method ``package.Service/Method``, to be called as one of a stub, and the class of its requests."""
    service, _, name = path.rpartition("/")
    pool = message_class(_OF_PACKAGE[service.rpartition(".")[0]]).DESCRIPTOR.file.pool
    found = pool.FindServiceByName(service).methods_by_name[name]
    kind = "_".join("stream" if each else "unary" for each in (found.client_streaming, found.server_streaming))
    request, response = message_class(found.input_type.full_name), message_class(found.output_type.full_name)
    return getattr(channel, kind)(f"/{path}", request.SerializeToString, response.FromString), request


def call(channel: grpc.Channel, path: str, *messages: dict[str, Any], **fields: Any) -> Any:
    """The answer to one request, or to a stream of ``messages``: a message, or where a stream answers, all of them."""
    method, request = method_at(channel, path)
    streams = isinstance(method, grpc.StreamUnaryMultiCallable | grpc.StreamStreamMultiCallable)
    answer = method(iter([request(**each) for each in messages]) if streams else request(**fields), timeout=PATIENCE_S)
    return answer if isinstance(method, grpc.UnaryUnaryMultiCallable | grpc.StreamUnaryMultiCallable) else [*answer]
