"""gRPC server reflection, v1 and v1alpha, as a pure function from request bytes to response bytes.

The messages live in a descriptor pool of their own: a process may also import grpcio-reflection or
grpcio-health-checking, which register the same names in protobuf's default pool.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError, Message

from .descriptors import FILES

Version = Literal["v1", "v1alpha"]

# The services that a server answers, in the order in which they are listed.
SERVICES = (
    "fastqps.v1.PredictService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "inference.GRPCInferenceService",
    "tei.v1.Embed",
    "tei.v1.Info",
    "tei.v1.Predict",
    "tei.v1.Rerank",
    "tei.v1.Tokenize",
)

INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED = 3, 5, 12
_TEXT_MAX = 200


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for serialized in FILES.values():
        pool.AddSerializedFile(serialized)
    return pool


def message_class(full_name: str) -> type[Message]:
    """The class of a message of any .proto file in proto/. Raises KeyError for any other name."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(full_name))


def answer(request: bytes, version: Version) -> bytes:
    """One ServerReflectionResponse for one ServerReflectionRequest, both serialized.

    Never raises for what a client may send: an unknown name is an `error_response` with NOT_FOUND, a request without a
    question UNIMPLEMENTED, bytes that are no request INVALID_ARGUMENT, as the protocol wants.
    """
    package = f"grpc.reflection.{version}"
    # Any: the fields are known at run time only.
    response: Any = message_class(f"{package}.ServerReflectionResponse")()
    question: Any = message_class(f"{package}.ServerReflectionRequest")()
    try:
        question.ParseFromString(request)
    except DecodeError:
        _error(response, INVALID_ARGUMENT, "not a ServerReflectionRequest")
        return bytes(response.SerializeToString())
    response.valid_host = question.host
    response.original_request.CopyFrom(question)
    kind = question.WhichOneof("message_request")
    if kind is None:
        _error(response, UNIMPLEMENTED, "no question is set")
    else:
        _ANSWERS[kind](response, getattr(question, kind))
    return bytes(response.SerializeToString())


def _error(response: Any, code: int, message: str) -> None:
    response.error_response.error_code = code
    response.error_response.error_message = message[:_TEXT_MAX]  # it names what was asked for


def _add_file(response: Any, file: FileDescriptor) -> None:
    # No file of ours imports another one, so the file alone is the whole answer.
    response.file_descriptor_response.file_descriptor_proto.append(file.serialized_pb)


def _by_filename(response: Any, name: str) -> None:
    if name not in FILES:
        return _error(response, NOT_FOUND, f"no file {name!r}")
    return _add_file(response, _pool().FindFileByName(name))


def _file_containing(symbol: str) -> FileDescriptor:
    """Raises KeyError if no file does."""
    try:
        return _pool().FindFileContainingSymbol(symbol)
    except KeyError:  # the pool does not look up methods
        service, _, method = symbol.rpartition(".")
        found: FileDescriptor = _pool().FindServiceByName(service).methods_by_name[method].containing_service.file
        return found


def _by_symbol(response: Any, symbol: str) -> None:
    try:
        file = _file_containing(symbol)
    except KeyError:
        return _error(response, NOT_FOUND, f"no symbol {symbol!r}")
    return _add_file(response, file)


def _by_extension(response: Any, wanted: Any) -> None:
    _error(response, NOT_FOUND, f"no extension {wanted.extension_number} of {wanted.containing_type!r}")


def _extension_numbers(response: Any, type_name: str) -> None:
    try:
        _pool().FindMessageTypeByName(type_name)
    except KeyError:
        return _error(response, NOT_FOUND, f"no message type {type_name!r}")
    response.all_extension_numbers_response.base_type_name = type_name  # known, and nothing extends it
    return None


def _list_services(response: Any, _ignored: str) -> None:
    for name in SERVICES:
        response.list_services_response.service.add().name = name


_ANSWERS: dict[str, Callable[[Any, Any], None]] = {
    "file_by_filename": _by_filename,
    "file_containing_symbol": _by_symbol,
    "file_containing_extension": _by_extension,
    "all_extension_numbers_of_type": _extension_numbers,
    "list_services": _list_services,
}
