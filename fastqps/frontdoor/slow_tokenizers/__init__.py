"""Tokenizers that are not native: the `tokenizers` package, in separate processes that a front door can kill.

No text is tokenized in the front door's own process. ``SlowTokenizers`` is the interface.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from fastqps import _front
from fastqps.frontdoor.slow_tokenizers.lane import LongTexts, UsualTexts
from fastqps.frontdoor.slow_tokenizers.template import Template


class SlowTokenizers:
    """The tokenizers by route. The first one starts the processes and the threads that use them.

    ``name``: the front door's, for the titles of its processes.
    """

    def __init__(self, door: _front.Door, name: str) -> None:
        # Started here and not by the first tokenizer: a reload runs on a thread of low priority, which these threads
        # would inherit.
        self._thread = ThreadPoolExecutor(1, "tokenizers")
        self._thread.submit(lambda: None).result()
        self._template = Template(name, self._thread)
        self._lanes = (UsualTexts(door, self._template), LongTexts(door, self._template))
        self._running = False

    def add(self, route: int, card: str, *, chats_alone: bool) -> None:
        """From now on texts of that route are tokenized by the tokenizer of a model's card; none of another is under
        way there. ``ValueError`` where it cannot be used. One thread at a time.

        ``chats_alone``: only what its table of chats lacks comes here, so that the processes start when it does.
        """
        (self._template.keep if chats_alone else self._template.load)(route, card)
        if not self._running:
            self._running = True
            self._thread.submit(self._start_lanes).result()

    def drop(self, route: int) -> None:
        """Drops the tokenizer of a route that gets no more texts."""
        self._template.drop(route)

    def _start_lanes(self) -> None:
        for lane in self._lanes:
            threading.Thread(target=lane.run, name=f"tokenizer, {lane.title}", daemon=True).start()


__all__ = ["SlowTokenizers"]
