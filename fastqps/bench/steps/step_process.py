"""A process that runs steps on a device (``step_costs``), and what it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from fastqps.bench.measure.generator import child_prefix
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.result import BenchError

PROGRAM = (sys.executable, "-m", "fastqps.bench.steps.step_costs")
END_S = 10.0


class StepProcess:
    """A context manager. ``settings``: of the server whose first model and device it opens, on ``cpus``."""

    def __init__(self, settings: Settings, config_file: str, cpus: Sequence[int]) -> None:
        """Returns when the device is ready; ``BenchError`` with the reason where it is not."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with us
        asked = json.dumps({"settings": dict(settings), "config_file": config_file})
        # A group of its own: Ctrl-C ends it through us.
        self._child = subprocess.Popen(
            [*child_prefix(cpus), *PROGRAM, asked],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, process_group=0,
        )  # fmt: skip
        try:
            list(self.answers())
        except BaseException:
            self.close()
            raise

    def ask(self, asked: dict[str, Any]) -> None:
        """``{}``: all shapes; ``{shape, from_ns, for_s}``: the period of one."""
        assert self._child.stdin
        with suppress(BrokenPipeError):  # answers() will say why
            self._child.stdin.write(json.dumps(asked) + "\n")
            self._child.stdin.flush()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yields the answers to the requests as they arrive."""
        assert self._child.stdout
        for line in self._child.stdout:
            with suppress(ValueError):  # a line that is no JSON is somebody's warning
                found = json.loads(line)
                if found.get("done"):
                    return
                yield found
        code = self._child.wait()
        self._log.seek(0)
        said = [line for line in self._log.read().splitlines() if line.strip()]
        raise BenchError(said[-1] if said else f"the process that runs steps ended with code {code}", code)

    def close(self) -> None:
        """Ends it."""
        assert self._child.stdin and self._child.stdout
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(END_S)
        except BaseException:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._child.kill()
        self.close()
