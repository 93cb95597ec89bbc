"""What a request asks beside its answer reaches the server behind an edge: deadline, cancel, class, tenant, group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from busy import order_of, sees
from ledger import CANCELLED, EXPIRED, Ledger, batch_of, stub_to, unary
from serving import Server
from upstream_state import edge_of

from fastqps.v1 import predict_pb2 as pb


@pytest.fixture(scope="module")
def servers(module_server: Callable[..., Server]) -> tuple[Server, Server]:
    """A server whose steps hold one item, and an edge in front of it."""
    server = module_server("--frontdoors=1", "--dispatchers=1", "--lanes=1", "--max-batch-items=1", echo=True)
    return server, edge_of(module_server, [server.address])


async def test_deadlines(servers: tuple[Server, Server]) -> None:
    """Those of calls, and of items of a batch by timeout_us. New servers know of no usual time yet."""
    server, front = servers
    ledger = Ledger()

    def gone() -> float:
        found = server.metrics()
        return sum(
            found.get(f"fastqps_items_total{{{code},minilm}}", 0) for code in (EXPIRED, CANCELLED)
        )  # whoever is first

    async with stub_to(front.address) as stub:
        with server.gate() as gate:
            holder = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(gate.reached, "the device is busy")
            requests = [ledger.ask(timeout_us=each) for each in (2_000_000, 0, 2_000_000)]
            before = gone()
            batch = asyncio.create_task(batch_of(stub, ledger, requests))
            calls = [asyncio.create_task(unary(stub, ledger, timeout=2)) for _ in range(3)]
            await sees(lambda: server.work()["fastqps_slots_used"] == 7, "they are there")
            await sees(lambda: gone() == before + 5, "they end there", 10)
        await asyncio.gather(holder, batch, *calls)
    assert ledger.counts == {"OK": 2, EXPIRED: 5}
    assert [ledger.ends[i] for i in (1, 2, 3)] == [EXPIRED, "OK", EXPIRED]
    server.until_idle()


async def test_cancels(servers: tuple[Server, Server]) -> None:
    """The server is rid of what waits there while its device is busy still."""
    server, front = servers
    ledger = Ledger()
    async with stub_to(front.address) as stub:
        before = server.metrics()
        with server.gate() as gate:
            holder = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(gate.reached, "the device is busy")
            calls = [asyncio.create_task(unary(stub, ledger)) for _ in range(9)]
            await sees(lambda: server.work()["fastqps_slots_used"] == 10, "they are there")
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await sees(lambda: server.work()["fastqps_slots_used"] <= 2, f"they go {server.metrics()}", 5)
        await holder
    await sees(lambda: not any(server.work().values()), "it is idle")
    count = server.metrics()[f"fastqps_items_total{{{CANCELLED},minilm}}"]
    assert count - before.get(f"fastqps_items_total{{{CANCELLED},minilm}}", 0) == 9
    assert ledger.counts == {"OK": 1, CANCELLED: 9}
    front.until_idle()


async def test_a_slow_server_is_no_stuck_edge(servers: tuple[Server, Server]) -> None:
    """The edge's own dispatcher answers canaries while all that it has waits for the server, and is not ended."""
    server, front = servers
    ledger = Ledger()
    dispatcher, stuck_s = front.child("dispatcher 0"), 5

    def answered() -> float:
        return front.metrics()["fastqps_canaries_total{0,answered}"]

    async with stub_to(front.address) as stub:
        with server.gate() as gate:
            calls = [asyncio.create_task(unary(stub, ledger, gate.id)) for _ in range(2)]
            await sees(gate.reached, "the device is busy")
            before = answered()
            await sees(lambda: answered() >= before + 2, "canaries are answered")
            await asyncio.sleep(stuck_s)
        await asyncio.gather(*calls)
    ledger.check()
    assert front.child("dispatcher 0") == dispatcher, front.log()
    assert front.metrics()["fastqps_restarts_total"] == 0, front.log()


async def test_classes(servers: tuple[Server, Server]) -> None:
    """Urgent requests that come last are served among the first."""
    kinds = [pb.PRIORITY_LOW] * 20 + [pb.PRIORITY_NORMAL] * 20 + [pb.PRIORITY_HIGH] * 18
    order = await order_of(servers[0], [{"priority": kind} for kind in kinds], servers[1].address)
    places = {kind: [place for place, number in enumerate(order) if kinds[number] == kind] for kind in set(kinds)}
    means = {kind: sum(found) / len(found) for kind, found in places.items()}
    assert means[pb.PRIORITY_HIGH] < means[pb.PRIORITY_NORMAL] < means[pb.PRIORITY_LOW], (means, order)
    waited = servers[0].metrics()
    assert all(waited[f"fastqps_class_wait_seconds_count{{{name},minilm}}"] >= 18 for name in ("high", "low")), waited


async def test_tenants_and_groups(servers: tuple[Server, Server]) -> None:
    """One tenant's many requests do not stand in front of another's few, and siblings stand together."""
    server, front = servers
    before = server.metrics()
    many = [{"tenant": "many"}] * 40
    order = await order_of(server, [*many, *[{"tenant": "few", "group": "siblings"}] * 4], front.address)
    places = [order.index(number) for number in range(40, 44)]
    assert max(places) < 30 and max(places) - min(places) < 5, order
    after = server.metrics()
    counts = [
        after[f"fastqps_tenant_items_total{{{name}}}"] - before.get(f"fastqps_tenant_items_total{{{name}}}", 0)
        for name in ("many", "few")
    ]
    assert counts == [40, 4], [(key, value) for key, value in after.items() if "tenant" in key]
