"""Random arrivals, cancels and deadlines against generators: every answer is right, and every slot is free at the end.

FASTQPS_SOAK_GENERATION=seconds makes it longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from generators import Alone, Asked, requests, write_generator
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps import errors
from fastqps.api.prediction import Generation

SOAK_S = float(os.environ.get("FASTQPS_SOAK_GENERATION", "3"))
MAX_TOKENS = 60
RUNNING = 16  # of each of two dispatchers: fewer than there are requests under way
UNDER_WAY_MAX = 150
ARRIVALS_PER_S = 500.0
OK, CANCELLED = "OK", "CANCELLED"
ALLOWED = {OK, CANCELLED, "DeadlineExceeded", "ResourceExhausted"}


@dataclass
class Ledger:
    """What was sent and how each of it ended; what was received in part or in full is held against the right answer."""

    alone: Alone
    ends: dict[int, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    sent: int = 0
    tokens: int = 0

    def number(self) -> int:
        self.sent += 1
        return self.sent - 1

    def received(self, asked: Asked, text: str, ids: list[int], whole: Generation | None) -> None:
        """The text and tokens so far; ``whole``: they are all."""
        expected = self.alone.answer(asked)
        self.tokens += len(ids)
        if whole is not None:
            if (text, ids, whole.finish_reason) != (expected.text, list(expected.token_ids), expected.finish_reason):
                self.wrong.append(f"{asked}: {whole} is not {expected}")
        elif not expected.text.startswith(text) or ids != list(expected.token_ids)[: len(ids)]:
            self.wrong.append(f"{asked}: {text!r} {ids} does not begin {expected}")

    def ended(self, number: int, end: str) -> None:
        if number in self.ends:
            self.wrong.append(f"{number} ended twice: {self.ends[number]}, {end}")
        self.ends[number] = end

    def check(self) -> None:
        counts = Counter(self.ends.values())
        assert not self.wrong, (len(self.wrong), self.wrong[:5], counts)
        assert len(self.ends) == sum(counts.values()) == self.sent, (self.sent, counts)
        assert set(counts) <= ALLOWED, counts
        for end in (OK, CANCELLED, "DeadlineExceeded"):
            assert counts[end] > self.sent // 200, f"too few end {end} for a soak: {counts}"


class Soak:
    """One kind of call after the other, each on its own task."""

    def __init__(self, client: fastqps.AsyncClient, ledger: Ledger, asked: list[Asked], chance: random.Random) -> None:
        self.client, self.ledger, self.asked, self.chance = client, ledger, asked, chance

    async def whole(self) -> None:
        """A Predict."""
        await self._predict(PATIENCE_S)

    async def hurried(self) -> None:
        """A Predict with little time."""
        await self._predict(self.chance.uniform(0.001, 0.06))

    async def left(self) -> None:
        """A Predict whose client goes away."""
        number, asked = self.ledger.number(), self.chance.choice(self.asked)
        task = asyncio.create_task(self.client.generate(asked.prompt, **asked.options))
        await asyncio.wait([task], timeout=self.chance.uniform(0, 0.05))
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            return self.ledger.ended(number, CANCELLED)
        if error := task.exception():
            return self.ledger.ended(number, type(error).__name__)
        found = task.result()
        self.ledger.received(asked, found.text, found.token_ids, found)
        return self.ledger.ended(number, OK)

    async def stream(self) -> None:
        """A Generate."""
        await self._stream(PATIENCE_S, 1 << 30)

    async def hurried_stream(self) -> None:
        """A Generate with little time."""
        await self._stream(self.chance.uniform(0.001, 0.06), 1 << 30)

    async def left_stream(self) -> None:
        """A Generate that is left after some chunks."""
        await self._stream(PATIENCE_S, self.chance.randint(0, 10))

    async def many(self) -> None:
        """A PredictStream of the same prompt, some of which have little time."""
        asked = self.chance.choice(self.asked)
        numbers = [self.ledger.number() for _ in range(self.chance.randint(1, 12))]
        timeout_s = self.chance.choice([PATIENCE_S, PATIENCE_S, 0.02])
        answers = self.client.predict_stream([asked.prompt] * len(numbers), timeout_s=timeout_s, **asked.options)
        async for found in answers:
            number = numbers[found.request_id]
            if isinstance(found, fastqps.PredictionError):
                self.ledger.ended(number, type(found.error).__name__)
            else:
                assert found.generation
                self.ledger.received(asked, found.generation.text, found.generation.token_ids, found.generation)
                self.ledger.ended(number, OK)

    async def _predict(self, timeout_s: float) -> None:
        number, asked = self.ledger.number(), self.chance.choice(self.asked)
        try:
            found = await self.client.generate(asked.prompt, timeout_s=timeout_s, **asked.options)
        except errors.CallError as error:
            return self.ledger.ended(number, type(error).__name__)
        self.ledger.received(asked, found.text, found.token_ids, found)
        return self.ledger.ended(number, OK)

    async def _stream(self, timeout_s: float, chunks_max: int) -> None:
        number, asked = self.ledger.number(), self.chance.choice(self.asked)
        text, ids, end, whole = "", list[int](), CANCELLED, None
        try:
            chunks = self.client.generate_stream(asked.prompt, timeout_s=timeout_s, **asked.options)
            async with aclosing(chunks):
                async for chunk in chunks:
                    text, ids = text + chunk.text, ids + chunk.token_ids
                    if chunk.finish_reason:
                        end, whole = OK, Generation(text, ids, chunk.finish_reason)
                    chunks_max -= 1
                    if chunks_max < 0:
                        break
        except errors.CallError as error:
            end = type(error).__name__
        self.ledger.received(asked, text, ids, whole)
        self.ledger.ended(number, end)


@pytest.mark.timeout(SOAK_S + 120)
@pytest.mark.nightly  # in between, test_generation_ledger.py holds every generation to account
def test_soak(serve: Callable[..., Server], tmp_path: Path) -> None:
    checkpoint = write_generator(tmp_path / "tiny")
    ledger = Ledger(Alone(checkpoint, MAX_TOKENS))
    asked = requests(64, MAX_TOKENS, seed=5)
    for each in asked:
        ledger.alone.answer(each)
    flags = ("--device=cpu", "--dtype=float32", f"--model={checkpoint}", f"--max-output-tokens={MAX_TOKENS}")
    server = serve(*flags, f"--max-running={RUNNING}", "--frontdoors=2", "--dispatchers=2", "--slots=256")
    seed = time.time_ns()
    chance = random.Random(seed)

    async def main() -> None:
        end = time.monotonic() + SOAK_S
        under_way: set[asyncio.Task[None]] = set()

        def over(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            if error := task.exception():
                ledger.wrong.append(repr(error))

        async with fastqps.AsyncClient(server.address, channels=4, timeout_s=PATIENCE_S) as client:
            soak = Soak(client, ledger, asked, chance)
            kinds: list[Callable[[], Awaitable[None]]] = [
                soak.whole, soak.whole, soak.hurried, soak.left, soak.stream, soak.hurried_stream, soak.left_stream,
                soak.left_stream, soak.many,
            ]  # fmt: skip
            while time.monotonic() < end:
                await asyncio.sleep(chance.expovariate(ARRIVALS_PER_S))
                if len(under_way) < UNDER_WAY_MAX:
                    task = asyncio.ensure_future(chance.choice(kinds)())
                    under_way.add(task)
                    task.add_done_callback(over)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*under_way)

    asyncio.run(main())
    print(f"seed {seed}: {Counter(ledger.ends.values())}, {ledger.tokens} tokens")
    ledger.check()
    server.until_idle()
    until(lambda: server.metrics()["fastqps_cache_slots_used"] == 0, "every cache slot is free")
    assert (
        "fastqps_restarts_total{dispatcher}" not in server.metrics() or not server.metrics()["fastqps_restarts_total"]
    )

    async def every_place() -> None:
        """As many at once as there are places, so that each of them is used again and found sound."""
        async with fastqps.AsyncClient(server.address, channels=4, timeout_s=PATIENCE_S) as client:
            found = await asyncio.gather(*(client.generate(a.prompt, **a.options) for a in asked))
        for each, generation in zip(asked, found, strict=True):
            ledger.alone.check(each, generation)

    asyncio.run(every_place())
