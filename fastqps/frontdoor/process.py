"""A front door's process: Python starts the native loop, and answers its rare calls. No torch in here."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

from fastqps import _front
from fastqps._core import Heartbeat, Segment
from fastqps.errors import FAILURE, NOT_DRAINED, OK
from fastqps.frontdoor import rare_calls
from fastqps.frontdoor.entry import Entry
from fastqps.frontdoor.routes import DoorRoutes
from fastqps.frontdoor.slow_tokenizers import SlowTokenizers
from fastqps.process.children import LOAD_ROUTES, DoorSettings
from fastqps.process.credentials import Vault

SIGNALS = {signal.SIGTERM, LOAD_ROUTES}


def main(settings: DoorSettings) -> NoReturn:
    """Serves until the supervisor's drain has ended, or until it stops us; then the process ends.

    Its exit code is NOT_DRAINED where that cut off items that were not answered yet.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before any thread is started: all inherit it
    threading.excepthook = _die
    segment = Segment(settings.segment_fd)
    _heartbeat = Heartbeat(segment, "door", settings.index, settings.parent_fd)  # beats as long as it is there
    door = _front.Door(
        segment_fd=settings.segment_fd,
        dispatcher_fds=settings.wake_dispatchers,
        door_fds=settings.wake_doors,
        index=settings.index,
        listener_fd=settings.listener_fd,
        internal_fd=settings.internal_fd,
        max_message_bytes=settings.max_message_bytes,
        max_stream_inflight=settings.max_stream_inflight,
        default_timeout_ns=settings.default_timeout_ns,
        max_connection_age_ns=settings.max_connection_age_ns,
        stream_idle_timeout_ns=settings.stream_idle_timeout_ns,
        canary_interval_ns=settings.canary_interval_ns,
        rerun=settings.rerun,
        load_reports=settings.load_reports,
        trace_ratio=settings.trace_ratio,
    )
    entry = Entry(door, Vault(settings.credentials_fd))
    slow = SlowTokenizers(door, f"frontdoor {settings.index}")
    routes = DoorRoutes(door, segment, settings.index, slow)
    routes.load_served()
    routes.load_next()  # what the server is reloading as we start
    rare_calls.serve(door, routes.list_models)
    threading.Thread(target=entry.watch, name="credentials", daemon=True).start()
    # The loop runs in C++ on this thread, so no Python handler could: a thread waits for the signals.
    threading.Thread(target=_take_signals, args=(door, segment, routes), name="signals", daemon=True).start()
    cut_off = door.run()
    # Nothing is left to do, but a thread may still be in native code, as one that loads a tokenizer: where the
    # interpreter went first, its way back into Python would be a crash.
    os._exit(NOT_DRAINED if cut_off else OK)


def _die(failure: threading.ExceptHookArgs) -> None:
    """A helper thread that ends would leave its calls unanswered and their slots taken; a new process serves on."""
    sys.__excepthook__(failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    os._exit(FAILURE)


def _take_signals(door: _front.Door, segment: Segment, routes: DoorRoutes) -> None:
    """The supervisor alone ends us: a SIGTERM to all processes of a service must not cut off what it drains."""
    while True:
        if signal.sigwait(SIGNALS) == LOAD_ROUTES:
            routes.load_in_peace()
        elif segment.phase == "stopping":
            door.stop()
            return
