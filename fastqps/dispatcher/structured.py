"""Requests with a structure: it is compiled on a thread beside the loop, and their masks are computed there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from fastqps._core import DecodeStepper
from fastqps.api.structures import KINDS
from fastqps.dispatcher.process import check_alive
from fastqps.errors import ModelError, StatusCode
from fastqps.models.card import ModelCard
from fastqps.runners import DecodeBuffers
from fastqps.runners.lane import Lane
from fastqps.structure.cache import StructureCache
from fastqps.structure.masks import Masks
from fastqps.structure.sandbox import Sandbox
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Compiled, Vocabulary

Asked = tuple[int, bytes]
"""The number of a kind, and the text."""


class _Made(NamedTuple):
    compiled: Compiled
    size: int  # bytes


class _Waiting(NamedTuple):
    compiling: Future[_Made]
    first: bool  # it was not cached


def _is_made(compiling: Future[_Made]) -> bool:
    return compiling.done() and not compiling.exception()


def _size(compiling: Future[_Made]) -> int:
    return compiling.result().size if _is_made(compiling) else 0


def _compiled(compiling: Future[_Made]) -> Compiled | None:
    return compiling.result().compiled if _is_made(compiling) else None


class Structured:
    """The structures of a dispatcher's requests, by ticket, and the masks of each lane.

    ``wake_fd``: the eventfd that the loop sleeps on. It is written to when a structure is compiled. Without a request
    that has one this costs a call for each turn of the loop, and no memory.
    """

    def __init__(self, stepper: DecodeStepper, card: ModelCard, lanes: Sequence[Lane[Any]], wake_fd: int) -> None:
        self._stepper, self._card, self._wake_fd = stepper, card, wake_fd
        self._takes_masks = lanes[0].runners[0].buffers().takes_masks
        self._thread: ThreadPoolExecutor | None = None  # made for the first request, as what it uses
        self._sandbox: Sandbox | None = None
        self._vocabulary: Vocabulary | None = None
        self._cache = StructureCache[Future[_Made]](_size)  # the refused ones, too
        self._compiling: dict[int, _Waiting] = {}
        self._compiled: dict[int, Compiled] = {}  # of requests that have not joined a step
        self._masks: list[Masks | None] = [None] * len(lanes)

    def poll(self) -> None:
        """Begins to compile what was claimed, and lets those join whose structure is compiled."""
        for ticket, kind, text in self._stepper.take_structured():
            self._compiling[ticket] = self._begin((kind, text))
        ended = [ticket for ticket, each in self._compiling.items() if each.compiling.done()]
        if not ended:
            return
        waiting = [self._compiling.pop(ticket) for ticket in ended]
        for ticket, each in zip(ended, waiting, strict=True):
            self._end(ticket, each.compiling)
        if any(each.first for each in waiting):
            self._cache.trim()  # their sizes are known now
        self._compiled = {each: made for each, made in self._compiled.items() if self._stepper.awaited(each)}

    def launch(self, lane: int, step: int, buffers: DecodeBuffers, behind: bool) -> None:
        """A step is launched next, behind one of its lane that is in flight or not."""
        rows = self._stepper.masked(step)
        if not rows:
            return
        masks = self._masks[lane] = self._masks[lane] or Masks()
        for _, ticket in rows:
            if compiled := self._compiled.pop(ticket, None):
                masks.begin(ticket, compiled)
        masks.launch(buffers, rows, behind)

    def retire(self, lane: int, buffers: DecodeBuffers) -> None:
        """A step of the lane has ended, and is not scattered yet.

        A text whose automaton has failed ends with an error, and the next one begins with a fresh automaton.
        """
        if not (masks := self._masks[lane]) or not (failed := masks.retire(buffers)):
            return
        spent = [each.compiled for each in failed]
        self._cache.drop_where(lambda each: any(_compiled(each) is one for one in spent))
        for ticket, _, reason in failed:
            message = f"generate.structure: the text cannot go on: {reason}"
            check_alive(self._stepper.fail(ticket, StatusCode.RESOURCE_EXHAUSTED, message))

    def _begin(self, asked: Asked) -> _Waiting:
        if not self._thread:
            self._thread = ThreadPoolExecutor(1, "structures")
        cached = self._cache.get(asked)
        compiling = cached or self._submit(self._thread, asked)
        if not cached:
            self._cache.put(asked, compiling)
        if not compiling.done():
            compiling.add_done_callback(lambda _: os.eventfd_write(self._wake_fd, 1))
        return _Waiting(compiling, first=not cached)

    def _submit(self, thread: ThreadPoolExecutor, asked: Asked) -> Future[_Made]:
        try:
            return thread.submit(self._compile, asked)
        except RuntimeError as error:  # the thread cannot be started
            failed = Future[_Made]()
            failed.set_exception(error)
            return failed

    def _compile(self, asked: Asked) -> _Made:
        kind, text = asked
        if not 1 <= kind <= len(KINDS):
            raise ValueError(f"structure {kind} is unknown")
        structure = Structure(KINDS[kind - 1], text.decode())
        if self._takes_masks and not self._sandbox:
            self._sandbox = Sandbox(self._card)  # reads the vocabulary beside this process
        self._vocabulary = self._vocabulary or Vocabulary(self._card, self._takes_masks)
        size = self._sandbox.run(structure) if self._sandbox else 0
        return _Made(self._vocabulary.compile(structure), size)

    def _end(self, ticket: int, compiling: Future[_Made]) -> None:
        code, message = StatusCode.OK, ""
        try:
            self._compiled[ticket] = compiling.result().compiled
        except (ModelError, ValueError) as error:
            code, message = StatusCode.INVALID_ARGUMENT, f"generate.structure: {error}"
        except Exception as error:  # no process, memory or thread: not the structure's fault
            self._cache.drop_where(lambda each: each is compiling)
            code, message = StatusCode.UNAVAILABLE, f"generate.structure: it cannot be compiled now: {error}"
        self._stepper.compiled(ticket, code, message)
