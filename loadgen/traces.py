"""Arrivals that were recorded, as CSV: ``t_us[,payload]``, the names in its first line; empty cells are absent."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals import CALLS_MAX, SECONDS_MAX
from loadgen.errors import UsageError
from loadgen.payloads import PAYLOADS_MAX
from loadgen.units import DURATION_NS_MAX

_MOST = {"t_us": 1e300, "payload": PAYLOADS_MAX}
_Call = tuple[float, int]  # -1: absent


@dataclass(frozen=True)
class Trace:
    """``times_ns`` int64[n] from the first call on, sorted; ``payload`` int64[n], -1 where the plan may choose."""

    times_ns: NDArray[np.int64]
    payload: NDArray[np.int64]

    def faster(self, speedup: float) -> Trace:
        """Played ``speedup`` times as fast. ``UsageError``: it takes too long."""
        if self.times_ns[-1] / speedup > DURATION_NS_MAX:
            raise UsageError(f"with --speedup {speedup:g} the trace lasts longer than 7 days")
        return Trace(np.rint(self.times_ns / speedup).astype(np.int64), self.payload)

    def until(self, ns: int) -> Trace:
        """The calls due before ``ns``."""
        n = int(np.searchsorted(self.times_ns, ns))
        return Trace(self.times_ns[:n], self.payload[:n])


def read(path: str) -> Trace:
    """Reads and checks a whole trace. ``UsageError`` names the file, the line and what is wrong with it."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            calls = _calls(path, csv.DictReader(stream))
    except OSError as error:
        raise UsageError(f"cannot read the trace {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the trace {path} is no UTF-8 text") from None
    if not calls:
        raise UsageError(f"the trace {path} has no calls")
    if calls[-1][0] - calls[0][0] > SECONDS_MAX * 1e6:
        raise UsageError(f"the trace {path} lasts longer than 7 days; its times are microseconds")
    times_us, payload = np.array(calls, dtype=np.float64).T
    # It starts with its first call.
    return Trace(np.rint((times_us - times_us[0]) * 1e3).astype(np.int64), payload.astype(np.int64))


def _calls(path: str, rows: csv.DictReader[str]) -> list[_Call]:
    calls: list[_Call] = []
    try:
        names = rows.fieldnames = [name.strip() for name in rows.fieldnames or ["t_us"]]
        if "t_us" not in names or not set(names) <= set(_MOST):
            raise UsageError(
                f"the columns are {', '.join(_MOST)}, of which t_us is needed, not {', '.join(names)[:80]}"
            )
        for row in rows:
            call = _call(row)
            if calls and call[0] < calls[-1][0]:
                raise UsageError(f"{call[0]:g} µs comes after {calls[-1][0]:g} µs; a trace is sorted by time")
            if len(calls) == CALLS_MAX:
                raise UsageError(f"these are more than {CALLS_MAX:,} calls")
            calls.append(call)
    except UnicodeDecodeError:
        raise
    except (ValueError, csv.Error) as error:
        raise UsageError(f"{path}:{max(1, rows.line_num)}: {error}") from None
    return calls


def _call(row: Mapping[str, str]) -> _Call:
    """``ValueError`` for cells that are no numbers, or none of a call."""
    if None in row or None in row.values():
        raise UsageError("it has more or fewer cells than the first line")
    values = {key: float(cell) for key, cell in row.items() if cell.strip()}
    for key, value in values.items():
        if not 0 <= value <= _MOST[key] or (key == "payload" and value % 1):
            raise UsageError(f"{key} is {value:g}")
    if "t_us" not in values:
        raise UsageError("t_us is missing")
    return values["t_us"], int(values.get("payload", -1))
