"""Generations through an edge while one of two servers dies: each has its own tokens, or ends with a status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from busy import sees
from echo_generator import END, PACE
from echo_generator import write_generator as write_echo
from generators import Alone, joined, requests, write_generator
from ledger import channel_to, stub_to
from server_faults import drained, killed, stopped
from serving import PATIENCE_S, Server, until
from upstream_state import edge_of

import fastqps
from fastqps import AsyncClient
from fastqps.errors import CallError, InvalidArgument
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub as Stub

LONG = 200  # tokens
UNSEEDED = 400
GATED = (50, 390)  # of UNSEEDED: at the first gate all requests come to a server, at the second a server dies


def between(serve: Callable[..., Server], *flags: str, **options: Any) -> tuple[list[Server], Server]:
    """Two servers, and an edge in front of them."""
    servers = [serve(*flags, "--frontdoors=1", "--dispatchers=1", **options) for _ in range(2)]
    model = [flag for flag in flags if flag.startswith(("--model", "--max-output", "--max-input"))]
    return servers, edge_of(serve, [server.address for server in servers], *model)


def made(server: Server) -> float:
    return server.metrics()["fastqps_generated_tokens_total"]


def kill_busiest(servers: list[Server], tokens: float) -> Server:
    """Once one of them has made so many. Which it was."""
    until(lambda: max(map(made, servers)) > tokens, "tokens are made")
    busiest = max(servers, key=made)
    busiest.kill()
    return busiest


# How an edge sees that a server is lost or drains is the same for embeddings (test_upstream_faults.py).
@pytest.mark.parametrize(
    "fault", [killed, *(pytest.param(each, marks=pytest.mark.nightly) for each in (stopped, drained))]
)
async def test_streams_go_on(serve: Callable[..., Server], tmp_path: Path, fault: Callable[[Server], None]) -> None:
    """What a client has is not said again, nothing is left out, and the end is that of a server that lives."""
    write_echo(tmp_path / "echo")
    servers, edge = between(serve, f"--model=echo={tmp_path / 'echo'}", f"--max-output-tokens={LONG}", echo=True)
    begun = 0

    async def one(stub: Any, first: int, stream: bool) -> list[int]:
        nonlocal begun
        ids = [first, 7, 8, 9]
        request = pb.PredictRequest(
            token_ids={"ids": [*ids, PACE + 5]}, generate={"max_tokens": LONG, "ignore_eos": True}
        )
        if not stream:
            return list((await stub.Predict(request, timeout=PATIENCE_S)).generation.token_ids)
        found: list[int] = []
        async for chunk in stub.Generate(request, timeout=PATIENCE_S):
            begun += not found
            found += chunk.token_ids
        return found

    async with stub_to(edge.address) as stub:
        tasks = []
        for i in range(24):  # at once they were one message, to one server
            tasks.append(asyncio.create_task(one(stub, i, bool(i % 3))))
            await asyncio.sleep(0.01)
        await sees(lambda: begun == 16, "all streams have begun")
        assert all(map(made, servers)), "both have some"
        await asyncio.to_thread(fault, servers[0])
        for i, tokens in enumerate(await asyncio.gather(*tasks)):
            assert tokens == [i, 7, 8, 9] * (LONG // 4), (i, tokens)
    servers[0].kill()
    assert END not in range(24)
    edge.until_idle()
    servers[1].until_idle()


async def test_seeded_generations(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Greedy and sampled ones of a model, with stops and log-probabilities: the engine's, whoever dies. For sampled
    streams without a seed the edge draws one, so that they go on with the same tokens, too."""
    model = write_generator(tmp_path / "tiny")
    flags = ("--device=cpu", "--dtype=float32", "--max-running=16", f"--max-output-tokens={UNSEEDED}")
    env = {"TEST_DISPATCHER": "gated_dispatcher", "TEST_GATED": ",".join(map(str, GATED))}
    servers, edge = between(serve, *flags, f"--model={model}", "--canary-interval=0", echo=True, env=env)
    alone = Alone(model, LONG)
    asked = requests(24, 64, seed=3)
    unseeded = pb.PredictRequest(
        token_ids={"ids": [5, 6, 7]}, generate={"max_tokens": UNSEEDED, "temperature": 1.5, "ignore_eos": True}
    )
    failures: list[CallError] = []

    async def sampled(stub: Any) -> tuple[grpc.StatusCode, int]:
        call, tokens = stub.Generate(unseeded, timeout=PATIENCE_S), 0
        try:
            async for chunk in call:
                tokens += len(chunk.token_ids)
        except grpc.aio.AioRpcError as error:
            assert "other tokens" in (error.details() or ""), error
        return await call.code(), tokens

    async def one(client: AsyncClient, i: int) -> None:
        try:
            if i % 2:
                found = await client.generate(asked[i].prompt, **asked[i].options)
            else:
                found = joined([c async for c in client.generate_stream(asked[i].prompt, **asked[i].options)])
        except CallError as error:
            failures.append(error)
            return
        alone.check(asked[i], found)

    def held() -> dict[Server, float]:
        return {server: server.metrics()["fastqps_slots_used"] for server in servers}

    async with AsyncExitStack() as stack:
        gates = [[stack.enter_context(server.gate()) for _ in GATED] for server in servers]
        client = await stack.enter_async_context(AsyncClient(edge.address))
        channel = await stack.enter_async_context(channel_to(edge.address))
        streams = []
        for _ in range(6):  # at once they were one message, to one server
            streams.append(asyncio.create_task(sampled(Stub(channel))))
            await asyncio.sleep(0.01)
        await sees(lambda: sum(held().values()) == len(streams), "all streams are at a server")
        at = held()
        assert all(at.values()), at
        tasks = [asyncio.create_task(one(client, i)) for i in range(len(asked))]
        await sees(lambda: sum(held().values()) == len(streams) + len(tasks), "all requests are at a server")
        enough = max(map(made, servers)) + 100
        for first, _ in gates:
            first.open()
        moved = at[await asyncio.to_thread(kill_busiest, servers, enough)]
        for _, second in gates:
            second.open()
        await asyncio.gather(*tasks)
        ends = await asyncio.gather(*streams)
        lost = [tokens for code, tokens in ends if code == grpc.StatusCode.INTERNAL]
        whole = ends.count((grpc.StatusCode.OK, UNSEEDED))
        assert whole + len(lost) == len(ends), ends
        assert len(lost) < moved and all(tokens < UNSEEDED for tokens in lost), (moved, ends)
    assert all("other tokens" in str(error) for error in failures), failures
    assert len(failures) < 4, failures
    edge.until_idle()


def test_structures_go_along(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Texts with and without a structure through an edge have the engine's tokens, and what a server refuses is
    refused."""
    model = write_generator(tmp_path / "tiny")
    flags = ("--device=cpu", "--dtype=float32", "--max-output-tokens=64")
    _, edge = between(serve, *flags, f"--model={model}")
    asked: list[dict[str, Any]] = [{"regex": f"{i}(a|b){{2,8}}"} for i in range(20)] + [{} for _ in range(10)]
    asked += [{"json_object": True}, {"grammar": 'start: "x" /[0-9]+/'}, {"json_schema": {"enum": ["a", 12]}}]
    engine = fastqps.Engine(str(model), dtype="float32", max_output_tokens=64)
    want = [engine.generate(["The cat"], max_tokens=16, **options)[0].token_ids for options in asked]
    with fastqps.Client(edge.address) as client, ThreadPoolExecutor(16) as pool:

        def generate(options: dict[str, Any]) -> list[int]:
            return client.generate("The cat", max_tokens=16, **options).token_ids

        assert list(pool.map(generate, asked)) == want
        with pytest.raises(InvalidArgument, match=r"generate\.structure: .*strin"):
            client.generate("a", json_schema={"type": "strin"})
        with pytest.raises(InvalidArgument, match="at most 65536"):
            client.generate("a", regex="a" * 70_000)
