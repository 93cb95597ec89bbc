"""Processes that die or hang under load. By the client's ledger nothing is lost, answered twice or swapped; what died
is back soon; and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import urllib.error
from collections import Counter
from collections.abc import Callable

import pytest
from busy import sees
from channels import connect_in_turn
from ledger import OK, Ledger, Load, batch_of, channel_to, stub_to, unary
from leftovers import nothing_left
from serving import PATIENCE_S, Server, until

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

KILL_TOKEN = 29_999


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    """Whose processes die again and again, each fewer times than it is started again."""
    return module_server("--frontdoors=2", "--dispatchers=2", "--lanes=2", echo=True)


def restarts(server: Server, role: str) -> float:
    return server.metrics()[f"fastqps_restarts_total{{{role}}}"]


@pytest.mark.parametrize("worker", ["dispatcher 0", "dispatcher 1"])
async def test_dispatcher_killed(server: Server, worker: str) -> None:
    """Its requests run again elsewhere: every single one is answered."""
    ledger, died = Ledger(), restarts(server, "dispatcher")
    async with nothing_left(server) as before:
        old = before[worker]
        async with Load(server.address, ledger) as load:
            await load.more(200)
            old.kill()
            await asyncio.to_thread(server.until_filled, worker, old)
            await load.more(200)
    ledger.check()
    assert restarts(server, "dispatcher") == died + 1


async def test_dispatcher_stopped(server: Server) -> None:
    """A stopped process is seen, killed and replaced; nothing that it held is lost."""
    ledger = Ledger()
    async with nothing_left(server) as before:
        old = before["dispatcher 1"]
        async with Load(server.address, ledger) as load:
            await load.more(200)
            old.suspend()
            await sees(lambda: not old.is_running(), "it is killed")
            await asyncio.to_thread(server.until_filled, "dispatcher 1", old)
            await load.more(200)
    ledger.check()
    silent = re.search(r"killing dispatcher 1 .*no sign of life for ([\d.]+) s", server.log())
    assert silent and float(silent[1]) < 2, server.log()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_front_door(server: Server, number: signal.Signals) -> None:
    """Calls on its own connections end UNAVAILABLE; those of the other front door do not notice."""
    ledger, died = Ledger(), restarts(server, "frontdoor")
    async with nothing_left(server) as before:
        old = before["frontdoor 0"]
        load = Load(server.address, ledger, channels=4)
        doors = await connect_in_turn(server, load.channels)
        stub = predict_pb2_grpc.PredictServiceStub(load.channels[0])
        async with load:
            await load.more(200)
            with server.gate() as gate:  # nothing waits for the load meanwhile: all of it may be in the gate's batch
                open_call = asyncio.create_task(unary(stub, ledger, gate.id))
                await sees(gate.reached, "it runs")
                old.send_signal(number)
                await sees(lambda: not old.is_running(), "it is gone")
                assert await open_call == "UNAVAILABLE"
            await asyncio.to_thread(server.until_filled, "frontdoor 0", old)
            await load.more(200)
        for door, ends in zip(doors, load.ledgers_of, strict=True):
            assert ends.keys() <= ({OK} if door == 1 else {OK, "UNAVAILABLE"}), (door, ends)
    ledger.check("UNAVAILABLE")
    assert restarts(server, "frontdoor") == died + 1


async def test_all_children_killed(server: Server) -> None:
    """Front doors and dispatchers at once: open calls end, and the next ones are served."""
    ledger = Ledger()
    async with nothing_left(server) as before, Load(server.address, ledger) as load:
        await load.more(200)
        for process in before.values():
            process.kill()
        for worker, process in before.items():
            await asyncio.to_thread(server.until_filled, worker, process)
        await load.more(200)
    ledger.check("UNAVAILABLE")


async def test_supervisor_killed(serve: Callable[..., Server]) -> None:
    """Every child dies with it, the ports are free, and a fresh server starts at once."""
    server = serve("--frontdoors=2", "--dispatchers=2", echo=True)
    ledger = Ledger()
    async with Load(server.address, ledger) as load:
        await load.more(100)
        os.kill(server.pid, signal.SIGKILL)
        await asyncio.to_thread(server.check_gone)
    ledger.check("UNAVAILABLE")
    server.kill()
    ports = [f"--port={server.address.split(':')[1]}", f"--admin-port={server.admin.split(':')[1]}"]
    fresh = serve("--frontdoors=2", "--dispatchers=2", *ports, echo=True)
    assert fresh.address == server.address
    async with Load(fresh.address, ledger) as load:
        await load.more(50)
    ledger.check("UNAVAILABLE")


# ---- a request that kills


def all_in(server: Server, count: int) -> bool:
    """Whether so many are in the server, wherever: its dispatcher may claim a full batch ahead."""
    return server.work()["fastqps_slots_used"] == count


async def together(server: Server, ledger: Ledger, requests: list[pb.PredictRequest]) -> None:
    """Sends them so that they share a batch: while the only dispatcher is busy."""
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            first = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(lambda: server.claimed(1), "the first")
            others = asyncio.create_task(batch_of(stub, ledger, requests))
            await sees(lambda: all_in(server, 1 + len(requests)), "the others are in")
        await asyncio.gather(first, others)


@pytest.fixture
def mortal(serve: Callable[..., Server]) -> Callable[..., Server]:
    """A server whose dispatchers die of one token id."""

    def start(*flags: str) -> Server:
        env = {"FASTQPS_TEST_KILL_TOKEN": str(KILL_TOKEN)}
        return serve("--frontdoors=2", "--dispatchers=1", *flags, echo=True, env=env)

    return start


@pytest.mark.parametrize("lanes", [1, 2])
async def test_poison(mortal: Callable[..., Server], lanes: int) -> None:
    """It is given up and refused from then on, at every front door; its batch-mates are answered rightly."""
    server = mortal(f"--lanes={lanes}")
    ledger = Ledger()
    requests = [ledger.ask(*([KILL_TOKEN] if i == 3 else [])) for i in range(7)]
    await together(server, ledger, requests)
    poison = requests[3]
    assert ledger.ends[poison.request_id] == "INTERNAL" and "broke" in ledger.texts[poison.request_id]
    assert [ledger.ends[r.request_id] for r in requests if r is not poison] == [OK] * 6
    ledger.check("INTERNAL")
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 2  # with its mates, and alone
    assert "poison request" in server.log()
    channels = [channel_to(server.address) for _ in range(2)]
    await connect_in_turn(server, channels)
    for channel in channels:
        stub = predict_pb2_grpc.PredictServiceStub(channel)
        answer = await stub.PredictBatch(pb.PredictBatchRequest(items=[poison, requests[0]]))
        assert answer.items[0].status.code == 13 and "refused" in answer.items[0].status.message
        assert not answer.items[1].status.code
        await channel.close()
    server.until_idle()
    metrics = server.metrics()
    assert metrics["fastqps_restarts_total{dispatcher}"] == 2
    assert metrics["fastqps_rejected_total{poison}"] == 2 and metrics["fastqps_poisoned_total"] == 1


async def test_no_rerun(mortal: Callable[..., Server]) -> None:
    """With --rerun=off nothing runs twice: who was in the batch hears INTERNAL, who waited is answered."""
    server = mortal("--rerun=off", "--max-batch-items=4")
    ledger = Ledger()
    requests = [ledger.ask(*([KILL_TOKEN] if i == 0 else [])) for i in range(6)]
    await together(server, ledger, requests)
    ends = Counter(ledger.ends[r.request_id] for r in requests)
    assert ends == {"INTERNAL": 4, OK: 2}
    assert ledger.ends[requests[0].request_id] == "INTERNAL"
    ledger.check("INTERNAL")
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 1
    server.until_idle()


async def test_no_dispatcher_left(mortal: Callable[..., Server]) -> None:
    """When every dispatcher has died too often, who waits hears it, and who comes is refused at once."""
    server = mortal("--rerun=off", "--max-batch-items=1", "--default-timeout=0")
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        # Up to two die with one process; the sixth death is the last.
        with server.gate() as gate:
            first = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(lambda: server.claimed(1), "the first")
            deadly = [asyncio.create_task(unary(stub, ledger, KILL_TOKEN)) for _ in range(12)]
            await sees(lambda: all_in(server, 13), "12 more are in")
            others = [asyncio.create_task(unary(stub, ledger)) for _ in range(3)]
            await sees(lambda: all_in(server, 16), "3 more are in")
        assert set(await asyncio.gather(*deadly)) <= {"INTERNAL", "UNAVAILABLE"}
        assert await asyncio.wait_for(asyncio.gather(*others), PATIENCE_S) == ["UNAVAILABLE"] * 3
        assert await asyncio.wait_for(unary(stub, ledger), PATIENCE_S) == "UNAVAILABLE"
        await first  # answered, unless its dispatcher died before it had said so
    ledger.check("INTERNAL", "UNAVAILABLE")
    assert "no dispatcher" in ledger.texts[ledger.sent - 1]
    with pytest.raises(urllib.error.HTTPError) as page:
        server.page("/livez")
    assert page.value.code == 503
    until(lambda: not server.work()["fastqps_slots_used"], "no slot in use")
