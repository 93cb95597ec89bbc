"""All tokenizers of a front door that are not native."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from fastqps.frontdoor.slow_tokenizers.lane import Door, LongTexts, UsualTexts
from fastqps.frontdoor.slow_tokenizers.template import Template


class SlowTokenizers:
    """By route. Processes, and the threads that use them, start with the first one.

    ``name``: of the front door, for the titles of its processes.
    """

    def __init__(self, door: Door, name: str) -> None:
        # Started here, not when the first tokenizer comes: a reload's thread has a low priority, which they would
        # inherit.
        self._thread = ThreadPoolExecutor(1, "tokenizers")
        self._thread.submit(lambda: None).result()
        self._template = Template(name, self._thread)
        self._lanes = (UsualTexts(door, self._template), LongTexts(door, self._template))
        self._running = False

    def add(self, route: int, card: str) -> None:
        """From now on texts of that route are tokenized by the tokenizer of a model's card; none of another is under
        way there. ``ValueError`` where it cannot be used. One thread at a time."""
        self._template.load(route, card)
        if not self._running:
            self._running = True
            self._thread.submit(self._start_lanes).result()

    def drop(self, route: int) -> None:
        """Texts of that route will not come any more."""
        self._template.drop(route)

    def _start_lanes(self) -> None:
        for lane in self._lanes:
            threading.Thread(target=lane.run, name=f"tokenizer, {lane.title}", daemon=True).start()
