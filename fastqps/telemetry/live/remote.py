"""Pages of a server's admin port, read from outside within a time and a size; and of these its counters."""

from __future__ import annotations

import http.client
import time
from typing import Any, cast

from fastqps import __version__
from fastqps._core import STAGES
from fastqps.errors import ConfigError, FastqpsError
from fastqps.files.documents import parse_json
from fastqps.files.shape import fits
from fastqps.telemetry.live.counts import Counts, Histogram
from fastqps.telemetry.metrics.families import BUCKETS
from fastqps.telemetry.metrics.upstreams import COUNTERS, HOP
from fastqps.terminal import shown

PATH = "/live/counts.json"
PAGE_BYTES_MAX = 64 << 20
_COUNT_MAX = 1 << 53  # all buckets together can still be counted with


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


def fetch_counts(admin: str, timeout_s: float = 10.0) -> Counts:
    """Now. Raises ``FetchError`` where there is no server, or another program or version."""
    try:
        counts = _shown(parse_json(fetch(admin, PATH, timeout_s)))
    except (ValueError, NoPageError):
        counts = None
    version = counts.get("version") if isinstance(counts, dict) else None
    if isinstance(version, str) and version != __version__:
        raise FetchError(f"the server at {admin} has version {version}, not {__version__} as this program")
    if not fits(counts, Counts) or not _is_whole(counts):
        raise FetchError(f"what answers {PATH} at {admin} is not a fastqps server of this version")
    return cast(Counts, counts)


def _is_whole(counts: Counts) -> bool:
    """Whether it has all keys of tables that are read by name, and no bucket that no histogram has."""
    models = [model[kind] for model in counts["models"] for kind in ("items", "tokens")]
    return (
        counts["stages"].keys() == set(STAGES)
        and counts["hop"].keys() == set(HOP)
        and all(each["counts"].keys() >= set(COUNTERS) for each in counts["upstreams"])
        and all(map(_has_buckets, (counts["request"], *counts["stages"].values(), *counts["hop"].values(), *models)))
    )


def _has_buckets(histogram: Histogram) -> bool:
    return all(
        len(pair) == 2 and 0 <= pair[0] < BUCKETS and 0 <= pair[1] <= _COUNT_MAX for pair in histogram["buckets"]
    )


def _shown(node: Any) -> Any:
    """The same value with texts that a terminal can show."""
    if isinstance(node, dict):
        return {shown(key): _shown(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_shown(value) for value in node]
    return shown(node) if isinstance(node, str) else node


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
