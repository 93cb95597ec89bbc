"""Tokenizers that are not native here, on a worker thread of the front door: batched, slower, the same ids."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from fastqps import _front
from fastqps.tokenizer import Item, Tokenizer

TEXTS_MAX = 256
WAIT_MS = 1000


def serve(door: _front.Door, tokenizers: Mapping[int, Tokenizer], running: threading.Event) -> threading.Thread:
    """Tokenizes what the door hands out, by route, while ``running`` is set."""

    def work() -> None:
        while running.is_set():
            jobs = door.next_texts(TEXTS_MAX, WAIT_MS)
            if not jobs:
                continue
            tokenizer = tokenizers[jobs[0][1]]
            items: list[Item] = [first if second is None else (first, second) for _, _, first, second in jobs]
            found = _encode(tokenizer, items)
            door.texts_done([(slot, *ids) for (slot, *_), ids in zip(jobs, found, strict=True)])

    thread = threading.Thread(target=work, name="tokenizers", daemon=True)
    thread.start()
    return thread


def _encode(tokenizer: Tokenizer, items: list[Item]) -> list[tuple[list[int] | None, int, int]]:
    """(ids, first_len, n_total) of each item; ids None for one that the tokenizer cannot encode."""
    try:
        return [(found.ids, found.first_len, found.n_total) for found in tokenizer.encode_items(items)]
    except Exception:  # one bad text fails alone, not its neighbours
        if len(items) == 1:
            return [(None, 0, 0)]
        return [_encode(tokenizer, [item])[0] for item in items]
