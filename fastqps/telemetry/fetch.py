"""Pages of a server's admin port, read from outside: within a time and a size."""

from __future__ import annotations

import http.client
import time

from fastqps.errors import ConfigError, FastqpsError
from fastqps.terminal import shown

PAGE_BYTES_MAX = 64 << 20


class FetchError(FastqpsError):
    """There is no such page at the address. The message names the address and the reason."""


class NoPageError(FetchError):
    """The server at the address has no such page."""


def fetch(admin: str, path: str, timeout_s: float) -> bytes:
    """A page of ``admin`` (HOST:PORT, as written or behind http://). Raises ``FetchError``;
    ``NoPageError`` where the answer is 404."""
    host, port = _address(admin)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    began = time.monotonic()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        page = _read(answer, began + timeout_s)
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(f"no {path} at {admin}: {_reason(error)}") from None
    finally:
        connection.close()
    if answer.status != 200:
        kind = NoPageError if answer.status == 404 else FetchError
        raise kind(f"no {path} at {admin}: it answers {answer.status} {shown(answer.reason)}")
    if len(page) > PAGE_BYTES_MAX:
        raise FetchError(f"no {path} at {admin}: the page is longer than {PAGE_BYTES_MAX} bytes")
    return page


def _read(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """The page, at most one byte more than it may have. A server that sends it bit by bit is given up, too."""
    page = bytearray()
    while len(page) <= PAGE_BYTES_MAX and (part := answer.read1(PAGE_BYTES_MAX + 1 - len(page))):
        page += part
        if time.monotonic() > until_s:
            raise TimeoutError
    return bytes(page)


def _address(admin: str) -> tuple[str, int]:
    host, colon, port = admin.removeprefix("http://").rstrip("/").rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{admin!r} is not the address of an admin port: write HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException):
        return "what answers there is not HTTP/1.1 (the gRPC port?)"
    return getattr(error, "strerror", None) or str(error)
