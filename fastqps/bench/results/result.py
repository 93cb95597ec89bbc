"""The result of a run of the bench, and its file report.json."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fastqps.bench.results.point import Point
from fastqps.errors import (
    FAILURE,
    GENERATOR_BOUND,
    INCONCLUSIVE,
    INTERRUPTED,
    NO_DEVICE,
    NO_MODEL,
    OK,
    SLO_NOT_MET,
    UNSTABLE,
    USAGE,
    FastqpsError,
)
from loadgen.atomic_file import replace_file

SCHEMA_VERSION = 1
REPORT = "report.json"
Outcome = Literal["VALID", "UNSTABLE", "INVALID", "SLO_NOT_MET", "INCONCLUSIVE", "FAILED", "INTERRUPTED"]
EXIT_CODES: dict[Outcome, int] = {
    "VALID": OK,
    "UNSTABLE": UNSTABLE,
    "INVALID": GENERATOR_BOUND,
    "SLO_NOT_MET": SLO_NOT_MET,
    "INCONCLUSIVE": INCONCLUSIVE,
    "FAILED": FAILURE,
    "INTERRUPTED": INTERRUPTED,
}


@dataclass
class Result:
    """The result of one run. A mode appends points, sets ``best``, ``verdict`` and ``notes``, and puts its own keys
    into ``extra``, whose keys stand beside the others in the file."""

    mode: str
    command: str = ""
    started: str = ""  # UTC, ISO 8601
    environment: dict[str, Any] = field(default_factory=dict)
    commit: str = ""
    seeds: dict[str, int] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)  # {address, model, version, device, settings, own}
    workload: dict[str, Any] = field(default_factory=dict)
    slo: dict[str, float] | None = None  # {p99_us, error_ratio}
    points: list[Point] = field(default_factory=list)
    best: int | None = None  # index into points
    verdict: Outcome = "VALID"
    notes: list[str] = field(default_factory=list)  # sentences for people
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return EXIT_CODES[self.verdict]

    @property
    def best_point(self) -> Point | None:
        """The point that the mode looked for, if it found one."""
        return None if self.best is None else self.points[self.best]

    def as_json(self) -> dict[str, Any]:
        """The result as a JSON value."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("points", "extra")}
        return {"schema_version": SCHEMA_VERSION, **own, "points": [p.as_json() for p in self.points], **self.extra}

    def write(self, folder: Path) -> Path:
        """Writes FOLDER/report.json; its path. OSError where that cannot be."""
        return replace_file(folder / REPORT, json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")


class BenchError(FastqpsError):
    """A measurement that could not be made: the message says why. ``exit_code``: a server's, where that says more."""

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code if exit_code in (USAGE, NO_DEVICE, NO_MODEL) else FAILURE


class ServerGone(BenchError):
    """The server ended, or stopped answering, while it was measured."""
