"""All counters of a server at one moment. The difference of two such readings shows what happened between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastqps._core import IDLES, METHODS, REJECTS, STAGES, ProcessStats, now_ns
from fastqps.api.codes import CODES
from fastqps.telemetry.metrics.histograms import Merged
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.upstream_rows import Upstream, upstreams

Totals = npt.NDArray[np.uint64]
_OWN = METHODS.index("other")  # calls that the transport answered itself, not for a model


@dataclass(frozen=True)
class DispatcherCounts:
    """Times in nanoseconds, each with its own reason for standing still."""

    busy_ns: int
    idle_ns: Mapping[str, int]
    steps: int
    step_items: int


@dataclass(frozen=True)
class BatchCounts:
    """The batches of one model."""

    items: Merged
    step_tokens: int
    step_room: int  # the token room of those batches
    tokens_made: int


@dataclass(frozen=True)
class Counts:
    """``by_code`` items, ``calls`` of all methods, ``bytes`` of each front door as (received, sent)."""

    at_ns: int
    by_code: Totals
    calls: int
    rejected: Mapping[str, int]
    expired: int
    inflight_ns: int
    request: Merged
    stages: Mapping[str, Merged]
    batches: Sequence[BatchCounts]
    dispatchers: Sequence[DispatcherCounts]
    active_ns: Sequence[int]
    bytes: Sequence[tuple[int, int]]
    upstreams: Sequence[Upstream]  # of an edge

    @classmethod
    def read(cls, source: Source) -> Counts:
        segment, sizes = source.segment, source.segment.sizes
        stats = [segment.stats(i) for i in range(sizes.doors + sizes.dispatchers)]
        doors, dispatchers = stats[: sizes.doors], stats[sizes.doors :]
        source.busy.update()
        return cls(
            at_ns=now_ns(),
            by_code=sum((door.items.sum(axis=0) for door in doors), np.zeros(len(CODES), dtype=np.uint64)),
            calls=int(sum(int(door.requests[:, :_OWN].sum()) for door in doors)),
            rejected={reason: sum(door.rejected[reason] for door in doors) for reason in REJECTS},
            expired=sum(sum(door.expired.values()) for door in doors),
            inflight_ns=sum(door.counters["inflight_ns"] for door in doors),
            request=Merged.of(found for door in doors for model in door.request for found in model),
            stages={stage: Merged.of(process.stage[stage] for process in stats) for stage in STAGES},
            batches=[_batches(source, model, dispatchers) for model in range(len(source.models))],
            dispatchers=[_dispatcher(found) for found in dispatchers],
            active_ns=[source.busy.busy_ns(i) for i in range(len(source.devices))],
            bytes=[(door.transport["bytes_in"], door.transport["bytes_out"]) for door in doors],
            upstreams=upstreams(source),
        )


def _batches(source: Source, model: int, dispatchers: Sequence[ProcessStats]) -> BatchCounts:
    own = [found for d, found in enumerate(dispatchers) if source.model_of(d) == model]
    names = ("step_tokens", "step_capacity_tokens", "generated_tokens")
    return BatchCounts(
        Merged.of(found.batch_items for found in own), *(sum(found.counters[name] for found in own) for name in names)
    )


def _dispatcher(found: ProcessStats) -> DispatcherCounts:
    idle = {reason: found.idle_ns[reason] for reason in IDLES}
    return DispatcherCounts(found.counters["busy_ns"], idle, found.counters["steps"], found.counters["step_items"])
