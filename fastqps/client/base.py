"""The common part of both clients: defaults of calls, methods, and the mapping of errors."""

import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .. import errors
from ..api import rpc
from ..api.request import Options, Requests, options_help
from .attempts import Attempts

TENANT_BYTES_MAX = 256
_SCHEMES = ("dns", "unix", "unix-abstract", "ipv4", "ipv6", "vsock", "xds", "google-c2p")  # gRPC's own
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+[^]]*\]|[^:/\[\]\s]+):([0-9]{1,5})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]+)")


class ClientBase:
    """The defaults of a client's calls."""

    OPTIONS_HEAD = "Options of an item, which all calls that ask for items take:"

    def __init_subclass__(cls) -> None:
        """Adds the options to what help() says of a client."""
        cls.__doc__ = "\n\n".join((inspect.cleandoc(cls.__doc__ or ""), cls.OPTIONS_HEAD, options_help()))

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        model: str = "",
        timeout_s: float = 10.0,
        retries: int = 0,
        channels: int = 1,
        credentials: grpc.ChannelCredentials | None = None,
        tls_ca: str | PathLike[str] = "",
        tls_cert: str | PathLike[str] = "",
        tls_key: str | PathLike[str] = "",
        token: str = "",
        tenant: str = "",
    ) -> None:
        """Connects when first used. An AsyncClient may be made outside of a running loop: it belongs to the loop of its
        first call.

        Args:
            address: HOST:PORT of the server's gRPC port (--port), or any other gRPC target, such as unix:PATH.
            model: name of the model to use where a call names none. Empty: the server's default.
            timeout_s: seconds for each call that names no time of its own.
            retries: how often a call or an item that the server refuses with a hint when to come back (full queues,
                ResourceExhausted) is tried again, after at least that time and within the call's timeout_s. The server
                has not run what it refused so. Streams report refusals instead: predict_stream(), and generate_stream()
                after its first chunk.
            channels: connections to open, used in turn. One connection is served by one front door; many busy
                threads want one for each.
            credentials: for TLS, made by grpc; for certificates of public authorities grpc.ssl_channel_credentials().
            tls_ca: for TLS instead of these: PEM file with who may have signed the server's certificate.
            tls_cert, tls_key: PEM files of the client's own certificate, with tls_ca, for a server that asks for one.
            token: what a server with --auth-token-file asks for. Without TLS everybody on the way can read it.
            tenant: whose share of the service the calls take, at most 256 printable ASCII characters. It goes as
                metadata, `fastqps-tenant`; an item's own `tenant` counts before it. Empty: the server takes the token,
                the client's certificate or the connection for the tenant.

            Without credentials and tls_ca the connection is not encrypted. Raises ValueError for arguments that do
            not go together or are out of range and OSError for files that cannot be read.
        """
        check_address(address)
        if retries < 0:
            raise ValueError(f"retries: {retries}, must be 0 or more")
        self.address = address
        self.model = model
        self.timeout_s = timeout_s
        self.retries = retries
        self._channel_count = channels
        self._credentials = credentials or _credentials(tls_ca, tls_cert, tls_key)
        if credentials and (tls_ca or tls_cert or tls_key):
            raise ValueError("credentials hold all of TLS: tls_ca, tls_cert and tls_key are for clients without them")
        self._metadata = _metadata(token, tenant)
        self._prepare()

    def _prepare(self) -> None:
        """Prepares a client; opens no connection."""

    def _open(self, grpc_module: Any) -> list[Any]:
        """The channels, of grpc or of grpc.aio."""
        options, credentials = rpc.channel_options(self._channel_count), self._credentials
        return [
            grpc_module.secure_channel(self.address, credentials, options)
            if credentials
            else grpc_module.insecure_channel(self.address, options)
            for _ in range(self._channel_count)
        ]

    def _timeout_s(self, timeout_s: float | None) -> float:
        return self.timeout_s if timeout_s is None else timeout_s

    def _attempts(self, timeout_s: float | None) -> Attempts:
        return Attempts(self.retries, self._timeout_s(timeout_s))

    def _requests(self, options: Options, timeout_s: float | None = None) -> Requests:
        return Requests({"model": self.model, **options}, timeout_s)


def _credentials(
    ca: str | PathLike[str], certificate: str | PathLike[str], key: str | PathLike[str]
) -> grpc.ChannelCredentials | None:
    if bool(certificate) != bool(key) or (certificate and not ca):
        raise ValueError("tls_cert and tls_key go together, and with tls_ca")
    if not ca:
        return None
    own = [_pem("tls_key", key, b"PRIVATE KEY"), _pem("tls_cert", certificate)] if certificate else []
    return grpc.ssl_channel_credentials(_pem("tls_ca", ca), *own)


def _pem(name: str, path: str | PathLike[str], what: bytes = b"CERTIFICATE") -> bytes:
    """Reads a PEM file. gRPC would accept any content, and report each call's server as unreachable."""
    pem = Path(path).read_bytes()
    if what + b"-----" not in pem:
        raise ValueError(f"{name} {path}: it holds no {what.decode().lower()} in PEM")
    return pem


def _metadata(token: str, tenant: str) -> tuple[tuple[str, str], ...] | None:
    """The metadata of each call."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("a token has printable ASCII characters only, and no space")
    if not (tenant.isascii() and tenant.isprintable()) or len(tenant) > TENANT_BYTES_MAX:
        raise ValueError(f"tenant: it must have printable ASCII characters only, at most {TENANT_BYTES_MAX}")
    metadata = [("authorization", f"Bearer {token}")] if token else []
    metadata += [("fastqps-tenant", tenant)] if tenant else []
    return tuple(metadata) or None


class Methods:
    """The server's methods over some channels: the next of each is on the next channel. next() of a cycle is atomic."""

    def __init__(self, channels: Sequence[Any]) -> None:
        cycle, request = itertools.cycle, rpc.serialize_request
        self.predict = cycle([c.unary_unary(rpc.PREDICT, request, rpc.as_is) for c in channels])
        self.batch = cycle([c.unary_unary(rpc.PREDICT_BATCH, rpc.serialize_batch, rpc.as_is) for c in channels])
        self.stream = cycle([c.stream_stream(rpc.PREDICT_STREAM, request, rpc.as_is) for c in channels])
        self.generate = cycle([c.unary_stream(rpc.GENERATE, request, rpc.as_is) for c in channels])
        first = channels[0]
        self.models = first.unary_unary(rpc.LIST_MODELS, rpc.serialize_list_models, rpc.as_is)
        self.health = first.unary_unary(rpc.HEALTH_CHECK, rpc.as_is, rpc.as_is)


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Raises errors.CallError for what gRPC raises, and for an answer that cannot be read."""
    try:
        yield
    except grpc.RpcError as error:
        raise errors.from_rpc(error) from None
    except grpc.FutureCancelledError:
        raise errors.Cancelled("the client was closed") from None
    except DecodeError as error:
        raise errors.Internal(f"the server's answer cannot be read: {error}") from None


def check_address(address: str) -> None:
    """Raises ValueError for what is neither HOST:PORT nor another gRPC target: gRPC would take any text for the name of
    a host, and port 443 where there is none."""
    if address.partition(":")[0] in _SCHEMES:
        return
    if url := _URL.match(address):
        raise ValueError(f"address {address!r} is a URL; give HOST:PORT: {url[1]!r}")
    match = _HOST_PORT.fullmatch(address)
    if not match:
        raise ValueError(f"address {address!r} has no port: HOST:PORT, such as '127.0.0.1:50051' or '[::1]:50051'")
    if not 0 < int(match[2]) < 1 << 16:
        raise ValueError(f"address {address!r}: port {match[2]}, must be 1 to 65535")
