"""Requests whose connection breaks again and again: they run alone, but not for as long as they like."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bad_network import BadNetwork
from echo_generator import PACE, write_generator
from ledger import channel_to
from serving import Server, until
from upstream_state import serving

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub as Stub


def test_a_slow_suspect_holds_up_nobody(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A generation that has seen two connections break has the only server to itself for half a second."""
    write_generator(tmp_path / "echo")
    usual = (f"--model=echo={tmp_path / 'echo'}", "--frontdoors=1", "--dispatchers=1", "--max-output-tokens=1000")
    server = serve(*usual, echo=True)

    async def sees(condition: Callable[[], object], what: str) -> None:
        await asyncio.to_thread(until, condition, what)

    async def scenario(network: BadNetwork, front: Server) -> None:
        def ask(*ids: int, **options: Any) -> pb.PredictRequest:
            return pb.PredictRequest(token_ids={"ids": ids}, generate=options)

        def sent() -> float:
            return front.metrics()[f"fastqps_upstream_items_total{{sent,{network.address}}}"]

        async with channel_to(front.address) as channel:
            stub = Stub(channel)
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

    with BadNetwork(server.address) as network:
        front = serve(*usual, "--device=remote", "--lanes=1", f"--upstream={network.address}")
        until(lambda: serving(front, network.address), "it serves")
        asyncio.run(scenario(network, front))
        front.until_idle()
    server.until_idle()
