"""The load on a server, and the flags of ``python -m loadgen`` that make it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from fastqps.bench.measure.workload import Call, Payloads
from fastqps.errors import ConfigError

STREAMS_OPEN = 256  # an open loop should hardly ever wait for a free stream


@dataclass(frozen=True)
class LoadSpec:
    """Exactly one of ``rate`` (open loop, calls/s), ``in_flight`` (closed loop, calls) and ``trace`` (a file) is given.

    ``duration_s`` is measured after ``warmup_s``; 0: all of a trace. ``streams``: most calls at a time on a connection
    of an open loop. ``deadline_s`` of each call; 0: none.
    """

    rate: float | None = None
    in_flight: int | None = None
    trace: str = ""
    speedup: float = 1.0
    arrivals: str = "poisson"
    duration_s: float = 10.0
    warmup_s: float = 1.0
    connections: int = 16
    streams: int = STREAMS_OPEN
    deadline_s: float = 10.0
    seed: int = 1

    def __post_init__(self) -> None:
        given = [self.rate is not None, self.in_flight is not None, bool(self.trace)]
        if sum(given) != 1:
            raise ConfigError("a load is a rate, a number of calls in flight, or a trace: exactly one of them")
        if self.rate is not None and not 0 < self.rate < 1e9:
            raise ConfigError(f"a rate of {self.rate:g}/s is not possible: more than 0, less than 1e9")
        if self.in_flight is not None and not 1 <= self.in_flight <= 1 << 20:
            raise ConfigError(f"{self.in_flight} calls in flight are not possible: 1 to {1 << 20}")
        if not (
            (self.duration_s > 0 or self.trace) and self.warmup_s >= 0 and self.speedup > 0 and self.deadline_s >= 0
        ):
            raise ConfigError("durations and the speed-up must be more than 0; warm-up and deadline may be 0")
        if self.connections < 1 or self.streams < 1:
            raise ConfigError("connections and streams: at least 1")

    @property
    def loop(self) -> str:
        """``open`` or ``closed``."""
        return "closed" if self.in_flight is not None else "open"

    def at_rate(self, rate: float, **more: Any) -> Self:
        """This load with another rate, in an open loop."""
        return dataclasses.replace(self, rate=rate, in_flight=None, trace="", **more)

    def closed(self, in_flight: int, **more: Any) -> Self:
        """This load with this many calls in flight, in a closed loop."""
        return dataclasses.replace(self, rate=None, in_flight=in_flight, trace="", **more)

    def describe(self, call: Call) -> dict[str, Any]:
        """``Point.load``."""
        description = {
            "loop": self.loop,
            "call": call.name,
            "items_per_call": call.items,
            "offered_rate": self.rate,
            "in_flight": self.in_flight,
        }
        description |= {"arrivals": "trace" if self.trace else self.arrivals if self.rate else None}
        if self.trace:
            description |= {"trace": self.trace, "speedup": self.speedup}
        fields = ("connections", "streams", "duration_s", "warmup_s", "deadline_s", "seed")
        return description | {name: getattr(self, name) for name in fields}

    def flags(self, payloads: Payloads) -> list[str]:
        """The flags of ``python -m loadgen``, without target and outputs."""
        call = payloads.call
        flags: dict[str, Any] = {"method": call.method, "call": call.rpc, "payload": payloads.path}
        connections = self.connections
        if self.in_flight is not None:
            flags["closed"] = self.in_flight
            connections = min(connections, self.in_flight)  # each has at least one call
        elif self.trace:
            flags |= {"trace": self.trace, "speedup": f"{self.speedup:g}"}
        else:
            flags |= {"rate": f"{self.rate:.10g}", "arrivals": self.arrivals}
        flags |= {"connections": connections, "streams": self.streams, "seed": self.seed}
        flags["warmup"] = seconds(self.warmup_s)
        if self.duration_s:
            flags["duration"] = seconds(self.duration_s)
        if self.deadline_s:
            flags["deadline"] = seconds(self.deadline_s)
        return ["--delimited", *(part for k, v in flags.items() for part in (f"--{k}", str(v)))]


def seconds(value_s: float) -> str:
    """Formats a duration in whole microseconds, which every parser reads."""
    return f"{round(value_s * 1e6)}us"
