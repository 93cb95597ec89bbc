"""A front door's process: Python starts the native loop, and answers its rare calls. No torch in here."""

from __future__ import annotations

import os
import signal
import sys
import threading

from fastqps import _front, rare_calls, slow_tokenizers
from fastqps._core import GENERATIONS, Heartbeat, Segment
from fastqps.children import DoorSettings
from fastqps.errors import FAILURE, NOT_DRAINED, OK
from fastqps.models.card import ModelCard, ModelError
from fastqps.tokenizer import Tokenizer


def main(settings: DoorSettings) -> int:
    """Serves until the supervisor's drain has ended, or until it stops us.

    Returns NOT_DRAINED where that cut off items that were not answered yet.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # before any thread is started: all inherit it
    threading.excepthook = _die
    segment = Segment(settings.segment_fd)
    heartbeat = Heartbeat(segment, "door", settings.index, settings.parent_fd)
    door = _front.Door(
        settings.segment_fd,
        list(settings.wake_dispatchers),
        list(settings.wake_doors),
        settings.index,
        settings.listener_fd,
        {
            "max_message_bytes": settings.max_message_bytes,
            "max_stream_inflight": settings.max_stream_inflight,
            "default_timeout_ns": settings.default_timeout_ns,
            "max_connection_age_ns": settings.max_connection_age_ns,
            "rerun": settings.rerun,
            "load_reports": settings.load_reports,
        },
    )
    cards, native, slow = [], [], {}
    for model in range(segment.sizes.models):
        route = model * GENERATIONS
        card = ModelCard.from_json(segment.card(route))
        tokenizer = _tokenizer(card) if card.tokenizer else None
        if tokenizer and not tokenizer.native:
            print(
                f"model {card.name}: tokenizing through the tokenizers package: {tokenizer.why_not_native}",
                file=sys.stderr,
            )
            slow[route] = _usable(card, tokenizer)
        is_native = tokenizer is not None and tokenizer.native
        try:
            door.set_route(
                route,
                tokenizer=card.tokenizer if is_native else "",
                special_tokens=card.special_tokens,
                external=route in slow,
                labels=list(card.labels),
                version=f"{card.name}@{card.version}",
                detokenizer=card.tokenizer if card.task == "generate" else "",
            )
        except ValueError as error:
            raise ModelError(f"model {card.name}: its tokenizer.json cannot be used: {error}") from None
        cards.append(card)
        native.append(is_native)
    del tokenizer
    rare = rare_calls.serve(door, rare_calls.list_models(cards, native))
    running = threading.Event()
    running.set()
    texts = slow_tokenizers.serve(door, slow, running) if slow else None
    # The loop runs in C++ on this thread, so no Python handler could: a thread waits for the signal.
    threading.Thread(target=_stop_at_sigterm, args=(door, segment), name="signals", daemon=True).start()
    cut_off = door.run()
    running.clear()
    for thread in filter(None, (rare, texts)):
        thread.join(timeout=2)
    del heartbeat
    return NOT_DRAINED if cut_off else OK


def _die(failure: threading.ExceptHookArgs) -> None:
    """A helper thread that ends would leave its calls unanswered and their slots taken; a new process serves on."""
    sys.__excepthook__(failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    os._exit(FAILURE)


def _stop_at_sigterm(door: _front.Door, segment: Segment) -> None:
    """The supervisor alone ends us: a SIGTERM to all processes of a service must not cut off what it drains."""
    while True:
        signal.sigwait({signal.SIGTERM})
        if segment.phase == "stopping":
            door.stop()
            return


def _tokenizer(card: ModelCard) -> Tokenizer:
    return Tokenizer.from_file(card.tokenizer, max_tokens=card.max_input_tokens, special_tokens=card.special_tokens)


def _usable(card: ModelCard, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, if the package can work with it: a server must not start that then refuses every text."""
    try:
        tokenizer.encode("a")
    except Exception as error:  # the package raises nothing narrower
        raise ModelError(f"model {card.name}: its tokenizer.json cannot be used: {error}") from None
    return tokenizer
