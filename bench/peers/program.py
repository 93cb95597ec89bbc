"""A runtime as a program: it chooses its fastest way, answers all items once, then as often as it is asked.

``encoders`` and ``generators`` are such programs: ``python -m bench.peers.encoders RUNTIME ARGUMENT... ITEMS ANSWERS``.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_SAMPLE = 128  # items that choose a way: two batches of the largest size
_HOPELESS = 2.0  # times as long as the best one: not tried twice


@dataclass(frozen=True)
class Way:
    """One way to answer items: a function of all of them, with a row for each in their order."""

    name: str
    answer: Callable[[Sequence[Any]], np.ndarray[Any, Any]]


Runtime = Callable[..., Iterable[Way]]  # of the items' file and the arguments


def main(runtimes: Mapping[str, Runtime]) -> None:
    """Prints the fastest way's name, writes its answers to ANSWERS, and then prints, for each number of seconds on
    standard input, items per second and CPU seconds of an item. ITEMS: a JSON list."""
    runtime, *arguments, items, answers = sys.argv[1:]
    many: list[Any] = json.loads(Path(items).read_text())
    way = _fastest(list(runtimes[runtime](Path(items), *arguments)), many[:_SAMPLE])
    np.save(answers, way.answer(many))
    _say(way.name)
    for line in sys.stdin:
        began, cpu, done = time.perf_counter(), time.process_time(), 0
        while not done or time.perf_counter() - began < float(line):
            way.answer(many)
            done += len(many)
        _say(f"{done / (time.perf_counter() - began)} {(time.process_time() - cpu) / done}")


def _say(line: str) -> None:
    """Lines without this mark are a library's own."""
    print(f"= {line}", flush=True)


def _fastest(ways: Sequence[Way], many: Sequence[Any]) -> Way:
    """By the better of two rounds: the first one also makes what a new shape needs."""
    took_s: dict[str, float] = {}
    for way in ways if len(ways) > 1 else ():
        for _ in range(2):
            began = time.perf_counter()
            way.answer(many)
            took_s[way.name] = min(time.perf_counter() - began, took_s.get(way.name, math.inf))
            if took_s[way.name] > _HOPELESS * min(took_s.values()):
                break
    return min(ways, key=lambda way: took_s.get(way.name, 0.0))
