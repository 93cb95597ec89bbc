"""The end of a server: what is open is finished, what comes later goes elsewhere, and a hurry is possible."""

from __future__ import annotations

import asyncio
import re
import signal
import time
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import psutil
import pytest
from busy import sees
from gates import Gate
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ledger import FORGOT, OK, Ledger, Load, channel_to, stub_to, unary
from serving import PATIENCE_S, Server, until
from tries import until_in_time

from fastqps.v1 import predict_pb2_grpc

SERVING, NOT_SERVING = 1, 2


def start_calls(stub: Any, ledger: Ledger, gate: Gate) -> list[asyncio.Task[str]]:
    """Four that last until the gate is open."""
    return [asyncio.create_task(unary(stub, ledger, gate.id)) for _ in range(4)]


async def running(server: Server, count: int) -> None:
    await sees(lambda: server.work()["fastqps_slots_used"] == count, f"{count} calls run")


def in_time(took_s: float, limit_s: float) -> str:
    return "" if took_s < limit_s else f"{took_s:.1f} s"


@pytest.mark.parametrize("lame_duck", ["0s", "500ms"])
async def test_no_call_fails(serve: Callable[..., Server], lame_duck: str) -> None:
    """Two servers at one address list: while one drains under load, at once or as a lame duck before, the clients move
    on and no call fails."""
    flags = ("--frontdoors=2", "--dispatchers=1", f"--lame-duck={lame_duck}")
    servers = [serve(*flags, echo=True) for _ in range(2)]
    ledger = Ledger()
    async with Load(f"ipv4:{servers[0].address},{servers[1].address}", ledger) as load:
        await load.more(300)
        # The first of the list, where it is quick to take them.
        goes, stays = sorted(servers, key=lambda server: -sum(server.connections()))
        assert sum(goes.connections()) + sum(stays.connections()) == 2
        goes.signal(signal.SIGTERM)
        await load.more(100)
        assert await asyncio.to_thread(goes.wait) == 0, goes.log()
        await load.more(300)
        assert sum(stays.connections()) == 2
        said = "draining.*stopped" if lame_duck == "0s" else "lame duck.*draining.*stopped"
        assert re.search(said, goes.log(), re.DOTALL), goes.log()
    ledger.check()


def test_a_signal_after_the_end_changes_nothing(serve: Callable[..., Server]) -> None:
    """From the last line of the log on the exit code is settled, while the process still goes away."""
    server = serve("--frontdoors=1", "--dispatchers=1")
    server.signal(signal.SIGTERM)
    until(lambda: server.lines[-1].endswith("supervisor: stopped"), "the last line")
    while server.running():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server.signal(number)
    assert server.wait() == 0


def test_a_front_door_leaves_its_threads_behind(serve: Callable[..., Server]) -> None:
    """One that is in native code when the door has done its work, because it loads a tokenizer, does not end it with
    a crash; nor does any process outlive a server that has ended cleanly."""

    def attempt() -> str:
        server = serve("--frontdoors=1", "--dispatchers=1", echo=True, env={"TEST_FRONTDOOR": "busy_frontdoor"})
        server.signal(signal.SIGTERM)
        assert server.wait() == 0, server.log()
        left_s = server.check_gone()
        assert "SIGABRT" not in server.log()
        return in_time(left_s, 1)

    until_in_time(attempt, tries=3)


async def test_open_calls_are_finished(serve: Callable[..., Server]) -> None:
    """The server says that it goes, takes nobody new in, and answers what it has."""
    server = serve("--frontdoors=1", "--dispatchers=1", echo=True)
    ledger = Ledger()
    states: list[int] = []  # that a health watch has heard
    async with channel_to(server.address) as channel:

        async def watch() -> None:
            changes = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            while (change := await changes.read()) is not grpc.aio.EOF:
                states.append(change.status)
            assert await changes.code() == grpc.StatusCode.UNAVAILABLE

        watching = asyncio.create_task(watch())
        with server.gate() as gate:
            calls = start_calls(predict_pb2_grpc.PredictServiceStub(channel), ledger, gate)
            await running(server, 4)
            for child in psutil.Process(server.pid).children():  # as a service manager does, which signals everybody
                child.terminate()
            server.signal(signal.SIGTERM)
            await sees(lambda: states == [SERVING, NOT_SERVING], "the watch's change")
            with pytest.raises(urllib.error.HTTPError) as page:
                server.page("/readyz")
            assert page.value.code == 503
            async with stub_to(server.address) as late:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await late.Predict(ledger.ask(), timeout=PATIENCE_S)
                assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
                ledger.ended(4, "UNAVAILABLE")
        await asyncio.gather(*calls)
        with suppress(grpc.aio.AioRpcError):  # read() raises it too where it comes first
            await watching
        assert await asyncio.to_thread(server.wait) == 0
    ledger.check("UNAVAILABLE")
    assert ledger.counts == {OK: 4, "UNAVAILABLE": 1}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_dispatcher_fails_meanwhile(serve: Callable[..., Server], number: signal.Signals) -> None:
    """Also a server that goes keeps its promises: one that is stopped is replaced as at any time."""
    server = serve("--frontdoors=1", "--dispatchers=1", echo=True)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = start_calls(stub, ledger, gate)
            await running(server, 4)
            server.signal(signal.SIGTERM)
            await sees(lambda: "draining" in server.log(), "the drain")
            server.child("dispatcher 0").send_signal(number)
        await asyncio.gather(*calls)
    assert await asyncio.to_thread(server.wait) == 0
    ledger.check()


async def stop_early(server: Server, then: Callable[[], None]) -> float:
    """SIGTERM while calls run that do not end, then what ``then`` does; the seconds until no process of the server was
    left."""
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = start_calls(stub, ledger, gate)
            await running(server, 4)
            start = time.monotonic()
            server.signal(signal.SIGTERM)
            await sees(lambda: "draining" in server.log(), "the drain")
            then()
            assert await asyncio.to_thread(server.wait) == 5, server.log()
            await asyncio.to_thread(server.check_gone)
            took = time.monotonic() - start
            await asyncio.gather(*calls)
    ledger.check("UNAVAILABLE")
    assert ledger.counts == {"UNAVAILABLE": 4}
    return took


def test_second_signal(serve: Callable[..., Server]) -> None:
    """It stops at once: what is open may take as long as it likes, and so may the drain."""

    def attempt() -> str:
        server = serve("--frontdoors=2", "--dispatchers=2", "--drain-timeout=10m", echo=True)
        return in_time(asyncio.run(stop_early(server, lambda: server.signal(signal.SIGTERM))), 2)

    until_in_time(attempt, tries=3)


def test_drain_timeout(serve: Callable[..., Server]) -> None:
    """What is open then is cut off, and the server ends soon."""

    def attempt() -> str:
        server = serve("--frontdoors=2", "--dispatchers=2", "--drain-timeout=500ms", echo=True)
        took_s = asyncio.run(stop_early(server, lambda: None))
        assert took_s > 0.5
        return in_time(took_s, 3)

    until_in_time(attempt, tries=3)


def test_stuck_dispatcher(serve: Callable[..., Server]) -> None:
    """Its device hangs: within the drain's time-out its requests are cut off, those of the other one are answered, and
    it is killed without being waited for."""

    def attempt() -> str:
        server = serve("--frontdoors=2", "--dispatchers=2", "--drain-timeout=3s", echo=True)
        return in_time(asyncio.run(drained_with_one_stuck(server)), 3 + 3)

    until_in_time(attempt, tries=3)


async def drained_with_one_stuck(server: Server) -> float:
    """A drain with a call that does not end and 20 that do; the seconds from its begin until the server was gone."""
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as never:
            stuck = asyncio.create_task(unary(stub, ledger, never.id))
            await running(server, 1)
            with server.gate() as gate:
                others = [asyncio.create_task(unary(stub, ledger, gate.id)) for _ in range(20)]
                await running(server, 21)
                server.signal(signal.SIGTERM)
                await sees(lambda: "draining" in server.log(), "the drain")
                start = time.monotonic()
            assert set(await asyncio.gather(*others)) == {OK}
            assert not stuck.done()
            assert await asyncio.to_thread(server.wait) == 5, server.log()
            took_s = time.monotonic() - start
            assert await stuck == "UNAVAILABLE"
    ledger.check("UNAVAILABLE")
    assert ledger.counts == {OK: 20, "UNAVAILABLE": 1}
    server.check_gone()
    return took_s


def test_endless_streams_end(serve: Callable[..., Server]) -> None:
    """A quiet stream ends soon, a busy one in half of the drain's time: with its answers and a status. Where a write
    meets the end grpc.aio forgets the status: then again."""

    def attempt() -> str:
        server = serve("--frontdoors=1", "--dispatchers=1", "--drain-timeout=5s", echo=True)
        try:
            quiet, busy = asyncio.run(drained_with_streams(server))
        except ForgottenError as error:
            return str(error)
        assert 2.4 < busy > quiet  # and before the drain's limit, or it had not ended with 0
        return ""

    until_in_time(attempt, tries=4)


class ForgottenError(Exception):
    """grpc.aio does not know any more how a call ended."""


async def drained_with_streams(server: Server) -> tuple[float, float]:
    """The seconds from SIGTERM to the ends of a quiet stream and of a busy one."""
    ledger, signalled = Ledger(), 0.0

    async def stream(stub: Any, pause_s: float) -> float:
        """Asks until the server ends the stream; the seconds that took after SIGTERM."""
        call = stub.PredictStream()
        waiting: asyncio.Queue[int] = asyncio.Queue()

        async def ask() -> None:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                while True:
                    await call.write(ledger.ask())
                    waiting.put_nowait(1)
                    await asyncio.sleep(pause_s)

        asking = asyncio.create_task(ask())
        with suppress(grpc.aio.AioRpcError):
            while (answer := await call.read()) is not grpc.aio.EOF:
                ledger.answered(answer.request_id, answer)
        asking.cancel()
        if await call.details() == FORGOT:
            raise ForgottenError(FORGOT)
        assert await call.code() == grpc.StatusCode.UNAVAILABLE
        assert "draining" in await call.details()
        return time.monotonic() - signalled

    async with stub_to(server.address) as stub:
        streams = [asyncio.create_task(stream(stub, pause)) for pause in (3600, 0.02)]
        await sees(lambda: len(ledger.counts) and ledger.counts[OK] > 5, "answers")
        signalled = time.monotonic()
        server.signal(signal.SIGTERM)
        quiet, busy = await asyncio.gather(*streams)
        assert await asyncio.to_thread(server.wait) == 0, server.log()
        return quiet, busy
