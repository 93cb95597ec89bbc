"""The load, as a client process of its own: ``python -m examples.demo.load ADDRESS SECONDS IN_FLIGHT KEEP``.

A closed loop: IN_FLIGHT unary calls are always open, over four connections. Prints one JSON object; the file KEEP gets
a sample of the answers, for the check.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

import numpy as np
import uvloop

from examples.demo.sentences import MANY
from fastqps import AsyncClient, errors
from fastqps.api.prediction import Prediction

CONNECTIONS = 4
SAMPLE_EVERY = 37  # answers; these are also asked where their time went
SAMPLES_MAX = 500
QUANTILES = {"p50": 50, "p90": 90, "p99": 99}


class Load:
    """Counts what happens to the calls."""

    def __init__(self, client: AsyncClient, seconds: float) -> None:
        self._client = client
        self._until_s = time.perf_counter() + seconds
        self._sent = 0
        self.latencies_ms: list[float] = []
        self.failures: Counter[str] = Counter()
        self.kept: list[tuple[int, Prediction]] = []

    async def caller(self) -> None:
        """One call after the other until the time is over."""
        while (began := time.perf_counter()) < self._until_s:
            number = self._sent
            self._sent += 1
            sample = number % SAMPLE_EVERY == 0 and len(self.kept) < SAMPLES_MAX
            sentence = number % len(MANY)
            try:
                answer = await self._client.predict(MANY[sentence], timings=sample)
            except errors.CallError as error:
                self.failures[f"{type(error).__name__}: {error}"] += 1
                continue
            self.latencies_ms.append(1e3 * (time.perf_counter() - began))
            if sample:
                self.kept.append((sentence, answer))


async def main(address: str, seconds: float, in_flight: int, keep: str) -> None:
    """Runs the load and prints what came of it."""
    async with AsyncClient(address, channels=CONNECTIONS) as client:
        load = Load(client, seconds)
        began = time.perf_counter()
        await asyncio.gather(*(load.caller() for _ in range(in_flight)))
        took_s = time.perf_counter() - began
    sentences, answers = zip(*load.kept, strict=True) if load.kept else ((), ())
    np.savez(keep, sentences=np.array(sentences, int), vectors=np.array([a.embedding for a in answers]))
    timings = [a.timings for a in answers if a.timings]
    result = {
        "answers": len(load.latencies_ms),
        "rate": len(load.latencies_ms) / took_s,
        "failures": load.failures,
        "latency_ms": {name: float(np.percentile(load.latencies_ms or [0], q)) for name, q in QUANTILES.items()},
        "stage_us": {stage: float(np.median([t[stage] for t in timings])) for stage in (timings or [{}])[0]},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
