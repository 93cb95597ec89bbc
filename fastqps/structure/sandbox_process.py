"""``python -m fastqps.structure.sandbox_process FD PARENT TITLE``: compiles structures under limits.

It holds the model's vocabulary, and forks for each structure: the fork compiles, and ends with all that it has taken.
One thread alone runs in here, so that it can fork. Its parent sends the model's card, and then ``[kind, text]`` of one
structure after another. Each has one answer: an ``Outcome``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import NamedTuple, NoReturn

import setproctitle

from fastqps.errors import FAILURE, OK, ModelError
from fastqps.models.card import ModelCard
from fastqps.process.prctl import die_with_parent
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Vocabulary

# The limits of compiling one structure that a client sent. docs/structure.md names these numbers.
CPU_S = 0.5
WALL_FACTOR = 10
"""A process that uses no CPU time is ended after this many times the limit above."""
GROWTH_BYTES = 48 << 20
"""Memory: of the address space, at any moment."""
STACK_BYTES = 1 << 20
"""Less than the stack of any thread that compiles what passed."""
LOAD_S = 120.0
"""Reading the model's vocabulary."""


class Outcome(NamedTuple):
    """The result of compiling a structure."""

    size: int = 0
    """Bytes that it takes when it is compiled."""
    error: str = ""
    is_refused: bool = True
    """Whether the error is the structure's. Else it may be compiled another time."""


TOO_SLOW = f"compiling it takes more than {CPU_S:g} s of CPU time"
TOO_LARGE = f"compiling it needs more than {GROWTH_BYTES >> 20} MiB of memory"
_OF_SIGNAL: dict[int, str] = {
    signal.SIGPROF: TOO_SLOW,
    signal.SIGABRT: TOO_LARGE,
    signal.SIGSEGV: "it has too many parts, or is nested too deeply",  # its stack
}
NO_CPU = f"the machine is too busy: it was not compiled within {CPU_S * WALL_FACTOR:g} s"
_KILLED = "the process that compiled it was killed"  # by the system, as a rule, which has no memory left
_PAGE = resource.getpagesize()


def serve(parent: Connection) -> None:
    """Tries structures until the parent closes the connection. ``ModelError`` if the vocabulary cannot be used."""
    vocabulary = Vocabulary(ModelCard.from_json(parent.recv_bytes().decode()))
    vocabulary.compile(Structure("json_object"))  # loads everything that is imported lazily before the first fork
    gc.collect()
    gc.freeze()  # collections in forks must not write to these pages, which forks share
    with contextlib.suppress(EOFError):
        while True:
            structure = Structure(*json.loads(parent.recv_bytes()))
            parent.send_bytes(json.dumps(_outcome(vocabulary, structure)).encode())


def _outcome(vocabulary: Vocabulary, structure: Structure) -> Outcome:
    own = os.getpid()
    answers, answer = Pipe(duplex=False)
    with answers:
        with answer:
            try:
                pid = os.fork()
            except OSError as error:
                return Outcome(error=f"no process can be made: {error}", is_refused=False)
            if not pid:
                _compile_in_fork(own, vocabulary, structure, answer)
        in_time = answers.poll(CPU_S * WALL_FACTOR)
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        try:
            outcome = Outcome(*json.loads(answers.recv_bytes()))
        except EOFError:
            outcome = Outcome()
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended == OK or outcome.error:
        return outcome
    if ended == -signal.SIGKILL:
        return Outcome(error=_KILLED if in_time else NO_CPU, is_refused=False)
    return Outcome(error=_OF_SIGNAL.get(-ended, "compiling it fails"))


def _compile_in_fork(parent: int, vocabulary: Vocabulary, structure: Structure, answer: Connection) -> NoReturn:
    try:
        die_with_parent(parent)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())  # an abort writes there, as often as a client causes one
        before = _resident_bytes()
        _limit()
        try:
            vocabulary.compile(structure)
            outcome = Outcome(_resident_bytes() - before)
        except ValueError as error:
            outcome = Outcome(error=str(error))
        except MemoryError:
            outcome = Outcome(error=TOO_LARGE)
        answer.send_bytes(json.dumps(outcome).encode())
        os._exit(OK)
    finally:
        os._exit(FAILURE)


def _limit() -> None:
    """Limits this process. One that exceeds its time or memory is killed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    bytes_max = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE + GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
    signal.setitimer(signal.ITIMER_PROF, CPU_S)


def _resident_bytes() -> int:
    """Of this process, without what lies in files."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * _PAGE


def main(argv: list[str]) -> int:
    """Serves one dispatcher."""
    fd, parent, title = argv
    die_with_parent(int(parent))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # only the supervisor ends its processes
        signal.signal(number, signal.SIG_IGN)
    setproctitle.setproctitle(f"fastqps: {title}")
    try:
        serve(Connection(int(fd)))
    except ModelError:  # the dispatcher has it, too, and says so
        return FAILURE
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
