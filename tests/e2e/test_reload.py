"""Models are reloaded under load: not one request fails, each is answered by one version, and the old one goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from echo_dispatcher import SLOW
from echo_generator import PACE, write_generator
from ledger import Ledger, Load, channel_to, unary
from serving import Server, descriptors, until
from versions import write_version

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

KILLED = ("UNAVAILABLE",)  # calls on the connections of a front door that is killed


async def reload(server: Server, path: str = "") -> dict[str, Any]:
    """Asks for it and waits; it must succeed."""
    status, answer = await asyncio.to_thread(server.reload, **({"from": path} if path else {}))
    assert status == 200, (answer, server.log())
    return answer


class Versions:
    """One client after the other asks, and notes who has answered; from ``async with`` to its end."""

    def __init__(self, address: str) -> None:
        self.seen: list[str] = []  # each version once, where it changed
        self._address = address
        self._stop = False

    async def __aenter__(self) -> Versions:
        self._task = asyncio.create_task(self._ask())
        return self

    async def _ask(self) -> None:
        async with channel_to(self._address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            while not self._stop:
                call = stub.Predict(pb.PredictRequest(text="hello"))
                with contextlib.suppress(Exception):  # its front door may be killed; the ledger counts failures
                    await call
                    (version,) = [value for key, value in await call.initial_metadata() if key == "fastqps-model"]
                    self.seen += [version] if self.seen[-1:] != [version] else []
                await asyncio.sleep(0.002)

    async def __aexit__(self, *error: object) -> None:
        self._stop = True
        await self._task


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """A server of the model in ``tmp_path / "one"``."""
    servers: list[Server] = []

    def start(*flags: str) -> Server:
        write_version(tmp_path / "one", "1")
        usual = (f"--model=m={tmp_path / 'one'}", "--slots=256")
        servers.append(Server(*usual, *flags, echo=True, env={"TEST_DISPATCHER": "versions"}))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def dispatchers(server: Server) -> list[int]:
    """The indices of those that there are."""
    keys = [key for key in server.metrics() if key.startswith("fastqps_process_ready{") and "dispatcher" in key]
    return sorted(int(key.partition("{")[2].partition(",")[0]) for key in keys)


def version_of(server: Server) -> str:
    with urllib.request.urlopen(f"http://{server.admin}/reload", timeout=5) as answer:
        (model,) = json.load(answer)["models"]
    return f"{model['model']}@{model['version']}"


def test_no_request_fails(serve: Callable[..., Server], tmp_path: Path) -> None:
    two = write_version(tmp_path / "two", "2")
    server = serve("--frontdoors=2", "--dispatchers=2")
    first = version_of(server)

    async def run() -> None:
        ledger = Ledger()
        async with Load(server.address, ledger) as load, Versions(server.address) as versions:
            await load.more(100)
            before = [descriptors(process) for process in server.processes()]
            assert (await reload(server, two))["outcome"] == "reloaded"
            second = version_of(server)
            assert dispatchers(server) == [2, 3]
            await load.more(100)
            assert (await reload(server, str(tmp_path / "one")))["outcome"] == "reloaded"
            assert dispatchers(server) == [0, 1]
            await load.more(100)
            (tmp_path / "one/model.safetensors").write_text("3")
            server.signal(signal.SIGHUP)
            await asyncio.to_thread(until_log, server, "reloaded: ", 3)
            third = version_of(server)
            server.signal(signal.SIGHUP)
            await asyncio.to_thread(until_log, server, f"{third} is unchanged", 1)
            await load.more(100)
            assert len({first, second, third}) == 3
            assert versions.seen == [first, second, first, third]
            after = [descriptors(process) for process in server.processes()]
            assert sorted(map(len, after)) == sorted(map(len, before)), (before, after)
        ledger.check()
        assert ledger.counts["OK"] > 400

    asyncio.run(run())
    server.until_idle()
    found = server.metrics()
    assert found["fastqps_reloads_total{m,reloaded}"] == 3
    assert found["fastqps_reloads_total{m,unchanged}"] == 1
    assert found["fastqps_reloads_total{m,failed}"] == 0
    assert found["fastqps_restarts_total"] == 0
    assert [key for key in found if key.startswith("fastqps_model_info{3,m,")]


def pid_of(server: Server, seat: str) -> int:
    """Of the process that was started there last; it may not have its name yet."""
    return int(re.findall(rf"started {seat}\b.*\(pid (\d+)\)", server.log())[-1])


def until_log(server: Server, text: str, count: int, timeout_s: float = 60.0) -> None:
    until(lambda: server.log().count(text) >= count, timeout_s, f"{count} × {text!r} in\n{server.log()}")


def test_old_requests_stay_with_the_old_version(serve: Callable[..., Server], tmp_path: Path) -> None:
    """What runs while the route flips is finished; who comes then does not wait for it."""
    two = write_version(tmp_path / "two", "2")
    server = serve("--dispatchers=1", "--frontdoors=1", "--max-batch-items=1", "--default-timeout=60s")
    old = version_of(server)

    async def answered_by(call: Any) -> str:
        await call
        return next(value for key, value in await call.initial_metadata() if key == "fastqps-model")

    async def run() -> None:
        async with channel_to(server.address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            slow: list[Any] = []
            reloading = asyncio.create_task(reload(server, two))
            while await asyncio.to_thread(version_of, server) == old:
                waiting = sum(not call.done() for call in slow)
                slow += [stub.Predict(pb.PredictRequest(token_ids={"ids": [SLOW + 10]})) for _ in range(20 - waiting)]
                await asyncio.sleep(0.02)
            fast = await answered_by(stub.Predict(pb.PredictRequest(text="x")))
            assert fast == await asyncio.to_thread(version_of, server) != old
            assert not reloading.done()
            left = [i for i, call in enumerate(slow) if not call.done()]
            answers = [await answered_by(call) for call in slow]
            assert answers == sorted(answers, key=lambda version: version != old)  # the last may have come too late
            assert answers[left[0]] == old
            await reloading
            assert dispatchers(server) == [1]

    asyncio.run(run())


def test_whatever_fails_the_old_version_serves(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve("--dispatchers=1", "--frontdoors=2")
    first = version_of(server)
    bad = tmp_path / "bad"
    write_version(bad, "2", "refuse")
    torn = tmp_path / "tokenizer"
    write_version(torn, "2")
    (torn / "tokenizer.json").write_text('{"model": {"type": "BPE"}, "added_tokens": []}')
    wide = write_version(tmp_path / "wide", "2", hidden_size=4096)
    other = write_version(tmp_path / "other", "2", architectures=["BertForSequenceClassification"])

    async def run() -> None:
        ledger = Ledger()
        async with Load(server.address, ledger) as load:
            for path, reason in (
                (str(tmp_path / "nowhere"), "nowhere"),
                (str(bad), "the weights are torn"),
                (str(torn), "tokenizer.json"),
                (wide, "an answer of 4096 dimensions"),
                (other, "it is there to classify"),
            ):
                status, answer = await asyncio.to_thread(server.reload, **{"model": "m", "from": path})
                assert (status, answer["outcome"]) == (422, "failed"), answer
                assert reason in answer["reason"]
                assert f"m@{answer['version']}" == version_of(server) == first
                assert dispatchers(server) == [0]
            await load.more(50)
            assert (await reload(server, write_version(tmp_path / "good", "2")))["outcome"] == "reloaded"
            await load.more(50)
        ledger.check()

    asyncio.run(run())
    assert server.metrics()["fastqps_reloads_total{m,failed}"] == 5
    assert server.log().count(f"not reloaded, {first} goes on serving: ") == 5
    (tmp_path / "good/model.safetensors").write_text("3")  # in place: a dispatcher that starts now finds no old version
    server.child("dispatcher 1").kill()
    until_log(server, "its files have changed: they are m@", 1)
    assert server.reload()[1]["outcome"] == "reloaded"
    until(lambda: server.ready("dispatcher 0"), 30, "the new version serves")


@pytest.mark.nightly
def test_kills_in_the_middle(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Of the old dispatcher, the new one and a front door, each while the new generation warms up."""
    two = write_version(tmp_path / "two", "2", "sleep 1")
    server = serve("--frontdoors=2", "--dispatchers=1")
    first = version_of(server)

    async def run() -> None:
        ledger = Ledger()
        async with Load(server.address, ledger) as load, Versions(server.address) as versions:
            await load.more(50)
            for victim in ("dispatcher 0", "dispatcher 1", "frontdoor 1"):
                starts = server.log().count("started dispatcher 1")
                reloading = asyncio.create_task(asyncio.to_thread(server.reload, **{"from": two}))
                await asyncio.to_thread(until_log, server, "started dispatcher 1", starts + 1)
                os.kill(pid_of(server, victim), signal.SIGKILL)
                status, answer = await reloading
                assert (status, answer["outcome"]) == (200, "reloaded"), (answer, server.log())
                await load.more(50)
                await reload(server, str(tmp_path / "one"))
            await load.more(50)
        ledger.check(*KILLED)
        second = versions.seen[1]
        assert versions.seen == [first, second] * 3 + [first]

    asyncio.run(run())
    server.until_idle()


def test_the_end_in_the_middle_of_a_reload(serve: Callable[..., Server], tmp_path: Path) -> None:
    two = write_version(tmp_path / "two", "2", "sleep 30")
    server = serve("--dispatchers=1")

    async def run() -> None:
        ledger = Ledger()
        async with channel_to(server.address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            assert await unary(stub, ledger) == "OK"
            reloading = asyncio.create_task(asyncio.to_thread(server.reload, **{"from": two}))
            await asyncio.to_thread(until_log, server, "started dispatcher 1", 1)
            status, answer = await asyncio.to_thread(server.reload)
            assert (status, list(answer)) == (409, ["error"])
            slow = asyncio.create_task(unary(stub, ledger, SLOW + 50))
            await asyncio.sleep(0.1)
            server.signal(signal.SIGTERM)
            assert await slow == "OK"
            with contextlib.suppress(Exception):  # 503, or the connection's end
                await reloading
        ledger.check()

    asyncio.run(run())
    assert server.wait(20) == 0, server.log()


def test_a_generation_that_streams_is_finished_by_the_old_version(tmp_path: Path) -> None:
    """Its tokens come at a pace while the model is reloaded; a stream that begins after the flip is of the new one."""
    for name in ("one", "two"):
        write_generator(tmp_path / name)
    (tmp_path / "two/model.safetensors").write_bytes((3).to_bytes(8, "little") + b"{ }")
    flags = ("--max-output-tokens=128", "--frontdoors=1", "--dispatchers=1", "--slots=64")
    server = Server(f"--model=m={tmp_path / 'one'}", *flags, echo=True)
    old = version_of(server)
    prompt = list(b"the cat sat on the mat")

    async def stream(stub: Any, pace_ms: int) -> tuple[str, str, Any]:
        """(version, text, status) of a generation."""
        options = {"max_tokens": 100, "ignore_eos": True}
        call = stub.Generate(pb.PredictRequest(token_ids={"ids": [PACE + pace_ms, *prompt]}, generate=options))
        chunks = [chunk async for chunk in call]
        version = next(value for key, value in await call.initial_metadata() if key == "fastqps-model")
        return version, "".join(chunk.text for chunk in chunks), chunks[-1].usage.output_tokens

    async def run() -> None:
        async with channel_to(server.address) as channel:
            stub = predict_pb2_grpc.PredictServiceStub(channel)
            alone = await stream(stub, 0)
            streams: list[asyncio.Task[tuple[str, str, Any]]] = []
            reloading = asyncio.create_task(reload(server, str(tmp_path / "two")))
            while await asyncio.to_thread(version_of, server) == old:
                if not streams or streams[-1].done():
                    streams.append(asyncio.create_task(stream(stub, 20)))
                await asyncio.sleep(0.05)
            new = await stream(stub, 0)
            assert new == (await asyncio.to_thread(version_of, server), *alone[1:])
            ended = [await each for each in streams]
            assert {each[1:] for each in ended} == {alone[1:]}
            versions = [version for version, *_ in ended]
            assert versions[0] == old and versions == sorted(versions, key=lambda version: version != old)
            await reloading

    try:
        asyncio.run(run())
        server.until_idle()
    finally:
        server.stop()
