"""Lanes: steps of one dispatcher that run side by side, and whose answers come in any order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from figures import Perf
from generators import Alone, Asked, requests, write_generator
from ledger import OK, Ledger, channel_to, unary
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps.v1 import predict_pb2_grpc

MAX_TOKENS = 3000  # of an answer: long enough to be met in the middle


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_slow_step_holds_up_only_its_lane(serve: Callable[..., Server], lanes: int) -> None:
    """What comes behind it is answered before it, where there is another lane."""
    server = serve("--dispatchers=1", f"--lanes={lanes}", echo=True)
    ledger = Ledger()

    async def scenario() -> None:
        async with channel_to(server.address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            assert await unary(stub, ledger) == OK
            with server.gate() as gate:
                slow = asyncio.create_task(unary(stub, ledger, gate.id))
                await asyncio.to_thread(until, lambda: server.claimed(1), "it runs")
                others = [asyncio.create_task(unary(stub, ledger)) for _ in range(20)]
                if lanes > 1:
                    assert set(await asyncio.gather(*others)) == {OK}
                    assert not slow.done()
                else:
                    await asyncio.to_thread(
                        until, lambda: server.work()["fastqps_requests_waiting"] == 20, "all others wait"
                    )
            assert set(await asyncio.gather(slow, *others)) == {OK}

    asyncio.run(scenario())
    ledger.check()
    server.until_idle()


def after_steps(server: Server, count: int) -> dict[str, float]:
    """The metrics, once so many steps are counted: a dispatcher answers first."""
    until(lambda: server.metrics()["fastqps_steps_total"] >= count, f"{count} steps\n{server.log()}")
    found = server.metrics()
    assert found["fastqps_steps_total"] == count
    return found


@pytest.mark.perf
def test_a_device_that_overlaps_steps_is_faster_with_lanes(
    serve: Callable[..., Server], tmp_path: Path, perf: Perf
) -> None:
    """Steps of 20 ms of which nothing occupies the device: four lanes run four of them in the time of one."""
    profile = write_profile(tmp_path / "overlaps.toml", {"fixed_us": 20_000, "per_token_us": 0, "overlap": 1.0})

    def took_s(lanes: int) -> float:
        flags = (f"--device=sim:{profile}", "--max-batch-items=1", "--dispatchers=1", f"--lanes={lanes}")
        server = serve(*flags, "--canary-interval=0")  # they keep the device busy, too
        with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
            client.predict("first")
            before, began = after_steps(server, 1), time.monotonic()
            client.predict_batch([f"text {i}" for i in range(48)])
            took_s = time.monotonic() - began
            after = after_steps(server, 1 + 48)
        busy_s = after["fastqps_device_busy_seconds_total"] - before["fastqps_device_busy_seconds_total"]
        assert 0.02 * 48 / lanes <= busy_s <= took_s + 0.05, "what overlaps keeps it busy once"
        return took_s

    one_s = took_s(1)
    assert one_s >= 0.96
    perf("rate with four lanes over one", lambda: one_s / took_s(4), at_least=2.5, tries=3)


def test_a_generators_lanes(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Each has its own sequences: more run than one lane holds. Those that are cancelled make room; all answers are
    right."""
    checkpoint = write_generator(tmp_path / "tiny")
    alone, items = Alone(checkpoint, MAX_TOKENS), requests(16, 24, seed=3)
    for asked in items:
        alone.answer(asked)  # not while others wait
    flags = ("--device=cpu", "--dtype=float32", f"--max-output-tokens={MAX_TOKENS}", "--max-running=3", "--slots=512")
    server = serve(f"--model={checkpoint}", *flags, "--dispatchers=1", "--lanes=3")

    async def main() -> None:
        async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S) as client:

            async def endless() -> None:
                while True:
                    async for _ in client.generate_stream("for ever", max_tokens=MAX_TOKENS, ignore_eos=True):
                        pass

            async def whole(asked: Asked) -> None:
                alone.check(asked, await client.generate(asked.prompt, **asked.options))

            running = [asyncio.create_task(endless()) for _ in range(9)]
            full = {"fastqps_cache_slots": 9, "fastqps_cache_slots_used": 9}
            await asyncio.to_thread(until, lambda: full.items() <= server.metrics().items(), "all lanes are full")
            for task in running[:6]:
                task.cancel()
            await asyncio.gather(*map(whole, items))
            for task in running:
                task.cancel()

    asyncio.run(main())
    server.until_idle()
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 0
