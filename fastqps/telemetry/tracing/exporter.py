"""The thread that sends spans to the collector. It blocks no request: spans beyond its queue are dropped."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastqps.errors import ConfigError

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc")
_INSTALL = "pip install 'fastqps[tracing]'"


def find_endpoint(flag: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """(the URL of a collector that takes OTLP over gRPC, or nothing for no tracing; what there is to say about that).

    ``ConfigError`` for a flag that cannot be followed. A variable is often set for all programs of a machine, so one
    that cannot be followed here only turns tracing off, with a note.
    """
    if flag:
        return _checked("--otlp-endpoint", flag), ""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return "", ""
    name = next((name for name in VARIABLES if environment.get(name)), None)
    if name is None:
        return "", ""
    try:
        return _checked(name, environment[name]), ""
    except ConfigError as error:
        return "", f"no tracing: {error}"


def _checked(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path in ("", "/")
        good = good and not parts.query and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number, or too large
        good = False
    if not good:
        raise ConfigError(f"{name} {url!r}: not the URL of an OTLP collector such as http://collector:4317 (gRPC)")
    if not all(map(_installed, _PACKAGES)):
        raise ConfigError(f"{name}: OpenTelemetry is not installed; install it with: {_INSTALL}")
    return url if parts.port else f"{parts.scheme}://{parts.netloc}:4317"


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False


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
