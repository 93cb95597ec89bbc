"""A server on a GPU: under load, in the debug mode, and through the death of a dispatcher."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from generators import Alone, Asked, requests, write_generator
from ledger import FIRST_MAX, Load, VectorLedger
from serving import Server, until

import fastqps

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
LIMITS = ("--max-input-tokens=64", "--max-batch-tokens=2048", "--max-batch-items=64")  # few graphs: a quick start
DEBUG = {"FASTQPS_DEBUG_DEVICE": "1"}
BACK_S = 120.0  # a dispatcher imports torch, loads, and captures its graphs


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoder whose vocabulary has room for a ledger's ids."""
    path = tmp_path_factory.mktemp("tiny")
    write_checkpoint(path, "bert", vocab_size=FIRST_MAX + 10)
    return str(path)


@pytest.mark.parametrize("dispatchers", [1, 2])
def test_steps_do_nothing_but_their_four_calls(serve: Callable[..., Server], tiny: str, dispatchers: int) -> None:
    """Under the debug mode: every answer its own, no dispatcher is restarted, and device times add up."""
    flags = ("--device=cuda:0", "--dtype=float32", "--lanes=2", f"--dispatchers={dispatchers}", f"--model={tiny}")
    server = serve(*flags, *LIMITS, env=DEBUG)
    ledger = VectorLedger(tiny)
    before, began = server.metrics(), time.monotonic()

    async def scenario() -> None:
        async with Load(server.address, ledger) as load:
            await load.more(2000, 60)

    asyncio.run(scenario())
    time.sleep(0.3)  # what is idle is told at the latest a tenth of a second later
    after, took_s = server.metrics(), time.monotonic() - began
    ledger.check()
    assert after["fastqps_restarts_total{dispatcher}"] == 0, server.log()
    told_s = sum(
        after[f"fastqps_device_{name}_seconds_total"] - before[f"fastqps_device_{name}_seconds_total"]
        for name in ("busy", "idle")
    )
    assert told_s == pytest.approx(dispatchers * took_s, rel=0.2)


def test_a_dispatcher_is_killed_under_load(serve: Callable[..., Server], tiny: str) -> None:
    flags = ("--device=cuda:0", "--dtype=float32", "--lanes=2", "--dispatchers=2", "--mps=off", f"--model={tiny}")
    server = serve(*flags, *LIMITS)
    ledger = VectorLedger(tiny)

    async def scenario() -> None:
        async with Load(server.address, ledger) as load:
            await load.more(500, 60)
            server.child("dispatcher 0").kill()
            await asyncio.to_thread(until, lambda: _restarts(server) and _all_ready(server), "it is back", BACK_S)
            await load.more(500, 60)

    asyncio.run(scenario())
    ledger.check()
    server.until_idle()


def test_a_generator_under_the_debug_mode(
    serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What each request alone gets of the CPU in fp32, in any company, on two lanes."""
    model = write_generator(tmp_path_factory.mktemp("generator"))
    alone, items = Alone(model, 40), requests(200, 40, seed=5)
    for asked in items:
        alone.answer(asked)
    flags = ("--device=cuda:0", "--dtype=float32", "--max-running=32", "--max-output-tokens=40", "--lanes=2")
    server = serve(f"--model={model}", *flags, "--max-input-tokens=64", "--max-batch-tokens=512", env=DEBUG)

    async def main() -> None:
        async with fastqps.AsyncClient(server.address, timeout_s=60) as client:

            async def whole(asked: Asked) -> None:
                alone.check(asked, await client.generate(asked.prompt, **asked.options))

            await asyncio.gather(*map(whole, items))

    asyncio.run(main())
    server.until_idle()
    assert _restarts(server) == 0, server.log()


def test_minilm_if_it_is_installed(serve: Callable[..., Server]) -> None:
    """The default model with every setting left alone: bf16, one dispatcher, two lanes."""
    from fastqps.models.names import packaged

    if packaged("minilm") is None:
        pytest.skip("the weights of minilm are not installed")
    server = serve("--device=cuda:0")
    texts = ["A cat sits on the mat.", "Rates rose by a quarter point.", "", "word " * 200]
    expected = fastqps.Engine("minilm", device="cpu", dtype="float32").predict(texts)
    with fastqps.Client(server.address, timeout_s=60) as client:
        for found, row in zip(client.predict_batch(texts), expected, strict=True):
            assert float(np.dot(found.embedding, np.asarray(row))) > 0.999


def _restarts(server: Server) -> float:
    return server.metrics()["fastqps_restarts_total{dispatcher}"]


def _all_ready(server: Server) -> bool:
    return all(value for name, value in server.metrics().items() if name.startswith("fastqps_process_ready{"))
