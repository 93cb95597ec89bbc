"""A server whose GPUs are fake ones: the device cuda end to end, under load, in the debug mode, and through faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busy import sees
from checkpoints import write_checkpoint
from fake_cuda import environment
from generators import Alone, requests, write_generator
from ledger import FIRST_MAX, Load, VectorLedger
from serving import PATIENCE_S, Server, until
from tries import until_in_time

import fastqps
from fastqps.cli import main

FLAGS = ("--device=cuda:0", "--max-batch-tokens=256", "--max-input-tokens=64", "--max-batch-items=32")
DEBUG = {"FASTQPS_DEBUG_DEVICE": "1"}
TEXTS = ["A cat sits on the mat.", "Rates rose by a quarter point.", "", "Où est la gare ?", "word " * 30]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoder whose vocabulary has room for a ledger's ids."""
    path = tmp_path_factory.mktemp("tiny")
    write_checkpoint(path, "bert", vocab_size=FIRST_MAX + 10)
    return str(path)


def test_minilm_under_the_debug_mode(serve: Callable[..., Server]) -> None:
    """Answers as the CPU's; steps copy, launch and look, and nothing else; device times add up."""
    env = {**environment(copy_delay_ns=200_000), **DEBUG}
    server = serve(*FLAGS, "--lanes=2", "--canary-interval=0", env=env)  # nothing runs before it is asked
    expected = fastqps.Engine("minilm", device="cpu", dtype="float32").predict(TEXTS)

    def add_up(client: fastqps.Client) -> str:
        """What is idle is told a tenth of a second later, by a dispatcher that gets its CPU."""
        began_s, before = time.monotonic(), server.metrics()
        for texts in (TEXTS, TEXTS * 8):
            for i, found in enumerate(client.predict_batch(texts)):
                assert float(np.dot(found.embedding, expected[i % len(TEXTS)])) > 0.999
        after, took_s = server.metrics(), time.monotonic() - began_s
        busy_s, idle_s = (
            after[f"fastqps_device_{name}_seconds_total"] - before[f"fastqps_device_{name}_seconds_total"]
            for name in ("busy", "idle")
        )
        assert 0 < busy_s < took_s + 0.1
        return "" if busy_s + idle_s == pytest.approx(took_s, abs=0.5) else f"{busy_s} + {idle_s} of {took_s} s"

    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        until_in_time(lambda: add_up(client))
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 0, server.log()


def test_graphs_are_captured_while_it_serves(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A start has few; sizes that steps often have get their own, and the answers stay what they are."""
    checkpoint = write_generator(tmp_path / "tiny")
    alone, items = Alone(checkpoint, 40), requests(24, 40, seed=6)
    flags = ("--device=cuda:0", "--dtype=float32", "--max-running=24", "--max-input-tokens=48", "--lanes=2")
    limits = ("--max-output-tokens=40", "--max-batch-tokens=256", "--dispatchers=1", "--canary-interval=0")
    server = serve(f"--model={checkpoint}", *flags, *limits, env=environment(copy_delay_ns=50_000))
    assert "captured while serving" not in server.log()
    assert any(line.partition("dispatcher 0")[2] and " started in " in line for line in server.lines)

    async def ask() -> None:
        async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S) as client:
            found = await asyncio.gather(*(client.generate(each.prompt, **each.options) for each in items))
        for each, answer in zip(items, found, strict=True):
            alone.check(each, answer)

    def captured() -> bool:
        asyncio.run(ask())
        return server.log().count("captured while serving") > 2

    until(captured, "both lanes have captured graphs")
    asyncio.run(ask())
    took = {name: s for name, s in server.metrics().items() if name.startswith("fastqps_process_start_seconds{")}
    assert took["fastqps_process_start_seconds{0,dispatcher,graphs}"] > 0, took
    assert took["fastqps_process_start_seconds{0,frontdoor,imports}"] > 0, took
    server.until_idle()
    assert _restarts(server) == 0, server.log()


async def test_a_device_fault_restarts_the_dispatcher(serve: Callable[..., Server], tiny: str) -> None:
    """A kernel that faults after 200 steps: one line, another process, and no request is lost."""
    flags = ("--dtype=float32", "--dispatchers=1", "--lanes=2", f"--model={tiny}")
    server = serve(*FLAGS, *flags, env=environment(fail_graph=200))
    ledger = VectorLedger(tiny)
    async with Load(server.address, ledger) as load:
        await sees(lambda: _restarts(server), "a fault")
        await sees(lambda: _all_ready(server), "it is back")
        await load.more(50)
    ledger.check()
    assert any("the device has failed" in line and "illegal memory access" in line for line in server.lines)
    assert not any("Traceback" in line for line in server.lines), server.log()


def test_the_grammar_model(serve: Callable[..., Server]) -> None:
    limits = {"max_input_tokens": 48, "max_output_tokens": 24}
    sentences = ["She go to school every days.", "He have two cat.", "I am happy.", "They was late yesterday."]
    cpu = fastqps.Engine("grammar", device="cpu", dtype="float32", **limits)
    expected = [made.token_ids for made in cpu.generate(sentences)]
    flags = [f"--{name.replace('_', '-')}={limit}" for name, limit in limits.items()]
    flags += ["--model=grammar", "--dtype=float32", "--max-running=4", "--max-batch-tokens=64", "--lanes=1"]
    server = serve("--device=cuda:1", *flags, env={**environment(), **DEBUG})
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        assert [client.generate(sentence).token_ids for sentence in sentences] == expected
    assert _restarts(server) == 0, server.log()


@pytest.mark.parametrize("mode", [pytest.param(DEBUG, marks=pytest.mark.nightly), {}])
def test_texts_with_a_structure(serve: Callable[..., Server], tmp_path: Path, mode: dict[str, str]) -> None:
    """Beside texts without one, and through a dispatcher's death: the tokens of the CPU.

    In the debug mode no graph is captured in parts.
    """
    checkpoint = write_generator(tmp_path / "tiny", num_hidden_layers=2)
    asked: list[dict[str, Any]] = [{"regex": f"{i}(a|b){{2,20}}"} for i in range(12)]
    asked += [{} for _ in range(12)] + [{"json_object": True}, {"grammar": 'start: "x" /[0-9]+/'}]
    asked = [{"max_tokens": 32, **each} for each in asked]
    asked.append({"regex": "[ab]{190}", "temperature": 1.0, "seed": 5})
    prompts = [f"The cat {i % 7}" for i in range(len(asked))]
    engine = fastqps.Engine(str(checkpoint), device="cpu", dtype="float32", max_output_tokens=200)
    want = [engine.generate([p], **options)[0].token_ids for p, options in zip(prompts, asked, strict=True)]
    flags = ("--device=cuda:0", "--dtype=float32", "--max-running=8", "--max-output-tokens=200", "--lanes=2")
    limits = ("--max-input-tokens=48", "--max-batch-tokens=128", "--dispatchers=1", "--canary-interval=0")
    server = serve(f"--model={checkpoint}", *flags, *limits, env={**environment(copy_delay_ns=50_000), **mode})

    def generate(prompt: str, options: dict[str, Any]) -> list[int]:
        with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
            return client.generate(prompt, **options).token_ids

    with ThreadPoolExecutor(len(asked)) as pool:
        assert list(pool.map(generate, prompts, asked)) == want
        assert _restarts(server) == 0, server.log()
        again = pool.map(generate, prompts, asked)  # the last one takes seconds
        until(lambda: server.claimed(1), "the dispatcher has work")
        server.child("dispatcher 0").kill()
        assert list(again) == want
    until(lambda: _restarts(server) == 1, "another one runs")


def test_what_cannot_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why, and the exit code that fits."""
    with pytest.raises(AssertionError, match="ended with 4") as caught:
        Server(*FLAGS, env=environment(memory_bytes=1 << 20))
    assert "the checkpoint is too large" in str(caught.value)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    assert main(["serve", "--model=minilm", "--device=cuda:2"]) == 3
    assert "there are cuda:0 to cuda:1" in capsys.readouterr().err


def _restarts(server: Server) -> float:
    return server.metrics()["fastqps_restarts_total{dispatcher}"]


def _all_ready(server: Server) -> bool:
    return all(value for name, value in server.metrics().items() if name.startswith("fastqps_process_ready{"))
