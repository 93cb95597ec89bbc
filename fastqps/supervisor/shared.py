"""Resources that all processes share: the segment, the eventfds for wake-ups, the pipe held by the supervisor."""

from __future__ import annotations

import os
import socket
from typing import Any

from fastqps._core import Segment, WakeFds, create_segment, plan
from fastqps.config.units import format_bytes
from fastqps.errors import ConfigError, ModelError
from fastqps.kernels.journal import Journal
from fastqps.supervisor.generation import Generation, first_generations
from fastqps.supervisor.plan import Plan


class Shared:
    """The shared resources. They are made once at start, and the kernel frees them with the last process."""

    def __init__(self, server: Plan, credentials_fd: int, http: socket.socket | None = None, admin: str = "") -> None:
        """``http``: the bound socket of --http-port, not owned; None: there is none. ``admin``: HOST:PORT of the admin
        port.

        Raises ``ConfigError`` if the memory cannot be allocated.
        """
        sizes = server.sizes()
        self.sizes_text = _describe(server)
        self._config = server.config
        try:
            self.segment_fd = create_segment(sizes)
        except (RuntimeError, OSError) as error:
            raise ConfigError(f"the shared segment ({self.sizes_text}): {error}; lower --slots") from None
        self.segment = Segment(self.segment_fd)
        self.segment.lock()  # where it may; without swap, or with memory to spare, nothing takes its pages away
        self.wake_dispatchers = tuple(_eventfd() for _ in range(server.workers))
        self.wake_doors = tuple(_eventfd() for _ in range(server.doors))
        self.wake_fds = WakeFds(dispatchers=list(self.wake_dispatchers), doors=list(self.wake_doors))
        self.parent_fd, self._own_end = os.pipe()
        self.kernels = Journal()
        self.credentials_fd = credentials_fd
        self.http = http
        self.admin = admin
        self.tables: dict[int, int] = {}  # by route: the file in memory with a static model's table
        self.segment.set_phase("starting")
        for first in first_generations(server):
            self.segment.set_model(first.model, first.card.name)
            self.announce(first)

    @property
    def http_fd(self) -> int:
        """The descriptor of plain HTTP's socket; -1: none."""
        return self.http.fileno() if self.http else -1

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that every child inherits."""
        return (self.segment_fd, self.parent_fd, *self.wake_dispatchers, *self.wake_doors)

    def settings(self, index: int, title: str, parent_pid: int, cpus: tuple[int, ...]) -> dict[str, Any]:
        """What the settings of every child have."""
        return {
            "index": index,
            "title": title,
            "parent_pid": parent_pid,
            "parent_fd": self.parent_fd,
            "segment_fd": self.segment_fd,
            "wake_dispatchers": self.wake_dispatchers,
            "wake_doors": self.wake_doors,
            "cpus": cpus,
        }

    def wake_everybody(self) -> None:
        """Wakes all processes, so that they read the phase now."""
        for fd in (*self.wake_doors, *self.wake_dispatchers):
            os.eventfd_write(fd, 1)

    def close(self) -> None:
        """Closes the descriptors. A child that is still alive ends with that."""
        for fd in (*self.inherited, self._own_end, *self.tables.values()):
            os.close(fd)
        self.kernels.close()

    def announce(self, generation: Generation, like: Generation | None = None) -> None:
        """Writes a generation that is about to warm up into the segment, for front doors and its dispatchers.

        ``like``: one that serves, and whose steps take the same time: what its dispatchers have chosen is taken over.
        Measured beside live traffic, the choice would be worse.
        """
        card, room, config = generation.card, generation.room, self._config
        try:
            self.segment.set_route(
                generation.route,
                generation.number,
                card.to_json(),
                max_queue_items=config.max_queue_items,
                max_batch_items=0 if room.choose or config.max_step_time_ns else room.items,
                max_batch_tokens=room.tokens,
                max_batch_delay_ns=config.max_batch_delay_ns,
                cache_slots=room.running * room.lanes,
            )
        except RuntimeError as error:  # it names the field
            raise ModelError(f"{card.path}: {error}") from None
        if like and like.room == room and (serves := self.segment.route(like.route)).most_items:
            self.segment.set_batch_limits(
                generation.route,
                items=serves.most_items,
                tokens=serves.max_batch_tokens,
                cache_slots=serves.most_items * room.lanes if card.generates else 0,
            )
        self._close_table(generation.route)  # that of a generation which could not be ended
        if card.static:
            self.tables[generation.route] = os.memfd_create("fastqps table", os.MFD_CLOEXEC)
        self.segment.set_route_state(generation.route, "warming")

    def forget(self, generation: Generation) -> None:
        """Frees the route of a generation whose dispatchers have left."""
        self.segment.set_route_state(generation.route, "empty")
        self._close_table(generation.route)

    def _close_table(self, route: int) -> None:
        if (table := self.tables.pop(route, -1)) >= 0:
            os.close(table)


def _eventfd() -> int:
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def _describe(server: Plan) -> str:
    sizes, found = server.sizes(), plan(server.sizes())
    total = f"{found.total_bytes / (1 << 20):.1f} MiB"
    slot = f"{format_bytes(found.slot_stride)} for {sizes.max_tokens} tokens and a {sizes.answer_bytes}-byte answer"
    large = (
        f", {sizes.large_answers} x {format_bytes(sizes.large_answer_bytes)} for larger ones"
        if sizes.large_answers
        else ""
    )
    return f"{total}: {sizes.doors} x {sizes.slots} slots of {slot}{large}"
