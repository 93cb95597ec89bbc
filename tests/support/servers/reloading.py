"""A server whose model is reloaded again and again, and a client that sees which version answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

from ledger import channel_to
from serving import PATIENCE_S, Server, until
from versions import write_version

from fastqps._core import Segment
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc


class Reloaded(Server):
    """A server of one model, of which ``folder`` has the versions "one" and "two"; it starts with "one".

    ``behaviour``: as in versions.py, of the dispatchers of "two".
    """

    def __init__(self, folder: Path, *flags: str, behaviour: str = "") -> None:
        self.one = write_version(folder / "one", "1")
        self.two = write_version(folder / "two", "2", behaviour)
        usual = (f"--model=m={self.one}", "--slots=256")
        super().__init__(*usual, *flags, echo=True, env={"TEST_DISPATCHER": "versions"})

    async def becomes(self, path: str) -> dict[str, Any]:
        """Asks for it and waits; it must succeed."""
        status, answer = await asyncio.to_thread(self.reload, **{"from": path})
        assert (status, answer["outcome"]) == (200, "reloaded"), (answer, self.log())
        return answer

    def dispatchers(self) -> list[int]:
        """The indices of those that there are."""
        keys = [key for key in self.metrics() if key.startswith("fastqps_process_ready{") and "dispatcher" in key]
        return sorted(int(key.partition("{")[2].partition(",")[0]) for key in keys)

    def pid_of(self, worker: str) -> int:
        """Of the process that was started there last; it may not have its name yet."""
        return int(re.findall(rf"started {worker}\b.*\(pid (\d+)\)", self.log())[-1])

    def until_log(self, text: str, count: int = 1) -> None:
        until(lambda: self.log().count(text) >= count, f"{count} × {text!r} in\n{self.log()}")


class Versions:
    """One client after the other asks, and notes who has answered; from ``async with`` to its end."""

    def __init__(self, address: str) -> None:
        self.seen: list[str] = []  # each version once, where it changed
        self._address = address
        self._stop = False

    async def __aenter__(self) -> Versions:
        self._task = asyncio.create_task(self._ask())
        return self

    async def sees(self, version: str) -> None:
        """Until that one has answered last."""
        async with asyncio.timeout(PATIENCE_S):
            while self.seen[-1:] != [version]:
                await asyncio.sleep(0.01)

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


def version_of(server: Server) -> str:
    """NAME@VERSION of the one that serves now."""
    with urllib.request.urlopen(f"http://{server.admin}/reload", timeout=PATIENCE_S) as answer:
        (model,) = json.load(answer)["models"]
    return f"{model['model']}@{model['version']}"


def loaded(server: Server, route: int) -> list[int]:
    """Of each front door, the generation whose tokenizer it has for a route, as the segment says; -1: none."""
    files = Path(f"/proc/{server.pid}/fd")
    (found,) = {path for path in files.iterdir() if os.readlink(path).startswith("/memfd:fastqps (")}
    fd = os.open(found, os.O_RDWR)
    try:
        segment = Segment(fd)
        return [segment.door_route(door, route)[0] for door in range(segment.sizes.doors)]
    finally:
        os.close(fd)
