"""The process of a dispatcher, whatever its loop does: its place in the server, its start, and its ends."""

from __future__ import annotations

import gc
import os
import signal
from typing import Protocol

from fastqps._core import Heartbeat, Segment, WakeFds
from fastqps.models.card import ModelCard
from fastqps.process.children import FENCED, LEAVE, DispatcherSettings, EdgeSettings
from fastqps.process.prctl import wait_exactly
from fastqps.process.startup import STARTUP
from fastqps.terminal import say


class Loop(Protocol):
    """A loop in Python around the native one."""

    stopping: bool  # set by signals: it ends when nothing is in flight

    def serve(self) -> None: ...


class Native(Protocol):
    """The calls that every native loop has."""

    def set_ready(self) -> None: ...
    def leave(self) -> None: ...


class DispatcherProcess:
    """This process as a dispatcher. Its heart beats from here on, until ``end``."""

    def __init__(self, settings: DispatcherSettings | EdgeSettings) -> None:
        self._index = settings.index
        self.segment = Segment(settings.segment_fd)
        self._heartbeat = Heartbeat(self.segment, "dispatcher", settings.index, settings.parent_fd)
        self.card = ModelCard.from_json(self.segment.card(settings.route))

    def prepare(self, loop: Loop) -> None:
        """Obeys the supervisor's signals from now on. What has been made stays, so no collection looks at it again."""
        segment = self.segment  # handlers stay for good, and are not to keep the heartbeat

        def stop(number: int, frame: object) -> None:
            # Otherwise the signal was meant for the supervisor, which drains first.
            loop.stopping = segment.phase == "stopping"

        def leave(number: int, frame: object) -> None:
            loop.stopping = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(LEAVE, leave)
        gc.collect()
        gc.freeze()
        wait_exactly()

    def serve(self, loop: Loop, native: Native) -> None:
        """Is ready, serves until ``loop`` ends, and leaves."""
        STARTUP.record(self.segment, self.segment.sizes.doors + self._index)
        say(STARTUP.report())
        native.set_ready()
        loop.serve()
        native.leave()

    def end(self) -> None:
        """Ends the heartbeat, last of all: a process that hangs in its exit is then known by its silence."""
        del self._heartbeat


def wake_fds(settings: DispatcherSettings | EdgeSettings) -> WakeFds:
    """The event descriptors of all dispatchers and front doors."""
    return WakeFds(dispatchers=list(settings.wake_dispatchers), doors=list(settings.wake_doors))


def check_alive(alive: bool) -> None:
    """Leaves at once, without a single further write, when the supervisor has declared this process dead."""
    if not alive:
        os._exit(FENCED)
