"""Processes that run a model's steps at the same time, before the server starts: what a split of the cores is worth."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from fastqps.config import Config
from fastqps.config.decide import most_items
from fastqps.models import ModelCard
from fastqps.supervisor.workers.child import environment

Split = tuple[int, int]  # dispatchers, threads of each
PROGRAM = (sys.executable, "-P", "-m", "fastqps.dispatcher.split_trial")
ITEMS_OF_CORE = 8  # of the steps that are compared: both splits have equally many requests on the device
RUN_S = 0.1  # of each measurement
_AHEAD_S = 0.03  # then all have heard that they begin
LIMIT_S = 20.0  # of the whole trial; on a machine with so much else to do, a start must not wait for it


class TrialError(Exception):
    """Nothing was measured."""


class Trials:
    """A context manager. As many processes as the larger of the splits has dispatchers; they load the model."""

    def __init__(self, card: ModelCard, config: Config, splits: Sequence[Split]) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with us
        count, threads = max(n for n, _ in splits), max(each for _, each in splits)
        self._items = ITEMS_OF_CORE * count
        self._processes: list[subprocess.Popen[str]] = []
        self._late = False
        self._timer = threading.Timer(LIMIT_S, self._give_up)
        asked = {
            "card": card.to_json(),
            "dtype": config.dtype,
            "quantization": "none" if config.quantization == "auto" else config.quantization,  # it measures, too
            "threads": threads,
            "max_items": max(self._items, 64 if card.task == "generate" else most_items(config)),
            "max_tokens": config.max_batch_tokens,
        }
        try:
            for _ in range(count):
                self._processes.append(self._start(threads))
            self._timer.start()  # it ends those that there are
            for process in self._processes:
                self._ask(process, asked)
            for process in self._processes:
                self._answer(process)
        except BaseException:
            self._close()
            raise

    def rate(self, split: Split) -> float:
        """Items per second of all dispatchers of the split, which compute at the same time."""
        count, threads = split
        from_ns = time.monotonic_ns() + int(_AHEAD_S * 1e9)
        asked = {"threads": threads, "items": self._items // count, "from_ns": from_ns, "for_s": RUN_S}
        for process in self._processes[:count]:
            self._ask(process, asked)
        return sum(float(self._answer(process)["rate"]) for process in self._processes[:count])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _start(self, threads: int) -> subprocess.Popen[str]:
        # A group of its own: Ctrl-C ends it through us.
        try:
            return subprocess.Popen(
                PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, process_group=0,
                env=environment(threads),
            )  # fmt: skip
        except OSError as error:
            raise TrialError(f"a process cannot be started: {error.strerror}") from None

    def _ask(self, process: subprocess.Popen[str], asked: dict[str, Any]) -> None:
        assert process.stdin
        with suppress(BrokenPipeError):  # _answer will say why
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout
        for line in process.stdout:
            with suppress(ValueError):  # a line that is no JSON is somebody's warning
                found: dict[str, Any] = json.loads(line)
                return found
        process.wait()
        if self._late:
            raise TrialError(f"it took longer than {LIMIT_S:g} s")
        self._log.seek(0)
        said = [line for line in self._log.read().splitlines() if line.strip()]
        raise TrialError(said[-1] if said else f"a process ended with code {process.returncode}")

    def _give_up(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def _close(self) -> None:
        """They hold nothing that has to be given back."""
        self._timer.cancel()
        self._kill()
        for process in self._processes:
            assert process.stdin and process.stdout
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
            process.wait()
        self._log.close()
