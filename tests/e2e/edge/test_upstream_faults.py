"""Servers behind an edge that die, hang, drain and come back. By the client's ledger nothing is lost, answered twice or
swapped, and no client sees an error while one server lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest
from ledger import OK, Ledger, Load, channel_to, unary
from server_faults import drained, killed, stopped
from serving import Server, until
from upstream_state import serving

from fastqps.v1 import predict_pb2_grpc


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def in_background(function: Callable[..., Any], *arguments: Any) -> Coroutine[Any, Any, Any]:
    return asyncio.to_thread(function, *arguments)


@pytest.mark.parametrize("fault", [killed, stopped, drained])
def test_one_of_two_goes(
    upstream: Callable[..., Server], edge: Callable[..., Server], fault: Callable[..., None]
) -> None:
    """Each request is answered, what the lost server had included."""
    first, second = upstream(), upstream()
    front = edge(first, second)
    ledger = Ledger()
    seen_s: list[float] = []

    async def scenario() -> None:
        async with Load(front.address, ledger) as load:
            await load.more(300)
            began = time.monotonic()
            await in_background(fault, first)
            await in_background(until, lambda: not serving(front, first.address), "it is seen")
            seen_s.append(time.monotonic() - began)
            await load.more(300)

    run(scenario())
    first.kill()
    ledger.check()
    print(f"seen after {seen_s[0]:.2f} s")
    assert front.metrics()["fastqps_items_total"] == ledger.sent


def test_rolling_restart(upstream: Callable[..., Server], edge: Callable[..., Server]) -> None:
    """Two servers restart, one after the other."""
    servers = [upstream(), upstream()]
    front = edge(*servers)
    ledger = Ledger()

    def again(address: str) -> Server:
        return upstream(f"--port={address.rpartition(':')[2]}")

    async def scenario() -> None:
        async with Load(front.address, ledger) as load:
            for i in range(2):
                await load.more(200)
                address = servers[i].address
                await in_background(servers[i].stop)
                await load.more(200)
                servers[i] = await in_background(again, address)
                await in_background(until, lambda address=address: serving(front, address), "it is back")

    run(scenario())
    ledger.check()


def test_all_down(upstream: Callable[..., Server], edge: Callable[..., Server]) -> None:
    """Without any server requests fail at once, with a hint, and succeed a second after its return."""
    server = upstream()
    front = edge(server)
    address = server.address
    server.kill()
    ledger = Ledger()

    async def scenario() -> None:
        async with channel_to(front.address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            await in_background(until, lambda: not serving(front, address), "it is seen")
            began = time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stub.Predict(ledger.ask(), timeout=30)
            took = time.monotonic() - began
            assert failed.value.code() == grpc.StatusCode.UNAVAILABLE, failed.value
            assert "no upstream" in str(failed.value.details())
            assert any(key == "grpc-retry-pushback-ms" for key, _ in failed.value.trailing_metadata())
            assert took < 1, took
            again = await in_background(lambda: upstream(f"--port={address.rpartition(':')[2]}"))
            began = time.monotonic()
            while await unary(stub, ledger) != OK:
                await asyncio.sleep(0.01)
            print("back after", time.monotonic() - began)
            assert again.running()

    run(scenario())


@pytest.mark.parametrize("worker", ["dispatcher 0", "frontdoor 0"])
def test_edge_worker_killed(upstream: Callable[..., Server], edge: Callable[..., Server], worker: str) -> None:
    """The edge's own processes die as those of every server: the servers behind it free what they had."""
    server = upstream()
    front = edge(server)
    ledger = Ledger()

    async def scenario() -> None:
        async with Load(front.address, ledger) as load:
            await load.more(200)
            old = front.child(worker)
            old.kill()
            await in_background(front.until_filled, worker, old)
            await load.more(200)

    run(scenario())
    ledger.check(*(["UNAVAILABLE"] if worker == "frontdoor 0" else []))
    server.until_idle()


def test_edge_killed(upstream: Callable[..., Server], edge: Callable[..., Server]) -> None:
    """A server is rid of what a lost edge had within two seconds."""
    server = upstream()
    front = edge(server)

    async def scenario() -> None:
        ledger = Ledger()
        with server.gate() as gate:
            async with channel_to(front.address) as channel:
                stub = predict_pb2_grpc.PredictServiceStub(channel)
                calls = [asyncio.create_task(unary(stub, ledger, gate.id)) for _ in range(8)]
                await in_background(until, lambda: server.work()["fastqps_slots_used"] == 8, "they are there")
                front.kill()
                await asyncio.gather(*calls)
        took = await in_background(until, lambda: not any(server.work().values()), "it is idle")
        print("idle after", took)

    run(scenario())
