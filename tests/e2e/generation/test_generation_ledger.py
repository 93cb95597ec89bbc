"""Generations at random through a whole server: arrivals, cancels, deadlines, stop strings and deaths of dispatchers.

Every request has a text of its own, which comes back: whole, or up to where its stop string, its deadline or its client
ended it, and never a byte of another's.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
from echo_generator import PACE, write_generator
from ledger import CANCELLED, EXPIRED, OK, REFUSED
from leftovers import nothing_left
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

REQUESTS = int(os.environ.get("FASTQPS_GENERATIONS", "2000"))
AT_ONCE = 150
INTERNAL = "INTERNAL"


class Generations:
    """What was asked, and how it ended."""

    def __init__(self, seed: int) -> None:
        self.ends: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()
        self._chance = random.Random(seed)

    async def one(self, stub: Any, number: int) -> None:
        chance = self._chance
        text = f"{number}:" + "".join(chance.choices("abcdé€🙂 ", k=chance.randrange(60)))
        stop = text[len(text) // 2 :][:3] if chance.random() < 0.3 else ""
        request = pb.PredictRequest(
            token_ids={"ids": [PACE + chance.randrange(4), *text.encode()]},
            request_id=number,
            generate={"stop": ["never", stop] if stop else []},
        )
        wanted = text[: text.index(stop)] if stop else text
        timeout = chance.uniform(0.002, 0.3) if chance.random() < 0.2 else None
        how = chance.random()
        try:
            if how < 0.25:
                answer = await stub.Predict(request, timeout=timeout)
                assert (answer.request_id, answer.generation.text) == (number, wanted)
                self.ends[OK] += 1
            else:
                await self._stream(stub.Generate(request, timeout=timeout), number, wanted, cancel=how > 0.9)
        except grpc.aio.AioRpcError as error:
            self.ends[error.code().name] += 1
            self.texts[error.code().name + ": " + re.sub(r"\d+", "#", error.details() or "")] += 1

    async def _stream(self, call: Any, number: int, wanted: str, *, cancel: bool) -> None:
        found, finish, tokens, used = "", 0, 0, 0
        async for chunk in call:
            assert not finish, "a chunk behind the last one"
            assert chunk.request_id == number
            found += chunk.text
            assert wanted.startswith(found), (wanted, found)
            tokens += len(chunk.token_ids)
            finish, used = chunk.finish_reason, chunk.usage.output_tokens
            if cancel:
                call.cancel()
                self.ends[CANCELLED] += 1
                return
        assert (found, finish, used) == (wanted, pb.FINISH_REASON_STOP, tokens)
        self.ends[OK] += 1


async def load(server: Server, generations: Generations, deaths: tuple[int, ...] = ()) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    channels = [grpc.aio.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(4)]
    for channel in channels:
        await channel.channel_ready()
    stubs = [predict_pb2_grpc.PredictServiceStub(channel) for channel in channels]
    killed: list[psutil.Process] = []

    async def one(number: int) -> None:
        async with room:
            if number in deaths:
                if killed:
                    await asyncio.to_thread(server.until_filled, "dispatcher 0", killed[-1])
                killed.append(server.child("dispatcher 0"))
                killed[-1].kill()
            await generations.one(stubs[number % len(stubs)], number)

    await asyncio.gather(*map(one, range(REQUESTS)))
    for channel in channels:
        await channel.close()


async def test_generations_end_rightly_and_deaths_end_only_what_had_begun(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    write_generator(tmp_path)
    flags = ("--frontdoors=2", "--dispatchers=2", "--lanes=2", "--max-output-tokens=300", "--max-running=64")
    server = serve(f"--model=echo={tmp_path}", *flags, "--max-queue-items=400", echo=True)
    for seed, deaths in ((1, ()), (2, (600, 1300))):
        generations = Generations(seed)
        async with nothing_left(server):
            await load(server, generations, deaths)
        print(generations.ends, generations.texts)
        assert generations.ends.total() == REQUESTS and generations.ends[OK] > REQUESTS // 2
        assert generations.ends[EXPIRED] and generations.ends[CANCELLED]
        assert set(generations.ends) <= {OK, EXPIRED, CANCELLED, REFUSED, *([INTERNAL] if deaths else [])}
        assert bool(deaths) <= generations.ends[INTERNAL] <= 64 * len(deaths)
        assert server.metrics()["fastqps_restarts_total"] == len(deaths)
