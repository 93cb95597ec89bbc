"""A dispatcher of an edge: claims requests of one model, and sends them to the servers that compute.

The loop is native (csrc/edge). Python starts it, looks up the servers' names and passes on what it has to say.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from fastqps._core import Heartbeat, Segment, WakeFds
from fastqps.dispatcher.lookups import Lookups
from fastqps.dispatcher.upstream_credentials import UpstreamCredentials
from fastqps.errors import ConfigError
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.process.children import FENCED, LEAVE, EdgeSettings
from fastqps.process.credential_files import UpstreamFiles
from fastqps.process.scheduling import wait_exactly

if TYPE_CHECKING:
    from fastqps._front import EdgeDispatcher

# The longest sleep, which bounds how late a signal and news are seen.
IDLE_S = 0.1
# How long a start waits for a first server: the first requests then find one. Without any it serves, too. The next
# version of a model waits until a server has that version: until then the present one serves.
CONNECT_MAX_S = 2.0


class Edge:
    """The loop around ``EdgeDispatcher``."""

    def __init__(self, native: EdgeDispatcher) -> None:
        self.stopping = False
        self._native = native
        self._told_s = 0.0

    def turn(self) -> None:
        """One turn. Leaves at once, without a single further write, when the supervisor has declared this process
        dead."""
        if not self._native.turn(IDLE_S):
            os._exit(FENCED)
        if (now_s := time.monotonic()) - self._told_s >= IDLE_S:
            self._told_s = now_s
            for line in self._native.news():
                say(line)

    def serve(self) -> None:
        """Until ``stopping``, and then until nothing is in flight."""
        while not self.stopping:
            self.turn()
        while not self._native.drain():
            self.turn()


def make_edge(card: ModelCard, segment: Segment, settings: EdgeSettings) -> EdgeDispatcher:
    """Makes the native loop. ``ConfigError`` for certificates that cannot be used."""
    from fastqps._front import EdgeDispatcher, TlsError  # the transport lies there; other dispatchers do without

    files = UpstreamFiles(*settings.credentials)
    try:
        return EdgeDispatcher(
            segment,
            WakeFds(dispatchers=list(settings.wake_dispatchers), doors=list(settings.wake_doors)),
            settings.index,
            epoch=settings.epoch,
            route=settings.route,
            max_items=settings.max_batch_items,
            connections=settings.lanes,
            model=card.name,
            version=card.version,
            max_input_tokens=card.max_input_tokens,
            max_output_tokens=card.max_output_tokens,
            token=files.token(),
            tls=files.pem(),
        )
    except TlsError as error:
        raise ConfigError(f"{files.tls_flags}: {error}") from None


def main(settings: EdgeSettings) -> int:
    """Serves until the supervisor stops this process.

    Raises ``ModelError`` if the model's files are others than those of its card, and ``ConfigError`` for certificates
    and tokens that cannot be used.
    """
    segment = Segment(settings.segment_fd)
    heartbeat = Heartbeat(segment, "dispatcher", settings.index, settings.parent_fd)
    card = ModelCard.from_json(segment.card(settings.route))
    check_files(card)
    native = make_edge(card, segment, settings)
    edge = Edge(native)

    def stop(number: int, frame: object) -> None:
        # Otherwise the signal was meant for the supervisor, which drains first.
        edge.stopping = segment.phase == "stopping"

    def leave(number: int, frame: object) -> None:
        edge.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(LEAVE, leave)

    def serving() -> bool:
        return any(row.state == "serving" for row in segment.upstreams(settings.index))

    gc.collect()
    gc.freeze()
    wait_exactly()
    Lookups(settings.upstreams, native.set_upstreams, serving, say).start()
    UpstreamCredentials(UpstreamFiles(*settings.credentials), native.set_credentials, say).start()
    end_s = math.inf if settings.on_trial else time.monotonic() + CONNECT_MAX_S
    while not (serving() or edge.stopping or time.monotonic() > end_s):
        edge.turn()
    native.set_ready()
    edge.serve()
    native.leave()
    del heartbeat
    return 0


def say(line: str) -> None:
    """Writes a line to the server's log."""
    print(line, file=sys.stderr, flush=True)
