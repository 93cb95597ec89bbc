"""The counters of a server somewhere, read through its admin port."""

from __future__ import annotations

from typing import Any, cast

from fastqps import __version__
from fastqps._core import STAGES
from fastqps.files.documents import parse_json
from fastqps.files.shape import fits
from fastqps.telemetry.fetch import FetchError, NoPageError, fetch
from fastqps.telemetry.live.counts import Counts, Histogram
from fastqps.telemetry.metrics.histograms import BUCKETS
from fastqps.telemetry.metrics.upstream_rows import COUNTERS, HOP
from fastqps.terminal import shown

PATH = "/live/counts.json"
_COUNT_MAX = 1 << 53  # all buckets together can still be counted with


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
