"""Canaries: the server's own requests, by which dispatchers that nobody asks anything show that they get on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from ledger import Ledger, Load
from serving import Server, until

COUNTED = (
    "fastqps_items_total",
    "fastqps_steps_total",
    "fastqps_step_items_total",
    "fastqps_batch_items_count",
    "fastqps_batch_tokens_count",
    "fastqps_stage_duration_seconds_count",
    "fastqps_generated_tokens_total",
    "fastqps_queue_wait_seconds_total",
    "fastqps_slots_used",
    "fastqps_requests_waiting",
)


def check_canaries(server: Server, dispatchers: int) -> None:
    """Each dispatcher answers some, and they are nobody's traffic."""
    for dispatcher in range(dispatchers):
        until(
            lambda d=dispatcher: answered_by(server.metrics(), d, "answered") >= 3,
            f"canaries of dispatcher {dispatcher}\n{server.log()}",
        )
    metrics = server.metrics()
    assert not [name for name in COUNTED if metrics.get(name, 0)]
    assert metrics["fastqps_canaries_total"] == sum(answered_by(metrics, d, "answered") for d in range(dispatchers))
    for dispatcher in range(dispatchers):
        until(
            lambda d=dispatcher: 0 <= server.metrics()[f"fastqps_canary_age_seconds{{{d}}}"] < 1,
            f"a young canary of dispatcher {dispatcher}",
        )
    assert not metrics["fastqps_restarts_total"]


def answered_by(metrics: dict[str, float], dispatcher: int, outcome: str) -> float:
    return metrics[f"fastqps_canaries_total{{{dispatcher},{outcome}}}"]


async def test_encoders_and_generators(serve: Callable[..., Server]) -> None:
    """Two front doors, two models, lanes, a batch delay: and clients between canaries are served as ever."""
    models = ("--model=minilm", "--model=grammar")
    batches = ("--lanes=2", "--max-batch-delay=5ms")
    server = serve(*models, *batches, "--frontdoors=2", "--dispatchers=1", "--canary-interval=50ms", echo=True)
    check_canaries(server, 2)
    ledger = Ledger()
    async with Load(server.address, ledger, pause_s=0.03) as load:
        await load.more(100)
    ledger.check()
    assert server.metrics()["fastqps_items_total{OK,minilm}"] == ledger.sent
    server.until_idle()


def test_a_device_with_a_cache(serve: Callable[..., Server]) -> None:
    flags = ("--device=cpu", "--model=grammar", "--frontdoors=1", "--dispatchers=1")
    check_canaries(serve(*flags, "--canary-interval=50ms"), 1)


async def test_stuck_loop(serve: Callable[..., Server]) -> None:
    """A dispatcher whose heart beats, but which takes no requests, is replaced though nobody asks it anything; what
    clients ask meanwhile is answered by the other one."""
    server = serve("--frontdoors=2", "--dispatchers=2", "--canary-interval=100ms", echo=True)
    check_canaries(server, 2)
    old = server.child("dispatcher 0")
    old.send_signal(signal.SIGUSR2)
    until(lambda: answered_by(server.metrics(), 0, "missed") >= 1, f"a miss\n{server.log()}")
    ledger = Ledger()
    async with Load(server.address, ledger) as load:
        await load.more(50)
        await asyncio.to_thread(server.until_filled, "dispatcher 0", old)
        await load.more(50)
    ledger.check()
    assert "killing dispatcher 0 (null)" in server.log() and "takes no requests" in server.log()
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 1
    server.until_idle()
