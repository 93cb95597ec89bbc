"""An edge in front of servers: what the hop costs and adds, and what the edge gets of the servers' capacity.

Nothing is computed (the null device) where the host path is measured. The edge and its server each have a core where
their CPU time is compared; where the rate of the edge's core is asked for, the server shares the other one with the
load, which is its limit then as often as the edge is. Modelled servers and their edges share a core, which they leave
mostly idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.load import Load
from bench.openloop import OPEN
from bench.runner import LOAD_CPU, ONE_OF_EACH, Bench, Claim, Measure, Subject, counted
from bench.texts import request, texts, write_body
from bench.transport import DEEP
from fastqps.process.server_process import ServerProcess

LANES = 2
FAIR = Load(16, 64 * LANES // 16)  # 64 in flight on each connection to the server
PACE = 20_000  # calls per second, fewer than either can do: a server that is not busy takes fewer with each wake-up
_IN_FLIGHT = {"fair": 16 * FAIR.inflight, "deep": 16 * DEEP.inflight}
# Modelled servers: one, two and four, and two unequal ones.
SERVERS = (1, 2, 4)
STEP_ITEMS = 32
FAST_US, SLOW_US = 250, 1000  # of the device for an item, in full steps
IN_FLIGHT = 16 * STEP_ITEMS  # for each server: its steps are always full
BUSY = 0.8  # of the capacity, where times are compared
OF_SUM = 97  # percent


def _cpu(name: str, subject: str, baseline: str, accept: float | None, goal: float | None = None) -> Claim:
    return Claim(name, "×", subject, baseline, accept, goal, at_most=True, figure="cpu_us")


CLAIMS = (
    *(
        _cpu(
            f"server behind an edge, {_IN_FLIGHT[load]} in flight: CPU per request",
            f"server behind an edge, {load}", f"server alone, {load}", *marks,
        )
        for load, marks in (("fair", (0.6, 0.3)), ("deep", (None, None)))
    ),
    _cpu("edge: CPU per request", "edge, small", "server alone, small", 1.3),
    *(
        _cpu(f"{name}: CPU per request at {PACE:,}/s", f"{name}, paced", "server alone, paced", accept)
        for name, accept in (("server behind an edge", 0.6), ("edge", 1.3))
    ),
    Claim("edge: rate of one core", "×", "edge, small", "server alone, small", 0.6),
    Claim(
        "edge: added p50, one in flight", "µs", "one in flight, by an edge", "one in flight, server alone", 150,
        at_most=True, figure="service_p50_us", combine=lambda a, b: a["service_p50_us"] - b["service_p50_us"],
    ),
)  # fmt: skip
ROUTING = (
    *(
        Claim(f"edge before {n} modelled servers: of their sum", "%", f"{n} servers", "1 alone", OF_SUM, scale=100 / n)
        for n in SERVERS
    ),
    Claim(
        "… before two unequal ones", "%", "unequal", "1 alone", OF_SUM, scale=100 / (1 + FAST_US / SLOW_US),
    ),
    Claim(
        "… p99 over the slow one's own", "×", "unequal, steady", "slow alone, steady", 1.5, at_most=True,
        figure="service_p99_us",
    ),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """All points in turn, of the hop and then of the routing."""
    bench.measure(_hop(bench), CLAIMS)
    bench.measure(_routing(bench), ROUTING)


def _hop(bench: Bench) -> Iterator[Subject]:
    one = bench.write(map(request, texts(1)))
    full, small = (
        write_body(bench.folder / f"body-{dimensions}", request(texts(1)[0], dimensions)) for dimensions in (0, 4)
    )
    null, remote = (
        (*ONE_OF_EACH, "--device", "null"),
        (*ONE_OF_EACH, "--device", "remote", "--lanes", str(LANES), "--upstream"),
    )
    server, beside = bench.server(*null), bench.server(*null, cpus=[LOAD_CPU])
    edge_beside, edge = bench.server(*remote, server.address, cpus=[LOAD_CPU]), bench.server(*remote, beside.address)

    def subject(name: str, load: Measure, of: ServerProcess = server) -> Subject:
        return Subject(name, counted(of, load), of.pid)

    for name, load in (("fair", FAIR), ("deep", DEEP)):
        yield subject(f"server alone, {name}", bench.h2load(server.address, full, load))
        yield subject(f"server behind an edge, {name}", bench.h2load(edge_beside.address, full, load))
    yield subject("server alone, small", bench.h2load(server.address, small, DEEP))
    yield subject("edge, small", bench.h2load(edge.address, small, DEEP), edge)
    yield subject("server alone, paced", bench.grpc(server.address, one, OPEN, rate=PACE))
    yield subject("server behind an edge, paced", bench.grpc(edge_beside.address, one, OPEN, rate=PACE))
    yield subject("edge, paced", bench.grpc(edge.address, one, OPEN, rate=PACE), edge)
    yield Subject("one in flight, server alone", bench.grpc(server.address, one, Load(1, 1)))
    yield Subject("one in flight, by an edge", bench.grpc(edge.address, one, Load(1, 1)))


def _routing(bench: Bench) -> Iterator[Subject]:
    payloads = bench.write(map(request, texts(2000)))

    def profile(name: str, item_us: float) -> Path:
        """A device for steps of STEP_ITEMS, of which a tenth is fixed."""
        return bench.profile(name, 12.8, fixed_us=0.1 * item_us * STEP_ITEMS, per_item_us=0.9 * item_us)

    def server(profile: Path) -> str:
        device = ("--device", f"sim:{profile}", "--max-batch-items", str(STEP_ITEMS), "--lanes", "2")
        return bench.server(*ONE_OF_EACH, *device).address

    def edge(upstreams: Sequence[str]) -> str:
        return bench.server(*ONE_OF_EACH, "--device", "remote", *(f"--upstream={each}" for each in upstreams)).address

    def closed(address: str, servers: int) -> Measure:
        return bench.grpc(address, payloads, Load(16, servers * IN_FLIGHT // 16))

    def steady(address: str, *items_us: float) -> Measure:
        return bench.grpc(address, payloads, Load(16, 64), rate=BUSY * sum(1e6 / us for us in items_us))

    fast = profile("fast", FAST_US)
    servers, slow_server = [server(fast) for _ in range(max(SERVERS))], server(profile("slow", SLOW_US))
    both = edge([servers[0], slow_server])
    yield Subject("1 alone", closed(servers[0], 1))
    for n in SERVERS:
        yield Subject(f"{n} servers", closed(edge(servers[:n]), n))
    yield Subject("slow alone, steady", steady(slow_server, SLOW_US))
    yield Subject("unequal", closed(both, 2))
    yield Subject("unequal, steady", steady(both, FAST_US, SLOW_US))
