"""Arrivals that were recorded: JSON lines, CSV, or a number of microseconds on each line.

{"t_us": 1500, "payload": 3, "deadline_ms": 200}        JSONL; payload and deadline_ms may be absent
t_us,payload,deadline_ms                                CSV, its first line the names; empty cells are absent
1500                                                    one number a line
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals import CALLS_MAX, SECONDS_MAX
from loadgen.errors import UsageError
from loadgen.payloads import PAYLOADS_MAX
from loadgen.units import DURATION_NS_MAX

_KEYS = ("t_us", "payload", "deadline_ms")
_MOST = {"t_us": 1e300, "payload": PAYLOADS_MAX, "deadline_ms": SECONDS_MAX * 1e3}
_Row = tuple[float, int, float]  # -1: absent


@dataclass(frozen=True)
class Trace:
    """``times_ns`` int64[n] from the first call on, sorted; ``payload`` int64[n], -1 where the plan may choose;
    ``deadline_ns`` int64[n], -1 where the run's own deadline holds."""

    times_ns: NDArray[np.int64]
    payload: NDArray[np.int64]
    deadline_ns: NDArray[np.int64]

    def faster(self, speedup: float) -> Trace:
        """Played ``speedup`` times as fast; deadlines stay. ``UsageError``: it takes too long."""
        if self.times_ns[-1] / speedup > DURATION_NS_MAX:
            raise UsageError(f"with --speedup {speedup:g} the trace lasts longer than 7 days")
        return Trace(np.rint(self.times_ns / speedup).astype(np.int64), self.payload, self.deadline_ns)

    def until(self, ns: int) -> Trace:
        """The calls due before ``ns``."""
        n = int(np.searchsorted(self.times_ns, ns))
        return Trace(self.times_ns[:n], self.payload[:n], self.deadline_ns[:n])


def read(path: str) -> Trace:
    """Reads and checks a whole trace. ``UsageError`` names the file, the line and what is wrong with it."""
    calls: list[_Row] = []
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            for line, row in _rows(path, stream):
                if calls and row[0] < calls[-1][0]:
                    order = f"{row[0]:g} µs comes after {calls[-1][0]:g} µs"
                    raise UsageError(f"{path}:{line}: {order}; a trace is sorted by time")
                if len(calls) == CALLS_MAX:
                    raise UsageError(f"{path} has more than {CALLS_MAX:,} calls")
                calls.append(row)
    except OSError as error:
        raise UsageError(f"cannot read the trace {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the trace {path} is no UTF-8 text") from None
    if not calls:
        raise UsageError(f"the trace {path} has no calls")
    if calls[-1][0] - calls[0][0] > SECONDS_MAX * 1e6:
        raise UsageError(f"the trace {path} lasts longer than 7 days; its times are microseconds")
    times_us, payload, limit_ms = np.array(calls, dtype=np.float64).T
    return Trace(
        np.rint((times_us - times_us[0]) * 1e3).astype(np.int64),  # it starts with its first call
        payload.astype(np.int64),
        np.where(limit_ms < 0, -1, np.rint(limit_ms * 1e6)).astype(np.int64),
    )


def _rows(path: str, stream: Iterable[str]) -> Iterator[tuple[int, _Row]]:
    """(line number, row) of each line that is not empty."""
    lines = ((i, text.strip()) for i, text in enumerate(stream, 1))
    names: list[str] = []
    for i, text in lines:
        if not text:
            continue
        try:
            if text.startswith("{"):
                yield i, _row(json.loads(text))
            elif not names and text[:1].isalpha():
                names = [name.strip() for name in next(csv.reader([text]))]
                if missing := sorted({"t_us"} - set(names)) or sorted(set(names) - set(_KEYS)):
                    raise UsageError(
                        f"the columns are {', '.join(_KEYS)}, of which t_us is needed: {', '.join(missing)}"
                    )
            else:
                names = names or ["t_us"]
                yield i, _row(_named(next(csv.reader([text])), names))
        except UsageError as error:
            raise UsageError(f"{path}:{i}: {error}") from None
        except (ValueError, RecursionError) as error:  # also of numbers with too many digits
            raise UsageError(f"{path}:{i}: no JSON object: {getattr(error, 'msg', error)}") from None
        except csv.Error as error:
            raise UsageError(f"{path}:{i}: {error}") from None


def _named(cells: list[str], names: list[str]) -> dict[str, object]:
    if len(cells) != len(names):
        raise UsageError(f"{len(cells)} columns instead of {len(names)}")
    try:
        return {name: float(cell) for name, cell in zip(names, cells, strict=True) if cell.strip()}
    except ValueError:
        raise UsageError(f"{','.join(cells)!r} holds something that is no number") from None


def _row(row: object) -> _Row:
    if not isinstance(row, dict) or "t_us" not in row:
        raise UsageError("t_us is missing")
    if unknown := sorted(set(row) - set(_KEYS)):
        raise UsageError(f"unknown key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    values = {key: value for key, value in row.items() if value is not None}
    for key, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        integral = key != "payload" or (number and value % 1 == 0)
        if not number or not 0 <= value <= _MOST[key] or not integral or (key == "deadline_ms" and value == 0):
            raise UsageError(f"{key} is {_shown(value)}")
    return float(values["t_us"]), int(values.get("payload", -1)), float(values.get("deadline_ms", -1))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
