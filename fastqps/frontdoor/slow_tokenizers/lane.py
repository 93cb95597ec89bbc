"""Takes the texts of one lane from the front door, and has a worker encode them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque

from fastqps import _front
from fastqps.frontdoor.slow_tokenizers.limits import APART_S, LONG_CPU_S, LONG_NICE, USUAL_CPU_S, WALL_FACTOR
from fastqps.frontdoor.slow_tokenizers.template import Template
from fastqps.frontdoor.slow_tokenizers.worker import EndedError, Job, Result, TooSlowError, Worker

TEXTS_MAX = 256
WAIT_MS = 1000
LOOK_S = 0.01
FORK_TRIES = 50
FORK_AGAIN_S = 0.1


class Lane(ABC):
    """One lane of texts; call ``run`` on its own thread. A worker that is too slow is killed; only its text fails."""

    index: int  # among the processes of the front door's tokenizers
    title: str
    nice: int
    long_ones: bool
    cpu_s_max: float  # of one text

    def __init__(self, door: _front.Door, template: Template) -> None:
        self._door = door
        self._template = template
        self._worker: Worker | None = None

    def run(self) -> None:
        """Tokenizes texts for ever."""
        while True:
            if self._template.early:
                self._ready_worker()  # so that no text waits for it
            self.turn(WAIT_MS)

    def turn(self, timeout_ms: int) -> None:
        """Tokenizes the texts that wait now or arrive within this time."""
        waiting = deque(self._door.next_texts(self.long_ones, TEXTS_MAX, timeout_ms))
        while waiting:
            self._encode(waiting)

    @abstractmethod
    def give_up(self, waiting: deque[Job], why: str, died: bool) -> None:
        """Removes the first text, on which a worker was killed or ``died``, or keeps it for another try."""

    def _encode(self, waiting: deque[Job]) -> None:
        """Encodes texts with one worker, and removes those that are finished."""
        try:
            worker = self._ready_worker()
            worker.ask(waiting)
        except EndedError:  # it was idle, so no text is to blame
            self._end_worker()
            return
        results: list[Result] = []
        try:
            while waiting:
                self._wait(worker, waiting[0], results)
                results.append(worker.answer(waiting[0]))
                waiting.popleft()
            self._door.texts_done(results)
        except (TooSlowError, EndedError) as error:
            self._door.texts_done(results)
            number = self._end_worker()
            why = str(error) or f"the tokenizer's process ended on it, signal {number}"
            self.give_up(waiting, why, died=isinstance(error, EndedError))
            return
        if worker.has_grown():
            self._end_worker()

    def _wait(self, worker: Worker, job: Job, results: list[Result]) -> None:
        """Waits until the worker answers. Hands over earlier results meanwhile, so that they do not wait."""
        while not worker.answered(0.0 if results else LOOK_S):
            if results:
                self._door.texts_done(results)
                results.clear()
                continue
            cpu_s, wall_s = worker.used_s()
            if cpu_s > self.cpu_s_max or wall_s > WALL_FACTOR * self.cpu_s_max:
                raise TooSlowError(f"tokenizing it took more than {self.cpu_s_max:g} s of CPU time")
            if self.long_ones and self._door.text_dropped(job[0]):
                raise TooSlowError("nobody waits for it")

    def _ready_worker(self) -> Worker:
        if self._worker and self._worker.forked_at != self._template.changes:
            self._template.end(self._worker)
            self._worker = None
        if self._worker is None:
            self._worker = self._fork()
            self._door.set_tokenizer_pid(0, self._template.pid)
            self._door.set_tokenizer_pid(self.index, self._worker.pid)
        return self._worker

    def _fork(self) -> Worker:
        for _ in range(FORK_TRIES):
            try:
                return self._template.fork(self.title, self.nice)
            except (OSError, ValueError):  # no memory, process or descriptor is free at this moment
                time.sleep(FORK_AGAIN_S)
        return self._template.fork(self.title, self.nice)

    def _end_worker(self) -> int:
        """Ends the worker, and returns the signal that ended it."""
        assert self._worker
        worker, self._worker = self._worker, None
        self._door.count_tokenizer_restart()
        return self._template.end(worker)


class UsualTexts(Lane):
    """The lane of texts of at most 4 KiB. A text that is slow or ends its worker moves to the long ones."""

    index, title, nice, long_ones = 1, "short texts", 0, False
    cpu_s_max = USUAL_CPU_S

    def __init__(self, door: _front.Door, template: Template) -> None:
        super().__init__(door, template)
        self._apart: dict[int, float] = {}  # connections, until when

    def turn(self, timeout_ms: int) -> None:
        """Moves texts of connections that recently had slow texts to the long ones."""
        waiting = deque(self._door.next_texts(self.long_ones, TEXTS_MAX, timeout_ms))
        now_s = time.monotonic()
        self._apart = {connection: until_s for connection, until_s in self._apart.items() if until_s > now_s}
        self._defer(waiting)
        while waiting:
            self._encode(waiting)

    def give_up(self, waiting: deque[Job], why: str, died: bool) -> None:
        self._apart[waiting[0][2]] = time.monotonic() + APART_S
        self._defer(waiting)

    def _defer(self, waiting: deque[Job]) -> None:
        for job in [job for job in waiting if job[2] in self._apart]:
            waiting.remove(job)
            self._door.defer_text(*job)


class LongTexts(Lane):
    """The lane of texts of more than 4 KiB and of slow ones. A text that is too slow here fails."""

    index, title, nice, long_ones = 2, "long texts", LONG_NICE, True
    cpu_s_max = LONG_CPU_S
    _suspect: Job | None = None

    def give_up(self, waiting: deque[Job], why: str, died: bool) -> None:
        """Tries a text once more if its worker died, because another process may have killed the worker."""
        if died and waiting[0] is not self._suspect:
            self._suspect = waiting[0]
            return
        self._door.texts_done([(waiting.popleft()[0], b"", b"", 0, 0, why)])
