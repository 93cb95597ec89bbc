"""``python -m fastqps.structure.trial.process FD PARENT TITLE``: compiles structures under limits.

It holds the model's vocabulary, and forks for each structure: the fork compiles, and ends with all that it has taken.
One thread alone runs in here, so that it can fork. Its parent sends the model's card, and then ``[kind, text]`` of one
structure after another. Each has one answer: ``[bytes, error]``.
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
from typing import NoReturn

import setproctitle

from fastqps.errors import FAILURE, OK, ModelError
from fastqps.models.card import ModelCard
from fastqps.process.prctl import die_with_parent
from fastqps.structure.structure import Structure
from fastqps.structure.trial.limits import CPU_S, GROWTH_BYTES, STACK_BYTES, WALL_FACTOR
from fastqps.structure.vocabulary import Vocabulary

Outcome = tuple[int, str]
"""(bytes that the compiled structure takes, why it is refused)."""
TOO_SLOW = f"compiling it takes more than {CPU_S:g} s of CPU time"
TOO_LARGE = f"compiling it needs more than {GROWTH_BYTES >> 20} MiB of memory"
_OF_SIGNAL: dict[int, str] = {
    signal.SIGPROF: TOO_SLOW,
    signal.SIGKILL: TOO_SLOW,
    signal.SIGABRT: TOO_LARGE,
    signal.SIGSEGV: "it has too many parts, or is nested too deeply",  # its stack
}
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
        if not (pid := os.fork()):
            _compile_in_fork(own, vocabulary, structure, answer)
        answer.close()
        if not answers.poll(CPU_S * WALL_FACTOR):
            os.kill(pid, signal.SIGKILL)
        try:
            size, error = json.loads(answers.recv_bytes())
        except EOFError:
            size, error = 0, ""
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return size, error or ("" if ended == OK else _OF_SIGNAL.get(-ended, "compiling it fails"))


def _compile_in_fork(parent: int, vocabulary: Vocabulary, structure: Structure, answer: Connection) -> NoReturn:
    try:
        die_with_parent(parent)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())  # an abort writes there, as often as a client causes one
        before = _resident_bytes()
        _limit()
        try:
            vocabulary.compile(structure)
            outcome = _resident_bytes() - before, ""
        except ValueError as error:
            outcome = 0, str(error)
        except MemoryError:
            outcome = 0, TOO_LARGE
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
