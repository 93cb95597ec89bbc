"""A program in a child process, and one run of ``python -m loadgen`` in one: its progress, and its JSON at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
    """``results``: the JSON of the run, of as much of it as there was when it was ``interrupted``."""

    results: dict[str, Any]
    interrupted: bool


def run_generator(flags: Sequence[str], *, cpus: Sequence[int], on_line: Callable[[dict[str, Any]], None]) -> Run:
    """Runs the generator; ``on_line`` gets each object of its progress.

    Ctrl-C here stops it and returns what it has measured. Raises ``BenchError`` when there is no result.
    """
    with tempfile.TemporaryDirectory(prefix="fastqps-bench-") as folder:
        path, errors = Path(folder) / "results.json", Path(folder) / "stderr"
        command = [*child_prefix(cpus), *PROGRAM, *flags, "--progress", "json", "--json", str(path)]
        interrupted = silent = False
        # It has a group of its own: Ctrl-C is ours to pass on, once.
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with errors.open("w") as log, child_process(command, **pipes, stderr=log) as child:
            try:
                silent = not _follow(child, on_line)
            except KeyboardInterrupt:
                interrupted = True
                _stop(child)
        results = _results(path)
        if results is None or child.returncode not in _WITH_RESULTS:
            if interrupted:
                raise KeyboardInterrupt
            _fail(child.returncode, errors.read_text(errors="replace"), silent)
        return Run(results, interrupted or child.returncode == INTERRUPTED)


def child_prefix(cpus: Sequence[int]) -> list[str]:
    """The beginning of a child's command, which ties its life to this process and confines it to ``cpus``, if any."""
    prefix = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    return prefix + (["taskset", "-c", ",".join(map(str, cpus))] if cpus else [])


def _follow(child: subprocess.Popen[str], on_line: Callable[[dict[str, Any]], None]) -> bool:
    """Hears it out to its end. False: it said nothing for ``SILENCE_S``, and was ended for that."""
    assert child.stdout is not None
    pipe, rest = child.stdout.fileno(), b""
    with contextlib.suppress(subprocess.TimeoutExpired):
        while select.select([pipe], [], [], SILENCE_S)[0]:
            if not (data := os.read(pipe, 1 << 16)):
                child.wait(SILENCE_S)
                return True
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):  # a line that is no JSON is somebody's warning
                    event = json.loads(line)
                    if isinstance(event, dict):
                        on_line(event)
    child.kill()
    return False


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
        results = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return results if isinstance(results, dict) else None


def _fail(code: int, stderr: str, silent: bool) -> NoReturn:
    if silent:
        raise BenchError(f"load generator: it gave no sign of life for {SILENCE_S:g} s")
    lines = [line for line in stderr.splitlines() if line.strip()] or [
        f"it ended with exit code {code} and said nothing"
    ]
    reason = lines[-1].removeprefix("loadgen: ")
    if code == USAGE:
        raise ConfigError(f"load generator: {reason}")
    raise BenchError(f"load generator: {reason}")


@contextlib.contextmanager
def child_process(
    command: Sequence[str], *, end_s: float = 0.0, own_session: bool = False, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """``command`` in a process group of its own, from ``with`` on. ``options`` are those of ``subprocess.Popen``.

    ``own_session``: in a session of its own, too, to which the kernel's autogroups give a share of their own.

    At the end it is asked to end, where it may take ``end_s`` seconds for that, and its whole group is killed: a
    process that it leaves behind would take the core from whatever is measured next.
    """
    group: dict[str, Any] = {"start_new_session": True} if own_session else {"process_group": 0}
    with subprocess.Popen(command, text=True, **group, **options) as process:
        try:
            yield process
        finally:
            if end_s:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(end_s)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does, by their name: children ended, files written."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # nohup ignores one
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
