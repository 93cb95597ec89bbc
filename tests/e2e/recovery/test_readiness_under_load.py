"""Readiness and liveness say nothing of load: a server that is asked for five times what it can do stays ready."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from grpc_health.v1 import health_pb2, health_pb2_grpc
from ledger import channel_to
from profiles import write_profile
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

SERVING = 1
OK, RESOURCE_EXHAUSTED = 0, 8
OVERLOAD = 5
SECONDS = 2.0  # and as long as it takes to look so often
LOOKS = 10
STEP_MS, ITEMS = 20, 4  # 200 items a second, whatever the machine
AT_ONCE = 25  # items in a call


def test_five_times_overload(serve: Callable[..., Server], tmp_path: Path) -> None:
    """By a modelled device whose every step takes as long: most is refused, and health never changes."""
    profile = write_profile(tmp_path / "slow.toml", {"fixed_us": STEP_MS * 1000, "per_token_us": 0})
    capacity = ITEMS * 1000 / STEP_MS
    limits = (f"--max-batch-items={ITEMS}", "--max-queue-items=32")
    server = serve(f"--device=sim:{profile}", "--frontdoors=1", "--dispatchers=1", *limits)
    ends: Counter[int] = Counter()  # by gRPC code
    looks: Counter[tuple[str, object]] = Counter()

    async def scenario() -> None:
        async with channel_to(server.address) as channel, channel_to(server.address) as probe:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            health = health_pb2_grpc.HealthStub(probe)

            async def ask() -> None:
                items = [pb.PredictRequest(token_ids={"ids": [7]}) for _ in range(AT_ONCE)]
                answer = await stub.PredictBatch(pb.PredictBatchRequest(items=items))
                ends.update(item.status.code for item in answer.items)

            async def look() -> None:
                count = 0
                while time.monotonic() < start + SECONDS or count < LOOKS:
                    count += 1
                    for page in ("readyz", "livez"):
                        said = json.loads(await asyncio.to_thread(server.page, f"/{page}"))  # raises at 503
                        looks[page, said["ready" if page == "readyz" else "live"]] += 1
                    looks["health", (await health.Check(health_pb2.HealthCheckRequest())).status] += 1
                    await asyncio.sleep(0.02)

            start = time.monotonic()
            looking = asyncio.create_task(look())
            calls: list[asyncio.Task[None]] = []
            while (now := time.monotonic()) < start + SECONDS or not looking.done():
                due = int((now - start) * OVERLOAD * capacity / AT_ONCE)
                calls += [asyncio.create_task(ask()) for _ in range(due - len(calls))]
                await asyncio.sleep(0.005)
            await asyncio.gather(looking, *calls)

    asyncio.run(scenario())
    assert set(ends) == {OK, RESOURCE_EXHAUSTED}, ends
    assert ends[RESOURCE_EXHAUSTED] > ends[OK], ends  # four times as many, where nothing stands still
    assert set(looks) == {("readyz", True), ("livez", True), ("health", SERVING)}, looks
    assert len(set(looks.values())) == 1 and looks["livez", True] >= LOOKS, looks
    metrics = server.metrics()
    assert not metrics["fastqps_restarts_total"]
    assert metrics["fastqps_canaries_total{0,missed}"] == 0
