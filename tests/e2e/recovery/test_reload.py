"""Models are reloaded under load: not one request fails, each is answered by one version, and the old one goes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import sees
from echo_generator import write_generator
from ledger import Ledger, Load, stub_to, unary
from reloading import Reloaded, Versions, loaded, version_of
from serving import Server, descriptors, until
from versions import write_version
from zero_weights import write_zeros

from fastqps.v1 import predict_pb2 as pb


async def test_no_request_fails(serve: Callable[..., Any], tmp_path: Path) -> None:
    server = serve(tmp_path, "--frontdoors=2", "--dispatchers=2", kind=Reloaded)
    first = version_of(server)
    ledger = Ledger()
    async with Load(server.address, ledger) as load, Versions(server.address) as versions:
        await load.more(100)
        before = sorted(len(descriptors(process)) for process in server.processes())
        await server.becomes(server.two)
        second = version_of(server)
        await versions.sees(second)
        assert server.dispatchers() == [2, 3]
        await sees(lambda: loaded(server, 0) == [-1, -1], "the old tokenizers are freed")
        assert loaded(server, 1) == [1, 1]
        await load.more(100)
        await server.becomes(server.one)
        assert server.dispatchers() == [0, 1]
        await versions.sees(first)
        await load.more(100)
        write_zeros(tmp_path / "one", "3")
        server.signal(signal.SIGHUP)
        await asyncio.to_thread(server.until_log, "reloaded: ", 3)
        third = version_of(server)
        server.signal(signal.SIGHUP)
        await asyncio.to_thread(server.until_log, f"{third} is unchanged", 1)
        await versions.sees(third)
        await load.more(100)
        assert len({first, second, third}) == 3
        assert versions.seen == [first, second, first, third]

        def counts() -> list[int]:
            return sorted(len(descriptors(process)) for process in server.processes())

        await sees(lambda: counts() == before, f"as many descriptors as {before}")
    ledger.check()
    assert ledger.counts["OK"] > 400
    server.until_idle()
    found = server.metrics()
    assert found["fastqps_reloads_total{m,reloaded}"] == 3
    assert found["fastqps_reloads_total{m,unchanged}"] == 1
    assert found["fastqps_reloads_total{m,failed}"] == found["fastqps_reload_failed{m}"] == 0
    assert found["fastqps_restarts_total"] == 0
    assert [key for key in found if key.startswith("fastqps_model_info{3,m,")]


async def test_old_requests_stay_with_the_old_version(serve: Callable[..., Any], tmp_path: Path) -> None:
    """What runs while the route flips is finished; who comes then does not wait for it."""
    flags = ("--dispatchers=1", "--frontdoors=1", "--max-batch-items=1")
    server = serve(tmp_path, *flags, kind=Reloaded)
    old = version_of(server)

    async def answered_by(stub: Any, *ids: int) -> str:
        call = stub.Predict(pb.PredictRequest(token_ids={"ids": [7, *ids]}))
        await call
        return next(value for key, value in await call.initial_metadata() if key == "fastqps-model")

    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            slow = [asyncio.create_task(answered_by(stub, gate.id))]
            await sees(lambda: server.claimed(1), "one runs")
            slow += [asyncio.create_task(answered_by(stub)) for _ in range(20)]
            await sees(lambda: server.work()["fastqps_slots_used"] == 21, "the others are in")
            reloading = asyncio.create_task(server.becomes(server.two))
            await sees(lambda: version_of(server) != old, "the new version serves")
            assert await answered_by(stub) == await asyncio.to_thread(version_of, server) != old
            assert not reloading.done() and not any(call.done() for call in slow)
        assert set(await asyncio.gather(*slow)) == {old}
        await reloading
        assert server.dispatchers() == [1]


async def test_whatever_fails_the_old_version_serves(serve: Callable[..., Any], tmp_path: Path) -> None:
    server = serve(tmp_path, "--dispatchers=1", "--frontdoors=2", kind=Reloaded)
    first = version_of(server)
    bad = tmp_path / "bad"
    write_version(bad, "2", "refuse")
    torn = tmp_path / "tokenizer"
    write_version(torn, "2")
    (torn / "tokenizer.json").write_text('{"model": {"type": "BPE"}, "added_tokens": []}')
    wide = write_version(tmp_path / "wide", "2", hidden_size=4096)
    narrow = write_version(tmp_path / "narrow", "2", hidden_size=16)
    other = write_version(tmp_path / "other", "2", architectures=["BertForSequenceClassification"])
    ledger = Ledger()
    async with Load(server.address, ledger) as load:
        for path, reason in (
            (str(tmp_path / "nowhere"), "nowhere"),
            (str(bad), "the weights are torn"),
            (str(torn), "tokenizer.json"),
            (wide, "an answer of 4096 dimensions"),
            (other, "it is there to classify"),
            (narrow, "it gives 16 dimensions, and m 32; --allow-output-change"),
        ):
            status, answer = await asyncio.to_thread(server.reload, **{"model": "m", "from": path})
            assert (status, answer["outcome"]) == (422, "failed"), answer
            assert reason in answer["reason"]
            assert f"m@{answer['version']}" == version_of(server) == first
            assert server.dispatchers() == [0]
            assert server.metrics()["fastqps_reload_failed{m}"] == 1
        await load.more(50)
        await server.becomes(write_version(tmp_path / "good", "2"))
        await load.more(50)
    ledger.check()
    found = server.metrics()
    assert (found["fastqps_reloads_total{m,failed}"], found["fastqps_reload_failed{m}"]) == (6, 0)
    assert server.log().count(f"not reloaded, {first} goes on serving: ") == 6
    write_zeros(tmp_path / "good", "3")  # in place: a dispatcher that starts now finds no old version
    server.child("dispatcher 1").kill()
    server.until_log("its files have changed: they are m@")
    assert server.reload()[1]["outcome"] == "reloaded"
    until(lambda: server.ready("dispatcher 0"), "the new version serves")


async def test_the_end_in_the_middle_of_a_reload(serve: Callable[..., Any], tmp_path: Path) -> None:
    server = serve(tmp_path, "--dispatchers=1", behaviour="sleep 30", kind=Reloaded)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        assert await unary(stub, ledger) == "OK"
        reloading = asyncio.create_task(asyncio.to_thread(server.reload, **{"from": server.two}))
        await asyncio.to_thread(server.until_log, "started dispatcher 1", 1)
        assert server.dispatchers() == [0], "what warms up is not down, however long it takes"
        status, answer = await asyncio.to_thread(server.reload)
        assert (status, list(answer)) == (409, ["error"])
        with server.gate() as gate:
            slow = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(lambda: server.claimed(1), "it runs")
            server.signal(signal.SIGTERM)
            await asyncio.to_thread(server.until_log, "draining", 1)
        assert await slow == "OK"
        with contextlib.suppress(Exception):  # 503, or the connection's end
            await reloading
    ledger.check()
    assert server.wait() == 0, server.log()


async def test_a_generation_that_streams_is_finished_by_the_old_version(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """It is behind its first token while the model is reloaded; what begins after the flip is of the new one."""
    for name in ("one", "two"):
        write_generator(tmp_path / name)
    write_zeros(tmp_path / "two", "two")
    flags = ("--max-output-tokens=128", "--frontdoors=1", "--dispatchers=1", "--slots=64")
    server = serve(f"--model=m={tmp_path / 'one'}", *flags, echo=True)
    old = version_of(server)
    prompt = list(b"the cat sat on the mat")

    async def stream(stub: Any, *ids: int) -> tuple[str, str, Any]:
        """(version, text, tokens) of a generation."""
        options = {"max_tokens": 100, "ignore_eos": True}
        call = stub.Generate(pb.PredictRequest(token_ids={"ids": [*ids, *prompt]}, generate=options))
        chunks = [chunk async for chunk in call]
        version = next(value for key, value in await call.initial_metadata() if key == "fastqps-model")
        return version, "".join(chunk.text for chunk in chunks), chunks[-1].usage.output_tokens

    async with stub_to(server.address) as stub:
        alone = await stream(stub)
        with server.gate() as gate:
            streaming = asyncio.create_task(stream(stub, gate.id))
            await sees(lambda: server.metrics()["fastqps_cache_slots_used"] == 1, "it streams")
            reloading = asyncio.create_task(asyncio.to_thread(server.reload, **{"from": str(tmp_path / "two")}))
            await sees(lambda: version_of(server) != old, "the new version serves")
            new = await stream(stub)
            assert new == (await asyncio.to_thread(version_of, server), *alone[1:])
            assert not streaming.done() and not reloading.done()
        assert await streaming == (old, *alone[1:])
        assert (await reloading)[0] == 200
    server.until_idle()
