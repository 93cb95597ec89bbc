"""A front door's process: Python starts the native loop and answers its rare calls. It never imports torch."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

from fastqps import _front
from fastqps._core import Heartbeat, Segment, WakeFds
from fastqps.errors import FAILURE, NOT_DRAINED, OK
from fastqps.frontdoor import open_inference, open_inference_http, rare_calls, text_embeddings, text_embeddings_http
from fastqps.frontdoor.default_tokenizer import DefaultTokenizer
from fastqps.frontdoor.entry import Entry
from fastqps.frontdoor.rare_routes import add_document_page, document_route, metrics_route, rare_routes
from fastqps.frontdoor.routes import DoorRoutes
from fastqps.frontdoor.served import ServedModels
from fastqps.frontdoor.slow_tokenizers import SlowTokenizers
from fastqps.frontdoor.vllm_tokens import VllmTokens
from fastqps.process.children import LOAD_ROUTES, DoorSettings
from fastqps.process.credentials import Vault
from fastqps.process.prctl import wait_exactly
from fastqps.process.startup import STARTUP

SIGNALS = {signal.SIGTERM, LOAD_ROUTES}


def main(settings: DoorSettings) -> NoReturn:
    """Serves until the supervisor's drain has ended or it stops this process. Never returns.

    The exit code is NOT_DRAINED if that left items without an answer.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before any thread starts, so that all inherit the mask
    threading.excepthook = _die
    segment = Segment(settings.segment_fd)
    _heartbeat = Heartbeat(segment, "door", settings.index, settings.parent_fd)  # beats until it is deleted
    wake_fds = WakeFds(dispatchers=settings.wake_dispatchers, doors=settings.wake_doors)
    door = _front.Door(segment, wake_fds, settings.index, settings.native)
    entry = Entry(door, Vault(settings.credentials_fd))
    slow = SlowTokenizers(door, f"frontdoor {settings.index}")
    routes = DoorRoutes(door, segment, settings.index, slow)
    with STARTUP.stage("tokenizers"):
        routes.load_served()
        routes.load_next()  # a generation that is warming up already
    models = ServedModels(segment, routes.loaded, door, settings.repeatable)
    tokenizer = DefaultTokenizer(models)
    vllm = VllmTokens(models, tokenizer)
    protocols = [*open_inference.methods(models), *text_embeddings.methods(models, settings.dtype, tokenizer)]
    methods = [*rare_calls.rare_methods(models), *protocols]
    routes_of_protocols = [
        document_route(door),
        metrics_route(settings.admin),
        *open_inference_http.routes(models),
        *text_embeddings_http.routes(models, settings.dtype, tokenizer, door.auto_truncate, vllm),
        vllm.route(),
    ]
    add_document_page(door)
    rare_calls.serve(door, methods, [*rare_routes(models), *routes_of_protocols])
    threading.Thread(target=entry.watch, name="credentials", daemon=True).start()
    # The loop runs in C++ on this thread, where no Python signal handler runs, so another thread waits for the signals.
    threading.Thread(target=_take_signals, args=(door, segment, routes), name="signals", daemon=True).start()
    wait_exactly()
    STARTUP.record(segment, settings.index)
    cut_off = door.run()
    # A thread may still be in native code, for example loading a tokenizer. If the interpreter shut down first, that
    # thread would crash on its return to Python.
    os._exit(NOT_DRAINED if cut_off else OK)


def _die(failure: threading.ExceptHookArgs) -> None:
    """Ends the process if a helper thread fails. Otherwise its calls would stay unanswered and their slots in use."""
    sys.__excepthook__(failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    os._exit(FAILURE)


def _take_signals(door: _front.Door, segment: Segment, routes: DoorRoutes) -> None:
    """Obeys SIGTERM only if the supervisor is stopping: one sent to all processes must not cut off a drain."""
    while True:
        if signal.sigwait(SIGNALS) == LOAD_ROUTES:
            routes.load_in_peace()
        elif segment.phase == "stopping":
            door.stop()
            return
