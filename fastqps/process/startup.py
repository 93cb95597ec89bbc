"""Where the time of this process's start goes, stage by stage, for the log and the metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastqps._core import START_STAGES, Segment

_SHOWN_S = 0.05  # shorter stages are not worth a word in the log


def process_start_s() -> float:
    """When this process was started, of the clock of ``time.monotonic``; within 10 ms. Now, where there is no /proc."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s)


class Startup:
    """The seconds of each of ``START_STAGES``. A stage within another one counts by itself; what is in none is "other".

    ``began_s``: of ``clock``.
    """

    def __init__(self, began_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = self._changed_s = began_s
        self._inside = ["other"]
        self.seconds = dict.fromkeys(START_STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """The time within counts as this stage."""
        self._count()
        self._inside.append(name)
        try:
            yield
        finally:
            self._count()
            self._inside.pop()

    def so_far(self, name: str) -> None:
        """All that was "other" up to now counts as this stage."""
        self._count()
        self.seconds[name] += self.seconds.pop("other")
        self.seconds["other"] = 0.0

    def record(self, segment: Segment, process: int) -> None:
        """Writes the seconds for the metrics: of front door ``process``, or of dispatcher ``process - doors``."""
        self._count()
        segment.record_start(process, self.seconds)

    def report(self) -> str:
        """``started in 4.9 s: imports 2.1, weights 0.9, …`` up to the last change, the longest first."""
        found = sorted(self.seconds.items(), key=lambda item: -item[1])
        stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found if seconds >= _SHOWN_S)
        return f"started in {self._changed_s - self._began_s:.1f} s" + (f": {stages}" if stages else "")

    def _count(self) -> None:
        now_s = self._clock()
        self.seconds[self._inside[-1]] += now_s - self._changed_s
        self._changed_s = now_s


STARTUP = Startup(process_start_s())
