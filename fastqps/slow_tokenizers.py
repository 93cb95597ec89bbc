"""Tokenizers that are not native here, on a worker thread of the front door: batched, slower, the same ids."""

from __future__ import annotations

import threading

from fastqps import _front
from fastqps.tokenizer import Item, Tokenizer

TEXTS_MAX = 256
WAIT_MS = 1000


class SlowTokenizers:
    """By route. A worker thread starts with the first one."""

    def __init__(self, door: _front.Door) -> None:
        self._door = door
        self._tokenizers: dict[int, Tokenizer] = {}
        self._thread: threading.Thread | None = None

    def add(self, route: int, tokenizer: Tokenizer) -> None:
        """From now on texts of that route are tokenized by it; none of another is under way there."""
        self._tokenizers[route] = tokenizer
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tokenizers", daemon=True)
            self._thread.start()

    def drop(self, route: int) -> None:
        """Texts of that route will not come any more."""
        self._tokenizers.pop(route, None)

    def _work(self) -> None:
        while True:
            jobs = self._door.next_texts(TEXTS_MAX, WAIT_MS)
            if not jobs:
                continue
            tokenizer = self._tokenizers[jobs[0][1]]
            items: list[Item] = [first if second is None else (first, second) for _, _, first, second in jobs]
            found = _encode(tokenizer, items)
            self._door.texts_done([(slot, *ids) for (slot, *_), ids in zip(jobs, found, strict=True)])


def _encode(tokenizer: Tokenizer, items: list[Item]) -> list[tuple[list[int] | None, int, int]]:
    """(ids, first_len, n_total) of each item; ids None for one that the tokenizer cannot encode."""
    try:
        return [(found.ids, found.first_len, found.n_total) for found in tokenizer.encode_items(items)]
    except Exception:  # one bad text fails alone, not its neighbours
        if len(items) == 1:
            return [(None, 0, 0)]
        return [_encode(tokenizer, [item])[0] for item in items]
