"""Exit codes, and the errors that a command line or a call can end with.

Every fastqps process ends with one of these codes. What a call to a server can fail with is a ``CallError``, and also
the built-in exception that fits it.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from typing import Any

OK = 0
FAILURE = 1  # at run time
USAGE = 2  # the command line, the configuration, or something it names (a port in use, a missing file)
NO_DEVICE = 3
NO_MODEL = 4  # cannot be loaded or verified
NOT_DRAINED = 5
UNSTABLE = 6  # bench: the load was beyond the server's capacity
GENERATOR_BOUND = 7  # bench: the load generator was the limit
SLO_NOT_MET = 8  # bench
INCONCLUSIVE = 9  # bench: what was measured does not decide what was asked
DEVICE_FAULT = 71  # of a dispatcher, for the supervisor alone: its device is in an error that only a restart clears
INTERRUPTED = 130


class FastqpsError(Exception):
    """Something a user can act on: the message is printed as it is, without a traceback, and the process ends."""

    exit_code = FAILURE


def lack_of_memory(error: BaseException | None) -> str | None:
    """The line to print for an error that means that the system gives this process no more memory or threads, as under
    ``ulimit -v``; None for any other error. Where that shows is chance, so a traceback would tell nothing."""
    while error is not None:
        message = str(error) or type(error).__name__
        if (
            isinstance(error, MemoryError)
            or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
            or any(sign in message for sign in _NO_MEMORY)
        ):
            last = message.strip().splitlines()[-1]
            return f"not enough memory, or its limit (ulimit -v, that of a container) is too low: {last}"
        error = error.__cause__ or error.__context__
    return None


# Messages of threads and libraries that cannot be started or loaded.
_NO_MEMORY = ("can't start new thread", "failed to map segment", "annot allocate memory")


class ConfigError(FastqpsError):
    """A setting that is unknown, malformed, out of range, or names a part that this version does not have."""

    exit_code = USAGE


class ModelError(FastqpsError):
    """A checkpoint that cannot be found, read or served; the message says why and what would work. Exit code 4."""

    exit_code = NO_MODEL


class StatusCode(enum.IntEnum):
    """gRPC's status codes. (grpc has them too, but costs a third of a second to import.)"""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# With these an item has failed, and the client is not to blame: load reports and alarms count them.
FAULTS = ("UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")


class CallError(FastqpsError):
    """A call, or one item of it, failed.

    Attributes:
        message: what the server said, or what kept it from being reached.
        code: the gRPC status code as a number.
        retry_after_ms: the server's hint when to come back, in milliseconds; 0 if it gave none.
    """

    code: int = StatusCode.UNKNOWN

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.retry_after_ms), {"code": self.code}


class Cancelled(CallError):
    """The call was cancelled before it was answered."""

    code = StatusCode.CANCELLED


class InvalidArgument(CallError, ValueError):
    """The input is wrong; the message names the field and the limit. Trying again does not help."""

    code = StatusCode.INVALID_ARGUMENT


class DeadlineExceeded(CallError, TimeoutError):
    """The time for the call or the item has passed; the message names the stage that it was in."""

    code = StatusCode.DEADLINE_EXCEEDED


class NotFound(CallError, LookupError):
    """No such model is served."""

    code = StatusCode.NOT_FOUND


class ResourceExhausted(CallError):
    """The server is full, or would answer too late. Come back after `retry_after_ms` milliseconds."""

    code = StatusCode.RESOURCE_EXHAUSTED


class Unimplemented(CallError, NotImplementedError):
    """The server has no such method, or the model cannot do this."""

    code = StatusCode.UNIMPLEMENTED


class Internal(CallError, RuntimeError):
    """The request broke the server's worker, or an answer makes no sense."""

    code = StatusCode.INTERNAL


class Unavailable(CallError, ConnectionError):
    """No server there, or it is starting, draining, or has lost its workers. Trying again may help."""

    code = StatusCode.UNAVAILABLE


class Unauthenticated(CallError, PermissionError):
    """The server wants credentials, or other ones."""

    code = StatusCode.UNAUTHENTICATED


_CLASSES = {kind.code: kind for kind in CallError.__subclasses__()}


def from_code(code: int, message: str, retry_after_ms: int = 0) -> CallError:
    """The error for a gRPC status code that is not OK; a plain CallError for codes that have no class here."""
    error = _CLASSES.get(code, CallError)(message, retry_after_ms)
    error.code = code
    return error


_NOT_CONNECTED = "failed to connect to all addresses; last error: "  # gRPC's words
_NO_GRPC = ("Received http2 header with status: 404", "Trying to connect an http1.x server")  # of ports for HTTP
_GOAWAY_FIRST = "got frame type 7"  # that of a TLS port to a client without TLS, which gRPC does not read


def from_rpc(error: Any) -> CallError:
    """The error for a grpc.RpcError or grpc.aio.AioRpcError."""
    message = error.details() or ""
    if message.startswith(_NOT_CONNECTED):
        message = "no server can be reached: " + message.removeprefix(_NOT_CONNECTED).removeprefix("UNKNOWN: ")
        if _GOAWAY_FIRST in message:
            message += "; perhaps it speaks TLS, and this client does not (tls_ca or credentials; --tls-ca)"
    if any(sign in message for sign in _NO_GRPC):
        message = f"this address answers HTTP, and no gRPC: give the port of gRPC, the server's --port ({message})"
    return from_code(error.code().value[0], message, _pushback_ms(error.trailing_metadata() or ()))


def _pushback_ms(metadata: Iterable[tuple[str, str | bytes]]) -> int:
    for key, value in metadata:
        if key == "grpc-retry-pushback-ms" and isinstance(value, str) and value.isdecimal() and len(value) < 10:
            return int(value)
    return 0
