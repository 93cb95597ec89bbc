"""The lane of a server's first dispatcher in this process, and an encoder's steps of equal texts on it."""

from __future__ import annotations

import os
from typing import Any

from bench.gpu.decode_mix import Made
from bench.gpu.inprocess import fill
from fastqps.config import decide, load
from fastqps.devices import make_runner
from fastqps.runners.lane import Lane, make_lane
from fastqps.supervisor.plan import make_plan


def open_lane(settings: dict[str, Any]) -> Lane[Any]:
    """The model on the device, as a dispatcher of a server with these settings would have them."""
    config = decide(load(settings, os.environ, None).config)
    plan = make_plan(config)
    room = plan.rooms[0]
    runner = make_runner(
        plan.devices[0].spec,
        plan.cards[0],
        room.items,
        room.tokens,
        dtype=config.dtype,
        quantization=config.quantization,
        kernels=config.kernels,
        threads=plan.threads,
    )
    return make_lane(runner, 1)


def equal_texts(lane: Lane[Any], items: int, length: int) -> Made:
    """Fills the next step's buffers; the three numbers that its launch takes."""
    runner = lane.runners[0]
    fill(runner.buffers(), runner.card.vocab_size, runner.card.position_offset, items, length)
    return items, items * length, items
