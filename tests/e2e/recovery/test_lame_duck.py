"""Before it drains a server may serve on for a while, though it is not ready any more: clients have time to go."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
from collections.abc import Callable

from busy import sees
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ledger import OK, Ledger, Load, channel_to, stub_to, unary
from serving import Server

SERVING, NOT_SERVING = 1, 2


def not_ready(server: Server) -> list[str]:
    """The reasons; empty: it is ready."""
    try:
        server.page("/readyz")
    except urllib.error.HTTPError as page:
        assert page.code == 503
        return list(json.loads(page.read())["reasons"])
    return []


async def test_serves_on(serve: Callable[..., Server]) -> None:
    """Its health says NOT_SERVING; old and new connections are served as ever, and a front door that dies comes back.
    A second signal stops it at once."""
    server = serve("--frontdoors=2", "--dispatchers=1", "--lame-duck=1m", echo=True)
    ledger = Ledger()
    async with channel_to(server.address) as channel, Load(server.address, ledger, channels=1) as load:
        health = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service="fastqps.v1.PredictService"))
        assert (await watch.read()).status == SERVING
        await load.more(50)
        server.signal(signal.SIGTERM)
        assert (await watch.read()).status == NOT_SERVING
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == NOT_SERVING
        assert "lame duck" in " ".join(await asyncio.to_thread(not_ready, server))
        assert json.loads(await asyncio.to_thread(server.page, "/livez"))["live"]
        await load.more(50)
        for _ in range(3):
            async with stub_to(server.address) as stub:
                assert await unary(stub, ledger) == OK
        assert set(ledger.counts) == {OK}
        old = server.child("frontdoor 0")
        old.kill()
        await asyncio.to_thread(server.until_filled, "frontdoor 0", old)
        await load.more(50)
    with server.gate() as gate:
        async with stub_to(server.address) as stub:
            held = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(gate.reached, "a request that lasts")
            server.signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.wait) == 5
            await held
    ledger.check("UNAVAILABLE")  # those of the door that was killed, and the one that was cut off
    assert "draining" in server.log() and "SIGTERM again" in server.log()
    server.check_gone()


async def test_connections_come_and_go(serve: Callable[..., Server]) -> None:
    """Clients are asked to connect again and again, and no call fails by it."""
    server = serve("--frontdoors=1", "--dispatchers=1", "--max-connection-age=400ms", echo=True)
    ledger = Ledger()

    def many() -> bool:
        return server.metrics()["fastqps_transport_events_total{goaways,0}"] >= 6

    async with Load(server.address, ledger) as load:
        await sees(many, "GOAWAYs")
        await load.more(100)
    ledger.check()
