"""Steps prepared in Python: byte by byte those of the C++, and so with the same answers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import VOCAB as ROBERTA_VOCAB
from checkpoints import write_checkpoint
from generators import PROMPTS_TEXT, Alone, Asked, requests, write_generator
from serving import Server

import fastqps
from fastqps.devices import null
from fastqps.models import load_card
from fastqps.runners.preparation import PythonPreparation

pytestmark = pytest.mark.compute

MAX_TOKENS = 40
PYTHON = ("--device=cpu", "--dtype=float32", "--preparation=python", "--dispatchers=1")


@pytest.fixture
def compared(serve: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """Starts a server whose dispatchers hold each step against the C++'s."""
    env = {"TEST_DISPATCHER": "prepared_dispatcher", "PREPARED_STEPS": str(tmp_path / "steps")}
    return lambda *flags: serve(*PYTHON, *flags, echo=True, env=env)


def shapes(tmp_path: Path) -> list[tuple[int, ...]]:
    """Of all the steps that were compared."""
    return [tuple(map(int, line.split())) for line in (tmp_path / "steps").read_text().splitlines()]


def item(chance: random.Random) -> Any:
    """A text, a pair or ids, short or long."""
    text, other = ("".join(chance.choices(PROMPTS_TEXT, k=chance.randint(1, 6))) for _ in range(2))
    return chance.choice([text, (text, other), [chance.randrange(1000) for _ in range(chance.randint(1, 200))]])


def test_encoders(compared: Callable[..., Server], tmp_path: Path) -> None:
    """Two families: positions that begin at 0 and at 2, a second token type and none."""
    write_checkpoint(tmp_path / "roberta", "roberta")
    server = compared("--model=minilm", f"--model=roberta={tmp_path / 'roberta'}")
    chance = random.Random(5)
    with fastqps.Client(server.address, timeout_s=60) as client:
        for model, make in (
            ("minilm", item),
            ("roberta", lambda c: [c.randrange(ROBERTA_VOCAB) for _ in range(c.randint(1, 60))]),
        ):
            items = [make(chance) for _ in range(100)]
            path = model if model == "minilm" else str(tmp_path / model)
            expected = fastqps.Engine(path, dtype="float32").predict(items)
            found = client.predict_batch(items, model=model)
            np.testing.assert_allclose([each.embedding for each in found], expected, atol=1e-5)
    steps = shapes(tmp_path)
    assert sum(n for n, _, _ in steps) >= 200 and len({n for n, _, _ in steps}) > 1
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 0


def test_decoder(compared: Callable[..., Server], tmp_path: Path) -> None:
    """Sequences come and go, greedy and sampled, with all that a request can say about it."""
    checkpoint = write_generator(tmp_path / "tiny")
    alone = Alone(checkpoint, MAX_TOKENS)
    flags = (f"--max-output-tokens={MAX_TOKENS}", "--max-running=8", "--slots=64")
    server = compared(f"--model={checkpoint}", *flags, "--canary-interval=0")  # each of which is a sequence

    async def main() -> None:
        async with fastqps.AsyncClient(server.address, timeout_s=60) as client:

            async def one(asked: Asked) -> None:
                alone.check(asked, await client.generate(asked.prompt, **asked.options))

            await asyncio.gather(*map(one, requests(40, MAX_TOKENS)))

    asyncio.run(main())
    steps = shapes(tmp_path)
    assert sum(new for _, _, new in steps) == 40 and max(runs for runs, _, _ in steps) == 8
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 0


class OneItem:
    """A stepper that has gathered one item."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def contents(self, step: int) -> Any:
        return [([7, 8, 9], 2)]

    def prepared(self, step: int) -> None:
        self.seen.append(step)


def prepared_s(prepare: PythonPreparation) -> float:
    began = time.thread_time()
    prepare(0)
    return time.thread_time() - began


def test_a_modelled_host_takes_cpu_time() -> None:
    """Not only time: a sleep would let other threads and processes run that a real preparation keeps waiting."""
    runner, stepper = null.NullRunner(load_card("minilm", 16), 4, 32), OneItem()
    runner.prepare_us = 20_000.0
    prepare = PythonPreparation(stepper, [runner])
    prepare(0)
    taken_s = [prepared_s(prepare) for _ in range(10)]
    assert 0.02 <= min(taken_s) < 0.03
    assert stepper.seen == [0] * 11
    b = runner.buffers()
    assert b.input_ids[:4].tolist() == [7, 8, 9, 0] and b.token_type_ids[:4].tolist() == [0, 0, 1, 0]
    assert b.position_ids[:4].tolist() == [0, 1, 2, 0] and b.cu_seqlens[:3].tolist() == [0, 3, 0]
