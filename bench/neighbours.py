"""Measures servers beside noisy neighbours: each server on one core with its neighbour, the load on the other core.

The servers compute nothing, so that the host path is what suffers. Others have a modelled device that is their limit:
the host has to keep that busy with what its neighbour leaves of the core, and prepares more or fewer steps ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench.load import CONNECTIONS, Load
from bench.noise import PROGRAMS, autogroups, beside
from bench.peers.servers import install_mosec, mosec
from bench.protocols import ECHO, http_load
from bench.result_file import Row
from bench.runner import ONE_OF_EACH, SERVER_CPU, Bench, Claim, Measure, Run, Subject, Subjects
from bench.texts import request, texts
from bench.transport import printing_server

ALONE = "alone"
NEIGHBOURS = tuple(PROGRAMS)
HALF_A_CORE = "… half of the core its own"  # of the server before
KEPT_MIN = 95  # % of the modelled device's rate
WARMUP_S = 0.5
DEEP, SIM_LOAD = Load(16, 64, warmup_s=WARMUP_S), Load(CONNECTIONS, 8, warmup_s=WARMUP_S)
# 20,000 items/s in steps of 32, 1.6 ms each: what a card does with a model of some hundred million parameters. The
# host needs about a tenth of a core for it. In steps of 6, of 0.4 ms, it is late sooner.
_DEVICE = {"fixed_us": 128, "per_item_us": 46, "launch_us": 12.8}
_ITEMS, _FEW_ITEMS = 32, 6
# Steps in flight on the modelled device, the running one included, and the flags that allow so many.
IN_FLIGHT = {
    1: ("--async-steps", "off", "--lanes", "1"),
    2: ("--lanes", "1"),  # the default of a modelled device
    4: ("--lanes", "2"),
    8: ("--lanes", "4"),
}
_GPU_STEPS = 4  # the default of a GPU


@dataclass(frozen=True)
class Server:
    """``accept``: % of its rate that it is to keep. ``own_session``: the neighbours have one, so that half of the core
    is the server's, however many they are."""

    name: str
    load: Measure
    accept: float | None = None
    neighbours: Sequence[str] = NEIGHBOURS
    own_session: bool = False

    def subjects(self) -> Iterator[Subject]:
        """Alone, then beside each neighbour."""
        yield Subject(f"{self.name}, {ALONE}", self.load)
        for name in self.neighbours:
            yield Subject(f"{self.name}, {name}", partial(self._beside, name))

    def _beside(self, name: str) -> Run:
        with beside(name, SERVER_CPU, own_session=self.own_session):
            return self.load()


def measure(bench: Bench) -> None:
    """All servers in turn, alone and beside each neighbour."""
    install_mosec()
    servers = list(_servers(bench))
    subjects = bench.measure(subject for server in servers for subject in server.subjects())
    bench.rows += rows(servers, subjects)


def _servers(bench: Bench) -> Iterator[Server]:
    payloads = bench.write(map(request, texts(1000)))
    profile = bench.profile("neighbours", **_DEVICE)

    def modelled(items: int, steps: int) -> Measure:
        device = ("--device", f"sim:{profile}", "--max-batch-items", str(items))
        return bench.grpc(bench.server(*ONE_OF_EACH, *device, *IN_FLIGHT[steps]).address, payloads, SIM_LOAD)

    null, (echo, _) = bench.server(*ONE_OF_EACH, "--device", "null"), bench.start(printing_server("bench.grpcio_echo"))
    mosec_address, _ = bench.start(mosec(SERVER_CPU))
    device = modelled(_ITEMS, _GPU_STEPS)
    yield Server("fastqps", bench.grpc(null.address, payloads, DEEP))
    yield Server("grpc.aio echo", bench.grpc(echo, payloads, DEEP, may_fail=True))
    yield Server("mosec echo", http_load(bench, mosec_address, ECHO))
    yield Server("fastqps, modelled device", device)
    if autogroups():
        yield Server(HALF_A_CORE, device, KEPT_MIN, own_session=True)
    for steps in IN_FLIGHT:
        few = modelled(_FEW_ITEMS, steps)
        yield Server(f"… steps of 0.4 ms, {steps} in flight", few, neighbours=["spinner"])


def rows(servers: Sequence[Server], subjects: Subjects) -> Iterator[Row]:
    """The share of the rate that each server kept beside each neighbour, and p99."""
    for name in NEIGHBOURS:
        for server in (server for server in servers if name in server.neighbours):
            alone, disturbed = (f"{server.name}, {kind}" for kind in (ALONE, name))
            kept = Claim(f"{server.name} beside {name}: kept", "%", disturbed, alone, server.accept, scale=100)
            yield kept.row(subjects)
            note = f"{subjects[alone].median('service_p99_us') / 1e3:.3g} ms alone"
            failed = subjects[disturbed].count("failed")
            note += f"; {failed} calls failed" if failed else ""
            yield Claim("… p99", "ms", disturbed, figure="service_p99_us", scale=1e-3, note=note).row(subjects)
