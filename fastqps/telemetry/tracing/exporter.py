"""The thread that sends spans to the collector. It blocks no request: spans beyond its queue are dropped."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

QUEUE_SPANS_MAX = 8192
BATCH_SPANS = 512
LINGER_S = 1.0  # for company: a request to the collector costs more than its spans


class Exporter:
    """``export(spans)``: whether the collector took them; it may block and may raise.

    ``on_turn(works)``: told when that changes, on the exporting thread.
    """

    def __init__(self, export: Callable[[Sequence[Any]], bool], on_turn: Callable[[bool], None]) -> None:
        self._export, self._on_turn = export, on_turn
        self._queue: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._works = True
        self.exported = self.failed = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def put(self, spans: Sequence[Any]) -> None:
        """The spans of one record; all of them or none."""
        with self._changed:
            if len(self._queue) + len(spans) > QUEUE_SPANS_MAX:
                self.dropped += len(spans)
                return
            self._queue.extend(spans)
            if len(self._queue) >= BATCH_SPANS:
                self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Exports queued spans until the time limit. The rest counts as dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            self.dropped += len(self._queue)
            self._queue.clear()

    def _run(self) -> None:
        while spans := self._next():
            try:
                took = self._export(spans)
            except Exception:  # of a package that is not ours: a trace is lost, nothing else
                took = False
            if took:
                self.exported += len(spans)
            else:
                self.failed += len(spans)
            if took != self._works:
                self._works = took
                self._on_turn(took)

    def _next(self) -> list[Any]:
        """The next spans to export; none: this is the end."""
        with self._changed:
            due_s = None
            while not self._closing and len(self._queue) < BATCH_SPANS:
                now_s = time.monotonic()
                if self._queue and due_s is None:
                    due_s = now_s + LINGER_S
                if due_s is not None and now_s >= due_s:
                    break
                self._changed.wait(LINGER_S if due_s is None else due_s - now_s)
            return [self._queue.popleft() for _ in range(min(BATCH_SPANS, len(self._queue)))]
