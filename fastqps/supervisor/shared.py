"""What all processes share: the segment, the eventfds that wake them, the pipe that ties them to the supervisor."""

from __future__ import annotations

import os

from fastqps._core import GENERATIONS, Segment, WakeFds, create_segment, plan
from fastqps.config.units import format_bytes
from fastqps.errors import ConfigError
from fastqps.supervisor.plan import Plan

GENERATION = 0  # the first of every model


class Shared:
    """Made once at start; the kernel frees it all when the last process is gone."""

    def __init__(self, server: Plan) -> None:
        """Raises ``ConfigError`` where the memory cannot be had."""
        sizes = server.sizes()
        self.sizes_text = _describe(server)
        try:
            self.segment_fd = create_segment(sizes)
        except (RuntimeError, OSError) as error:
            raise ConfigError(f"the shared segment ({self.sizes_text}): {error}; lower --slots") from None
        self.segment = Segment(self.segment_fd)
        self.wake_dispatchers = tuple(_eventfd() for _ in range(server.dispatchers))
        self.wake_doors = tuple(_eventfd() for _ in range(server.doors))
        self.wake_fds = WakeFds(dispatchers=list(self.wake_dispatchers), doors=list(self.wake_doors))
        self.parent_fd, self._own_end = os.pipe()
        self.segment.set_phase("starting")
        for model in range(len(server.cards)):
            self._set_model(server, model)

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that every child gets."""
        return (self.segment_fd, self.parent_fd, *self.wake_dispatchers, *self.wake_doors)

    def wake_everybody(self) -> None:
        """Has all processes look at the phase now."""
        for fd in (*self.wake_doors, *self.wake_dispatchers):
            os.eventfd_write(fd, 1)

    def close(self) -> None:
        """Closes the descriptors: whatever child were still alive would end now."""
        for fd in (*self.inherited, self._own_end):
            os.close(fd)

    def _set_model(self, server: Plan, model: int) -> None:
        card, room, config = server.cards[model], server.rooms[model], server.config
        assert config.lanes  # decided
        route = route_of(model)
        self.segment.set_model(model, card.name)
        self.segment.set_route(
            route,
            generation=GENERATION,
            task=card.task,
            activation=card.activation,
            normalize=card.normalize,
            dimensions=card.dimensions,
            vocab_size=card.vocab_size,
            max_input_tokens=card.max_input_tokens,
            max_queue_items=config.max_queue_items,
            max_output_tokens=card.max_output_tokens,
            prefix_tokens=len(card.prefix_ids),
            cache_slots=room.running * config.lanes,
            max_batch_items=room.items,
            max_batch_tokens=room.tokens,
            max_batch_delay_ns=config.max_batch_delay_ns,
            pair_type_id=card.second_segment_type,
            position_offset=card.position_offset,
            version=card.version,
            card_json=card.to_json(),
        )
        self.segment.set_route_state(route, "warming")


def route_of(model: int) -> int:
    """The route of a model's generation."""
    return int(model * GENERATIONS + GENERATION)


def _eventfd() -> int:
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def _describe(server: Plan) -> str:
    sizes, found = server.sizes(), plan(server.sizes())
    total = f"{found['total_bytes'] / (1 << 20):.1f} MiB"
    slot = f"{format_bytes(found['slot_stride'])} for {sizes.max_tokens} tokens and a {sizes.answer_bytes}-byte answer"
    return f"{total}: {sizes.doors} x {sizes.slots} slots of {slot}"
