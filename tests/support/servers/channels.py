"""Channels whose connections are at front doors that a test knows."""

from __future__ import annotations

import asyncio

import grpc
from ledger import channel_to
from serving import Server, until

TRIES = 20


async def connect(server: Server, channel: grpc.aio.Channel) -> int:
    """Opens the channel's connection; the front door that took it."""
    before = server.connections()

    def grown() -> list[int]:
        return [i for i, (old, new) in enumerate(zip(before, server.connections(), strict=True)) if new > old]

    await channel.channel_ready()
    await asyncio.to_thread(until, grown, f"a front door takes the connection: {before}")
    return grown()[0]


async def connect_in_turn(server: Server, channels: list[grpc.aio.Channel]) -> list[int]:
    """Opens the channels of an idle server's clients so that its front doors have them in turn; their doors. A channel
    that comes to another door is replaced."""
    doors = len(server.connections())
    for i in range(len(channels)):
        for _ in range(TRIES):
            await asyncio.sleep(0.2)  # a front door that sleeps looks at the others' numbers each tenth of a second
            if await connect(server, channels[i]) == i % doors:
                break
            await channels[i].close()
            await asyncio.to_thread(until, lambda open_=i: sum(server.connections()) == open_, "it is closed")
            channels[i] = channel_to(server.address)
        else:
            raise AssertionError(f"none of {TRIES} connections came to front door {i % doors}")
    return [i % doors for i in range(len(channels))]
