"""What servers keep beside noisy neighbours: each server on one core with its neighbour, the load on the other core.

The servers compute nothing, so that the host path is what suffers. Others have a modelled device that is their limit:
the host has to keep that busy with what its neighbour leaves of the core, and prepares more or fewer steps ahead.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.load import PREDICT, Load, loadgen
from bench.noise.beside import NEIGHBOURS, autogroups, beside
from bench.protocols.peers import install_mosec, mosec
from bench.protocols.wrk import CONNECTIONS, HttpRequest, wrk
from bench.row import Row
from bench.texts import request, texts
from bench.transport import LOAD_CPU, SERVER_CPU, grpc_echo
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

ALONE = "alone"
HALF_A_CORE = "… half of the core its own"  # of the server before
KEPT_MIN = 95  # % of the modelled device's rate
WARMUP_S = 0.5
DEEP, SIM_LOAD = (16, 64), (CONNECTIONS, 8)  # connections, calls in flight on each
FLAGS = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")
# 20,000 items/s in steps of 32, 1.6 ms each: what a card does with a model of some hundred million parameters. The
# host needs about a tenth of a core for it. In steps of 6, of 0.4 ms, it is late sooner.
_PROFILE = """name = "neighbours"
status = "estimated"
source = "chosen, so that the device is the limit and not the host"
task = "embed"
[step]
fixed_us = 128
per_token_us = 0.0
per_item_us = 46
[host]
launch_us = 12.8
"""
_ITEMS, _FEW_ITEMS = 32, 6
# Steps in flight on the modelled device, the running one included, and the flags that allow so many.
IN_FLIGHT = {
    1: ("--async-steps", "off", "--lanes", "1"),
    2: ("--lanes", "1"),  # the default of a modelled device
    4: ("--lanes", "2"),
    8: ("--lanes", "4"),
}
_GPU_STEPS = 4  # the default of a GPU


class Run(NamedTuple):
    """One run: answers per second, and their p99 from the write of the request in µs. ``failed``: calls of a peer."""

    rate: float
    p99_us: float
    failed: int = 0


@dataclass
class Server:
    """A server and its runs by neighbour. ``accept``: % that it is to keep.

    ``own_session``: the neighbours have one, so that half of the core is the server's, however many they are.
    """

    name: str
    load: Callable[[float], Run]  # by seconds
    accept: float | None = None
    neighbours: Sequence[str] = NEIGHBOURS
    own_session: bool = False
    runs: dict[str, list[Run]] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = {name: [] for name in (ALONE, *self.neighbours)}

    def measure(self, seconds: float) -> None:
        """One round: alone, then beside each neighbour."""
        for name, runs in self.runs.items():
            with contextlib.nullcontext() if name == ALONE else self._beside(name):
                runs.append(self.load(seconds))

    def _beside(self, name: str) -> AbstractContextManager[object]:
        return beside(name, [SERVER_CPU], own_session=self.own_session)

    def rate(self, name: str) -> float:
        return statistics.median(run.rate for run in self.runs[name])

    def p99_ms(self, name: str) -> float:
        return statistics.median(run.p99_us for run in self.runs[name]) / 1e3

    def failed(self, name: str) -> int:
        return sum(run.failed for run in self.runs[name])


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All servers in turn, alone and beside each neighbour."""
    install_mosec()
    payloads = write_messages(folder / "neighbours", map(request, texts(1000)))
    (folder / "neighbours.toml").write_text(_PROFILE)
    sim = ("--device", f"sim:{folder / 'neighbours.toml'}")

    def modelled(items: int, steps: int) -> Callable[[float], Run]:
        size = ("--max-batch-items", str(items))
        server = stack.enter_context(ServerProcess(*FLAGS, *sim, *size, *IN_FLIGHT[steps], cpus=[SERVER_CPU]))
        return _grpc(server.address, payloads, SIM_LOAD)

    with contextlib.ExitStack() as stack:
        null_server = stack.enter_context(ServerProcess(*FLAGS, "--device", "null", cpus=[SERVER_CPU]))
        echo, _ = stack.enter_context(grpc_echo())
        mosec_address, mosec_server = mosec(SERVER_CPU)
        stack.enter_context(mosec_server)
        device = modelled(_ITEMS, _GPU_STEPS)
        servers = [
            Server("fastqps", _grpc(null_server.address, payloads, DEEP)),
            Server("grpc.aio echo", _grpc(echo, payloads, DEEP, may_fail=True)),
            Server("mosec echo", _http(mosec_address, folder)),
            Server("fastqps, modelled device", device),
            *([Server(HALF_A_CORE, device, KEPT_MIN, own_session=True)] if autogroups() else []),
            *(
                Server(f"… steps of 0.4 ms, {steps} in flight", modelled(_FEW_ITEMS, steps), neighbours=["spinner"])
                for steps in IN_FLIGHT
            ),
        ]
        for _ in range(repetitions):
            for server in servers:
                server.measure(seconds)
    return rows(servers), [
        {"name": f"{server.name}, {name}", "runs": [run._asdict() for run in runs]}
        for server in servers
        for name, runs in server.runs.items()
    ]


def rows(servers: list[Server]) -> list[Row]:
    """For each neighbour and server the share of the rate that it kept, and p99."""
    found = []
    for name in NEIGHBOURS:
        for server in (server for server in servers if name in server.runs):
            alone, kept = server.rate(ALONE), server.rate(name) / server.rate(ALONE)
            note = f"of {alone:,.0f}/s alone"
            found.append(Row(f"{server.name} beside {name}: kept", 100 * kept, "%", server.accept, note=note))
            note = f"{server.p99_ms(ALONE):.3g} ms alone"
            note += f"; {server.failed(name)} calls failed" if server.failed(name) else ""
            found.append(Row("… p99", server.p99_ms(name), "ms", note=note))
    return found


def _grpc(address: str, payloads: Path, load: tuple[int, int], *, may_fail: bool = False) -> Callable[[float], Run]:
    def run(seconds: float) -> Run:
        found = loadgen(address, PREDICT, payloads, Load(*load, seconds, WARMUP_S), LOAD_CPU, may_fail=may_fail)
        failed = sum(n for status, n in found["status_with_warmup"].items() if status != "OK")
        return Run(float(found["rate"]), float(found["service_time_us"]["p99"]), failed)

    return run


def _http(address: str, folder: Path) -> Callable[[float], Run]:
    echo = HttpRequest("/inference", bytes(4 * 384), {"Content-Type": "application/octet-stream"})
    script = echo.write(folder / "wrk")

    def run(seconds: float) -> Run:
        found = wrk(address, echo.path, script, seconds, LOAD_CPU)
        return Run(found.rate, found.p99_us)

    return run
