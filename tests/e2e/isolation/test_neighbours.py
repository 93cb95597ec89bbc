"""Nobody is refused, and nobody starves, for somebody else's load: classes, tenants and groups over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from busy import occupied, order_of, sees
from echo_dispatcher import SLOW
from ledger import REFUSED, Ledger, channel_to, stub_to, unary
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

Stub = predict_pb2_grpc.PredictServiceStub
FULL_SOON = ("--frontdoors=1", "--dispatchers=1", "--max-batch-items=4", "--max-queue-items=32")
ONE_BY_ONE = ("--frontdoors=1", "--dispatchers=1", "--max-batch-items=1", "--max-queue-items=512")
LOW, NORMAL, HIGH = pb.PRIORITY_LOW, pb.PRIORITY_NORMAL, pb.PRIORITY_HIGH


async def insist(stub: Any, ledger: Ledger, over: asyncio.Event, **fields: Any) -> None:
    """One call after the other, each of a slow step."""
    while not over.is_set():
        if await unary(stub, ledger, SLOW + 1, **fields) == REFUSED:
            await asyncio.sleep(0.01)


async def test_a_flood_of_low_refuses_no_higher_class(shared_server: Callable[..., Server]) -> None:
    """LOW has filled the queue over the same connection. What comes above it is let in, and served first."""
    server = shared_server(*FULL_SOON, echo=True)
    low, above = Ledger(), Ledger()
    output = {"dimensions": 5}

    def accounted() -> float:
        return low.counts[REFUSED] + server.work()["fastqps_requests_waiting"]

    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = [await occupied(server, stub, low, gate)]
            calls += [asyncio.create_task(unary(stub, low, priority=LOW, output=dict(output))) for _ in range(200)]
            await sees(lambda: low.counts[REFUSED] and accounted() == 200, "all are in or out")
            calls += [
                asyncio.create_task(unary(stub, above, priority=which, output=dict(output)))
                for which in (HIGH, NORMAL)
                for _ in range(8)
            ]
            await sees(lambda: above.ends or accounted() == 216, "they are in, or one of them is out")
        await asyncio.gather(*calls)
    above.check()
    low.check(REFUSED)
    behind = sorted(low.steps.values())
    assert max(above.steps.values()) <= behind[len(behind) // 2]


@pytest.mark.parametrize("kept_in", ["field", "metadata", "connection"])
async def test_a_quiet_tenant_beside_a_flood(shared_server: Callable[..., Server], kept_in: str) -> None:
    """Only the one that asks for more than there is room for is refused, over whatever connection both come."""
    server = shared_server(*FULL_SOON, echo=True)
    loud, quiet, refused = Ledger(), Ledger(), "fastqps_rejected_total{tenant}"
    before = server.metrics()[refused]

    class Tenant:
        """Its calls, by the field of a request or by the metadata of a call."""

        def __init__(self, channel: Any, name: str) -> None:
            self._stub, self._name = Stub(channel), name

        def Predict(self, request: pb.PredictRequest, timeout: float | None) -> Any:
            if kept_in == "metadata":
                return self._stub.Predict(request, timeout=timeout, metadata=(("fastqps-tenant", self._name),))
            return self._stub.Predict(request, timeout=timeout)

        @property
        def fields(self) -> dict[str, str]:
            return {"tenant": self._name} if kept_in == "field" else {}

    async with channel_to(server.address) as channel, channel_to(server.address) as other:
        over = asyncio.Event()
        flooding = Tenant(channel, "loud")
        asking = Tenant(other if kept_in == "connection" else channel, "quiet")
        callers = [asyncio.create_task(insist(flooding, loud, over, **flooding.fields)) for _ in range(64)]
        await sees(lambda: loud.counts[REFUSED], "the queue is full")
        for _ in range(20):
            await unary(asking, quiet, **asking.fields)
        over.set()
        await asyncio.gather(*callers)
    quiet.check()
    loud.check(REFUSED)
    assert server.metrics()[refused] > before


async def test_siblings_stand_together(shared_server: Callable[..., Server]) -> None:
    """Strangers of other tenants came between the first sibling and the others, and are served behind them all."""
    server = shared_server(*ONE_BY_ONE, echo=True)
    strangers = [{"tenant": f"stranger {i % 4}"} for i in range(24)]
    sibling = {"tenant": "family", "group": "parent"}
    # Those in front fill the short ring that the dispatcher takes from: what is there already keeps its place.
    order = await order_of(server, [*strangers, sibling, *strangers, *[sibling] * 7])
    places = [order.index(number) for number in (24, *range(49, 56))]
    assert max(places) - min(places) == 7, places
    assert max(places) < 40, places


async def test_a_group_beyond_its_bound_waits(shared_server: Callable[..., Server]) -> None:
    """More siblings than may stand together are no error."""
    server = shared_server(*ONE_BY_ONE, echo=True)
    order = await order_of(server, [{"group": "parent"} if i % 3 else {} for i in range(300)])
    assert sorted(order) == list(range(300))
