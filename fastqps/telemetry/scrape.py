"""A server's admin port, read: its /metrics page, parsed, and the difference between two scrapes of it."""

from __future__ import annotations

import http.client
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from prometheus_client.parser import text_string_to_metric_families

from fastqps.errors import ConfigError, FastqpsError
from fastqps.terminal import shown

PAGE_BYTES_MAX = 64 << 20
Labels = tuple[tuple[str, str], ...]  # sorted by name
Samples = Mapping[tuple[str, Labels], float]


class ScrapeError(FastqpsError):
    """There is no metrics page at the address, or it is not one. The message names the address and the reason."""


@dataclass(frozen=True)
class Histogram:
    """Cumulative: how many observations were at most each edge, the last of which is infinite. Edges in the metric's
    unit."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def count(self) -> float:
        """All observations."""
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean(self) -> float | None:
        """None: nothing was observed."""
        return self.sum / self.count if self.count else None

    def quantile(self, q: float) -> float | None:
        """The value below which a share ``q`` of the observations lies, interpolated within a bucket.

        None if nothing was observed. Values beyond the last finite edge count as that edge.
        """
        rank, below, low = q * self.count, 0.0, 0.0
        for edge, count in zip(self.edges, self.counts, strict=True):
            if count >= rank and count > below:
                return low if math.isinf(edge) else low + (edge - low) * (rank - below) / (count - below)
            below = count
            low = low if math.isinf(edge) else edge
        return None


class Scrape:
    """Samples by name and labels, and when they were taken (``time.monotonic``).

    ``total`` and the others take labels that a series must have; it may have more.
    """

    def __init__(self, samples: Samples, at_s: float) -> None:
        self.samples = samples
        self.at_s = at_s

    def series(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """(labels, value) of each series with these labels, in the page's order."""
        wanted = set(labels.items())
        for found, value in self._by_name.get(name, ()):
            if wanted <= set(found):
                yield dict(found), value

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series with these labels."""
        return sum(value for _, value in self.series(name, **labels))

    def find(self, name: str, **labels: str) -> float | None:
        """Returns ``total``, or None if there is no such series."""
        values = [value for _, value in self.series(name, **labels)]
        return sum(values) if values else None

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Sums by the values of one label, in the page's order."""
        found: dict[str, float] = {}
        for of, value in self.series(name, **labels):
            found[of[label]] = found.get(of[label], 0.0) + value
        return found

    def histogram(self, name: str, **labels: str) -> Histogram:
        """All series of a histogram with these labels, added up."""
        counts = self.by(f"{name}_bucket", "le", **labels)
        edges = sorted(counts, key=float)
        return Histogram(
            tuple(map(float, edges)), tuple(counts[edge] for edge in edges), self.total(f"{name}_sum", **labels)
        )

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[Labels, float]]]:
        found: dict[str, list[tuple[Labels, float]]] = {}
        for (name, labels), value in self.samples.items():
            found.setdefault(name, []).append((labels, value))
        return found


class Difference(Scrape):
    """The change of counters and histograms between two scrapes of one server. A gauge is read from one scrape."""

    def __init__(self, before: Scrape, after: Scrape) -> None:
        super().__init__(
            {key: value - before.samples.get(key, 0.0) for key, value in after.samples.items()}, after.at_s
        )
        self.seconds = after.at_s - before.at_s


def scrape(admin: str, timeout_s: float = 10.0, path: str = "/metrics") -> Scrape:
    """The metrics of ``admin``. Raises ``ScrapeError``."""
    began = time.monotonic()
    page = fetch(admin, path, timeout_s)
    at_s = (began + time.monotonic()) / 2  # the server read its numbers in between
    try:
        return Scrape(_samples(page.decode()), at_s)
    except ValueError:
        raise ScrapeError(f"no metrics at {admin}: the page is not Prometheus text") from None


def fetch(admin: str, path: str, timeout_s: float) -> bytes:
    """A page of ``admin`` (HOST:PORT, as written or behind http://). Raises ``ScrapeError``."""
    host, port = _address(admin)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    began = time.monotonic()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        page = _read(answer, began + timeout_s)
    except (OSError, http.client.HTTPException) as error:
        raise ScrapeError(f"no metrics at {admin}: {_reason(error)}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise ScrapeError(f"no metrics at {admin}: it answers {answer.status} {shown(answer.reason)}")
    if len(page) > PAGE_BYTES_MAX:
        raise ScrapeError(f"no metrics at {admin}: the page is longer than {PAGE_BYTES_MAX} bytes")
    return page


def _read(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """The page, at most one byte more than it may have. A server that sends it bit by bit is given up, too."""
    page = bytearray()
    while len(page) <= PAGE_BYTES_MAX and (part := answer.read1(PAGE_BYTES_MAX + 1 - len(page))):
        page += part
        if time.monotonic() > until_s:
            raise TimeoutError
    return bytes(page)


def _samples(page: str) -> dict[tuple[str, Labels], float]:
    families = text_string_to_metric_families(page)
    return {(s.name, _labels(s.labels)): s.value for family in families for s in family.samples}


def _labels(found: Mapping[str, str]) -> Labels:
    """With values as a terminal can show them."""
    return tuple(sorted((name, shown(value)) for name, value in found.items()))


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
