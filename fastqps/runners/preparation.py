"""Preparing a dispatcher's steps in Python, as others do: what ``--preparation python`` compares the C++ with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from fastqps.runners import Runner
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.pack_items import pack_items
from fastqps.runners.reference_rows import ReferenceRows


class Gathered(Protocol):
    """A stepper, of either kind."""

    def contents(self, step: int, /) -> Any: ...
    def prepared(self, step: int, /) -> None: ...


class PythonPreparation:
    """Builds each gathered step over again from plain lists. The step's bytes come out the same, only later."""

    def __init__(self, stepper: Gathered, runners: Sequence[Runner[Any]]) -> None:
        self._stepper, self._runners = stepper, runners

    def __call__(self, step: int) -> None:
        runner = self._runners[step]
        write_step(runner, self._stepper.contents(step))
        _burn(runner.prepare_us)
        self._stepper.prepared(step)


def write_step(runner: Runner[Any], contents: Any) -> tuple[int, int, int]:
    """Fills the runner's buffers with a stepper's ``contents``; returns its ``shape``."""
    buffers = runner.buffers()
    if not isinstance(buffers, DecodeBuffers):
        return pack_items(runner.card, contents, buffers)
    runs, admitted = contents
    rows = ReferenceRows()
    for kv_slot, made, position, ids in runs:
        rows.append(kv_slot, made, position, ids)
    for sampling in admitted:
        rows.admit(**sampling)
    return rows.write(buffers)


def _burn(cpu_us: float) -> None:
    """Takes so much of this thread's CPU time: a modelled device's share of Python that has nothing to compute here."""
    end = time.thread_time() + cpu_us / 1e6
    while time.thread_time() < end:
        pass
