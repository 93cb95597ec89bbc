"""Streams of tokens through an edge, whose clients go, and whose connection breaks again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from bad_network import BadNetwork
from busy import sees
from echo_generator import PACE, write_generator
from ledger import stub_to
from serving import Server
from upstream_state import edge_of

from fastqps.v1 import predict_pb2 as pb


class World(NamedTuple):
    """A server of the tests' echo generator, and an edge with one connection to it."""

    server: Server
    network: BadNetwork
    front: Server


@pytest.fixture(scope="module")
def world(module_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("echo")
    write_generator(folder)
    usual = (f"--model=echo={folder}", "--dispatchers=1", "--max-output-tokens=1000")
    server = module_server(*usual, "--frontdoors=1", echo=True)
    with BadNetwork(server.address) as network:
        yield World(server, network, edge_of(module_server, [network.address], *usual, "--lanes=1"))


async def test_streams(world: World) -> None:
    """Tokens are passed on as they come, and a generation ends on the server when its client goes."""
    server, _, front = world
    async with stub_to(front.address) as stub:
        request = pb.PredictRequest(
            token_ids={"ids": [1, 2, 3, 310]}, generate={"max_tokens": 1000, "ignore_eos": True}
        )
        with server.gate() as gate:
            held = pb.PredictRequest(token_ids={"ids": [7, 8, gate.id]})
            call = stub.Generate(held)
            assert list((await call.read()).token_ids) == [7], "the first token comes while the others do not"
        assert (await call.read()).token_ids[0] == 8
        calls = [stub.Generate(request) for _ in range(3)]
        for call in calls:
            assert (await call.read()).token_ids[0] == 1
        await sees(lambda: server.metrics()["fastqps_cache_slots_used"] == 3, "they run")
        for call in calls:
            call.cancel()
        await sees(lambda: not any(server.work().values()), "they end", 5)
        calls = [stub.Generate(request, timeout=1) for _ in range(3)]
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as expired:
                async for _ in call:
                    pass
            assert expired.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await sees(lambda: not any(server.work().values()), "they end", 5)


async def test_a_slow_suspect_holds_up_nobody(world: World) -> None:
    """A generation that has seen two connections break has the only server to itself for half a second."""
    _, network, front = world
    before = front.metrics()[f"fastqps_upstream_items_total{{sent,{network.address}}}"]

    def ask(*ids: int, **options: Any) -> pb.PredictRequest:
        return pb.PredictRequest(token_ids={"ids": ids}, generate=options)

    def sent() -> float:
        return front.metrics()[f"fastqps_upstream_items_total{{sent,{network.address}}}"] - before

    async with stub_to(front.address) as stub:
        slow = stub.Predict(ask(1, PACE + 10, max_tokens=300, ignore_eos=True))
        held = asyncio.ensure_future(asyncio.wait_for(slow, 60))
        for times in (1, 2):
            await sees(lambda times=times: sent() == times, f"it is sent {times} times")
            network.cut()
            await sees(lambda: not network.to_cut, "the connection is cut")
        await sees(lambda: sent() == 3, "it is sent alone")
        began = time.monotonic()
        assert list((await stub.Predict(ask(2, 3, max_tokens=9))).generation.token_ids)[:2] == [2, 3]
        took = time.monotonic() - began
        assert not held.done() and took < 2, f"{took:.2f} s; it is done: {held.done()}"
        assert list((await held).generation.token_ids) == [1] * 300
