"""One run of ``python -m loadgen`` in a child process: its progress as it comes, and its JSON at the end."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from fastqps.bench.results.result import BenchError
from fastqps.errors import ConfigError
from loadgen.errors import FAILURE, INTERRUPTED, INVALID, OK, UNSTABLE, USAGE

PROGRAM = (sys.executable, "-m", "loadgen")
_WITH_RESULTS = (OK, FAILURE, UNSTABLE, INVALID, INTERRUPTED)  # as far as it wrote them
LOOK_S = 0.25  # a signal that came just before a wait is seen so late at most
SILENCE_S = 90.0  # it says something every second; starting, waiting for open calls and writing take longer
STOP_S = 15.0  # to write what was measured, after Ctrl-C


@dataclass(frozen=True)
class Run:
    """``found``: the JSON of the run, of as much of it as there was when it was ``interrupted``."""

    found: dict[str, Any]
    interrupted: bool


def run_generator(flags: Sequence[str], *, cpus: Sequence[int], on_line: Callable[[dict[str, Any]], None]) -> Run:
    """Runs the generator; ``on_line`` gets each object of its progress.

    Ctrl-C here stops it and returns what it has measured. Raises ``BenchError`` when there is no result.
    """
    with tempfile.TemporaryDirectory(prefix="fastqps-bench-") as folder:
        results, errors = Path(folder) / "results.json", Path(folder) / "stderr"
        command = [*child_prefix(cpus), *PROGRAM, *flags, "--progress", "json", "--json", str(results)]
        with errors.open("w") as log:
            # A group of its own: Ctrl-C is ours to pass on, once.
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0
            )
        interrupted = False
        alive = _Alive(child)
        try:
            _read(child, on_line, alive)
            child.wait()
        except KeyboardInterrupt:
            interrupted = True
            _stop(child)
        except BaseException:
            child.kill()
            raise
        finally:
            child.wait()
            alive.stop()
            assert child.stdout is not None
            child.stdout.close()
        found = _results(results)
        if found is None or child.returncode not in _WITH_RESULTS:
            if interrupted:
                raise KeyboardInterrupt
            _fail(child.returncode, errors.read_text(errors="replace"), alive.killed)
        return Run(found, interrupted or child.returncode == INTERRUPTED)


def child_prefix(cpus: Sequence[int]) -> list[str]:
    """The beginning of a child's command, which ties its life to this process and confines it to ``cpus``, if any."""
    tied = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    return tied + (["taskset", "-c", ",".join(map(str, cpus))] if cpus else [])


class _Alive:
    """Ends a child that says nothing for ``SILENCE_S``."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.killed = False
        self._child, self._heard = child, threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="generator watch", daemon=True)
        self._thread.start()

    def heard(self) -> None:
        self._heard.set()

    def stop(self) -> None:
        self._over = True
        self._heard.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._heard.wait(SILENCE_S):
            self._heard.clear()  # before the look: what is said behind it is heard by the next wait
            if self._over:
                return
        self.killed = True
        self._child.kill()


def _read(child: subprocess.Popen[str], on_line: Callable[[dict[str, Any]], None], alive: _Alive) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        alive.heard()
        with contextlib.suppress(ValueError):  # a line that is no JSON is somebody's warning
            found = json.loads(line)
            if isinstance(found, dict):
                on_line(found)


def _stop(child: subprocess.Popen[str]) -> None:
    """Lets it write what it has measured; a second Ctrl-C does not wait for that. It ends the child where it comes, not
    by an exception: that would be ignored inside the callback of a weak reference. And in turns: a signal that comes
    just before a wait begins is looked at behind it."""
    before = signal.signal(signal.SIGINT, lambda *_: child.kill())
    give_up_s = time.monotonic() + STOP_S
    try:
        child.send_signal(signal.SIGINT)
        while True:
            try:
                child.communicate(timeout=LOOK_S)
                return None
            except subprocess.TimeoutExpired:
                if time.monotonic() > give_up_s:
                    return child.kill()
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _results(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _fail(code: int, said: str, silent: bool) -> NoReturn:
    if silent:
        raise BenchError(f"load generator: it gave no sign of life for {SILENCE_S:g} s")
    lines = [line for line in said.splitlines() if line.strip()] or [f"it ended with exit code {code} and said nothing"]
    reason = lines[-1].removeprefix("loadgen: ")
    if code == USAGE:
        raise ConfigError(f"load generator: {reason}")
    raise BenchError(f"load generator: {reason}")
