"""Load with a ledger: every request is different, every answer is checked against its request, every end is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from echo_dispatcher import echo
from serving import PATIENCE_S

from fastqps import Engine
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

OK, REFUSED, EXPIRED, CANCELLED = "OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "CANCELLED"
FORGOT = "Internal error from Core"  # details of a call whose write met its end: grpc.aio has forgotten the status
CODES = {code.value[0]: code.name for code in grpc.StatusCode}
FIRST_MAX = 20_000  # ids above it mean something to the server under test
# Calls to the same address share a connection otherwise; who lost its door comes back soon. Not the least time from one
# try to the next: that is how long a connection may take, and a busy machine keeps one waiting.
CHANNEL_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]


@dataclass
class Ledger:
    """What was sent, and how each of it ended. Requests are told by their first and last id."""

    ends: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)  # of the ends that are no answers
    twice: list[int] = field(default_factory=list)
    swapped: list[str] = field(default_factory=list)
    steps: dict[int, float] = field(default_factory=dict)  # the dispatcher's, of answers with a fifth value
    _requests: dict[int, list[int]] = field(default_factory=dict)

    def ask(self, *middle: int, **fields: Any) -> pb.PredictRequest:
        """A new request; ``middle``: ids with a meaning for the server under test."""
        number = len(self._requests)
        ids = [number % FIRST_MAX, *middle, *[7] * (number % 5), number // FIRST_MAX]
        self._requests[number] = ids
        output = {"dimensions": 4, "normalize": False, **fields.pop("output", {})}
        return pb.PredictRequest(request_id=number, token_ids={"ids": ids}, output=output, **fields)

    def answered(self, number: int, response: pb.PredictResponse) -> None:
        """An answer, or an item's status, for that request."""
        if response.request_id != number:
            self.swapped.append(f"{number} got the answer of {response.request_id}")
        elif response.HasField("status") and response.status.code:
            return self.ended(number, CODES[response.status.code], response.status.message)
        ids = self._requests[number]
        found, step = list(response.embedding.values[:4]), response.embedding.values[4:5]
        if step:
            self.steps[number] = step[0]
        if found != echo(ids) or response.usage.input_tokens != len(ids):
            self.swapped.append(f"{number}: {found} is not {echo(ids)}")
        return self.ended(number, OK)

    def ended(self, number: int, code: str, text: str = "") -> None:
        if number in self.ends:
            self.twice.append(number)
        self.ends[number] = code
        if code != OK:
            self.texts[number] = text

    @property
    def sent(self) -> int:
        return len(self._requests)

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.ends.values())

    def check(self, *allowed: str) -> None:
        """Everything that was sent has ended exactly once, with its own answer or in one of the allowed ways."""
        lost = sorted(self._requests.keys() - self.ends.keys())
        assert not lost, f"lost {len(lost)} of {self.sent}: {lost[:9]}; {self.counts}"
        assert not self.twice and not self.swapped, (self.twice[:9], self.swapped[:9])
        assert sum(self.counts.values()) == self.sent
        other = {n: (code, self.texts.get(n)) for n, code in self.ends.items() if code not in (OK, *allowed)}
        assert not other, (self.counts, list(other.items())[:5])


class VectorLedger(Ledger):
    """Answers are the model's own: at the end each is held against the same model on the CPU, asked alone."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._engine = Engine(model, device="cpu", dtype="float32")
        self._answers: dict[int, list[float]] = {}

    def answered(self, number: int, response: pb.PredictResponse) -> None:
        if response.request_id == number and not response.status.code:
            self._answers[number] = list(response.embedding.values)
            return self.ended(number, OK)
        return super().answered(number, response)

    def check(self, *allowed: str) -> None:
        super().check(*allowed)
        numbers = sorted(self._answers)
        expected = self._engine.predict([self._requests[number] for number in numbers])
        for number, row in zip(numbers, expected, strict=True):
            np.testing.assert_allclose(self._answers[number], np.asarray(row)[:4], rtol=0, atol=1e-4)


def channel_to(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)


@asynccontextmanager
async def stub_to(address: str) -> AsyncIterator[Any]:
    """PredictService over a connection of its own."""
    async with channel_to(address) as channel:
        yield predict_pb2_grpc.PredictServiceStub(channel)


async def unary(stub: Any, ledger: Ledger, *middle: int, timeout: float | None = None, **fields: Any) -> str:
    """One Predict; how it ended. Without ``timeout`` the client waits for what the server says, however long."""
    request = ledger.ask(*middle, **fields)
    try:
        ledger.answered(request.request_id, await stub.Predict(request, timeout=timeout))
    except grpc.aio.AioRpcError as error:
        ledger.ended(request.request_id, error.code().name, error.details() or "")
    except asyncio.CancelledError:
        ledger.ended(request.request_id, CANCELLED)
        raise
    return ledger.ends[request.request_id]


async def batch(stub: Any, ledger: Ledger, items: int, *middle: int) -> None:
    """One PredictBatch, whose items are queued at once."""
    await batch_of(stub, ledger, [ledger.ask(*middle) for _ in range(items)])


async def batch_of(stub: Any, ledger: Ledger, requests: Sequence[pb.PredictRequest]) -> None:
    """The same of these requests."""
    try:
        answer = await stub.PredictBatch(pb.PredictBatchRequest(items=requests))
    except grpc.aio.AioRpcError as error:
        for request in requests:
            ledger.ended(request.request_id, error.code().name, error.details() or "")
        return
    except asyncio.CancelledError:
        for request in requests:
            ledger.ended(request.request_id, CANCELLED)
        raise
    for request, item in zip(requests, answer.items, strict=True):
        ledger.answered(request.request_id, item)


async def stream(stub: Any, ledger: Ledger, items: int, most: int = 16) -> None:
    """One PredictStream of so many items, ``most`` of them in flight."""
    room, open_, over = asyncio.Semaphore(most), set[int](), asyncio.Event()

    async def asks() -> AsyncIterator[pb.PredictRequest]:
        for _ in range(items):
            await room.acquire()
            if over.is_set():  # grpc.aio asks for one more item of a stream that has failed
                return
            request = ledger.ask()
            open_.add(request.request_id)
            yield request

    try:
        async for response in stub.PredictStream(asks()):
            ledger.answered(response.request_id, response)
            open_.discard(response.request_id)
            room.release()
    except grpc.aio.AioRpcError as error:
        forgot = error.details() == FORGOT
        over.set()
        for number in open_:
            ledger.ended(number, "UNAVAILABLE" if forgot else error.code().name, error.details() or "")
        return
    assert not open_, f"the stream ended without the answers of {sorted(open_)}"


class Load:
    """Clients that go on asking, from ``async with`` to its end; then all that is under way is waited for."""

    def __init__(
        self, address: str, ledger: Ledger, channels: int = 2, workers: int = 4, pause_s: float = 0.005
    ) -> None:
        self.ledger = ledger
        self.channels = [channel_to(address) for _ in range(channels)]
        self.ledgers_of: list[Counter[str]] = [Counter() for _ in range(channels)]
        self._workers = workers
        self._pause_s = pause_s
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Load:
        self._tasks = []
        for i, channel in enumerate(self.channels):
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            loops = [self._unary(i, stub) for _ in range(self._workers)]
            loops += [self._repeat(lambda s=stub: batch(s, self.ledger, 5))]
            loops += [self._repeat(lambda s=stub: stream(s, self.ledger, 40))]
            self._tasks += [asyncio.create_task(loop) for loop in loops]
        return self

    async def _unary(self, channel: int, stub: Any) -> None:
        while not self._stop.is_set():
            self.ledgers_of[channel][await unary(stub, self.ledger)] += 1
            await asyncio.sleep(self._pause_s)

    async def _repeat(self, call: Callable[[], Any]) -> None:
        while not self._stop.is_set():
            await call()
            await asyncio.sleep(10 * self._pause_s)  # of many requests

    async def more(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Until so many more have been answered."""
        until = self.ledger.counts[OK] + count
        async with asyncio.timeout(timeout_s):
            while self.ledger.counts[OK] < until:
                await asyncio.sleep(0.01)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*self._tasks)
        finally:
            for channel in self.channels:
                await channel.close()
