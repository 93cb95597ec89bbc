"""What each runtime's program does: it chooses its fastest way, embeds all texts once, then as often as it is asked."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

Rows = np.ndarray[Any, np.dtype[np.float32]]
Infer = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], Rows]  # input_ids, attention_mask → embedding
_SAMPLE = 128  # texts that choose a way: two batches of the largest size
_HOPELESS = 2.0  # times as long as the best one: not tried twice


@dataclass(frozen=True)
class Way:
    """One way to embed texts: a function of all of them, in their order."""

    name: str
    embed: Callable[[Sequence[str]], Rows]


def run(ways: Sequence[Way], texts: Path, answers: Path) -> int:
    """Prints the fastest way's name, writes its embeddings to ``answers``, and then prints, for each number of seconds
    on standard input, texts per second and CPU seconds of a text. ``texts``: a JSON list."""
    many: list[str] = json.loads(texts.read_text())
    way = _fastest(ways, many[:_SAMPLE])
    np.save(answers, way.embed(many))
    _say(way.name)
    for line in sys.stdin:
        began, cpu, done = time.perf_counter(), time.process_time(), 0
        while not done or time.perf_counter() - began < float(line):
            way.embed(many)
            done += len(many)
        _say(f"{done / (time.perf_counter() - began)} {(time.process_time() - cpu) / done}")
    return 0


def _say(line: str) -> None:
    """Lines without this mark are a library's own."""
    print(f"= {line}", flush=True)


def _fastest(ways: Sequence[Way], many: Sequence[str]) -> Way:
    """By the better of two rounds: the first one also makes what a new shape needs."""
    took_s: dict[str, float] = {}
    for way in ways if len(ways) > 1 else ():
        for _ in range(2):
            began = time.perf_counter()
            way.embed(many)
            took_s[way.name] = min(time.perf_counter() - began, took_s.get(way.name, math.inf))
            if took_s[way.name] > _HOPELESS * min(took_s.values()):
                break
    return min(ways, key=lambda way: took_s.get(way.name, 0.0))


def encoder_way(name: str, infers: Sequence[Infer], batch: int, tokenizer: Path, max_tokens: int) -> Way:
    """Batches of texts of about one length, padded to their longest, on a thread for each of ``infers``."""
    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.enable_truncation(max_tokens)
    loaded.enable_padding()

    def embed(many: Sequence[str]) -> Rows:
        parts = list(_batches(many, batch))

        def work(infer: Infer, begin: int) -> list[Rows]:
            found = []
            for part in parts[begin :: len(infers)]:
                encoded = loaded.encode_batch_fast([many[i] for i in part])
                ids = np.array([each.ids for each in encoded], np.int64)
                found.append(infer(ids, np.array([each.attention_mask for each in encoded], np.int64)))
            return found

        out = np.empty((len(many), 0), np.float32)
        with ThreadPoolExecutor(len(infers)) as pool:
            done = [pool.submit(work, infer, begin) for begin, infer in enumerate(infers)]
            for begin, future in enumerate(done):
                for part, rows in zip(parts[begin :: len(infers)], future.result(), strict=True):
                    out = out if out.shape[1] else np.empty((len(many), rows.shape[1]), np.float32)
                    out[part] = rows
        return out

    return Way(f"{name}, batches of {batch}", embed)


def _batches(many: Sequence[str], size: int) -> Iterator[list[int]]:
    order = sorted(range(len(many)), key=lambda i: -len(many[i]))
    return (order[at : at + size] for at in range(0, len(order), size))
