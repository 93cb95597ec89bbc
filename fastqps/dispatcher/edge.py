"""A dispatcher of an edge: claims requests of one model, and sends them to the servers that compute.

The loop is native (csrc/edge). Python starts it, looks up the servers' names and passes on what it has to say.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from fastqps._core import Segment
from fastqps.dispatcher.process import DispatcherProcess, check_alive, wake_fds
from fastqps.dispatcher.upstreams import Lookups, UpstreamCredentials
from fastqps.errors import ConfigError
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.process.children import EdgeSettings
from fastqps.process.credentials import UpstreamFiles
from fastqps.terminal import say

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
        """One turn."""
        check_alive(self._native.turn(IDLE_S))
        if (now_s := time.monotonic()) - self._told_s >= IDLE_S:
            self._told_s = now_s
            for line in self._native.news():
                say(line)

    def serve(self) -> None:
        """Serves until ``stopping``, and then until nothing is in flight."""
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
            wake_fds(settings),
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
    process = DispatcherProcess(settings)
    check_files(process.card)
    native = make_edge(process.card, process.segment, settings)
    edge = Edge(native)

    def serving() -> bool:
        return any(row.state == "serving" for row in process.segment.upstreams(settings.index))

    process.prepare(edge)
    Lookups(settings.upstreams, native.set_upstreams, serving, say).start()
    UpstreamCredentials(UpstreamFiles(*settings.credentials), native.set_credentials, say).start()
    end_s = math.inf if settings.on_trial else time.monotonic() + CONNECT_MAX_S
    while not (serving() or edge.stopping or time.monotonic() > end_s):
        edge.turn()
    process.serve(edge, native)
    process.end()
    return 0
