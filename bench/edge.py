"""An edge in front of a server, next to the server alone: what the hop costs each of them, and what it takes and adds.

Nothing is computed (the null device), so the host path is what is measured. The edge and its server each have a core
where their CPU time is compared; where the rate of the edge's core is asked for, the server shares the other one with
the load, which is its limit then as often as the edge is.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench import edge_routing
from bench.load import Load
from bench.openloop import OPEN
from bench.row import Row
from bench.runner import LOAD_CPU, Bench, Claim, Measure, Subject, counted
from bench.texts import request, texts, write_body
from bench.transport import DEEP
from fastqps.process.server_process import ServerProcess

FLAGS = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")
LANES = 2
FAIR = Load(16, 64 * LANES // 16)  # 64 in flight on each connection to the server
PACE = 20_000  # calls per second, fewer than either can do: a server that is not busy takes fewer with each wake-up
_IN_FLIGHT = {"fair": 16 * FAIR.inflight, "deep": 16 * DEEP.inflight}


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
)  # fmt: skip


def measure(bench: Bench) -> None:
    """All points in turn."""
    found = bench.measure(_subjects(bench), CLAIMS)
    by_edge, direct = (
        found[f"one in flight, {how}"].median("service_p50_us") for how in ("by an edge", "server alone")
    )
    note = f"{by_edge:.0f} µs, alone {direct:.0f} µs"
    bench.rows.append(Row("edge: added p50, one in flight", by_edge - direct, "µs", 150.0, at_most=True, note=note))
    edge_routing.measure(bench)


def _subjects(bench: Bench) -> Iterator[Subject]:
    one = bench.write(map(request, texts(1)))
    whole, small = (
        write_body(bench.folder / f"body-{dimensions}", request(texts(1)[0], dimensions)) for dimensions in (0, 4)
    )
    null, remote = (*FLAGS, "--device", "null"), (*FLAGS, "--device", "remote", "--lanes", str(LANES), "--upstream")
    server, beside = bench.server(*null), bench.server(*null, cpus=[LOAD_CPU])
    edge_beside, edge = bench.server(*remote, server.address, cpus=[LOAD_CPU]), bench.server(*remote, beside.address)

    def subject(name: str, load: Measure, of: ServerProcess = server) -> Subject:
        return Subject(name, counted(of, load), of.pid)

    for name, load in (("fair", FAIR), ("deep", DEEP)):
        yield subject(f"server alone, {name}", bench.h2load(server.address, whole, load))
        yield subject(f"server behind an edge, {name}", bench.h2load(edge_beside.address, whole, load))
    yield subject("server alone, small", bench.h2load(server.address, small, DEEP))
    yield subject("edge, small", bench.h2load(edge.address, small, DEEP), edge)
    yield subject("server alone, paced", bench.grpc(server.address, one, OPEN, rate=PACE))
    yield subject("server behind an edge, paced", bench.grpc(edge_beside.address, one, OPEN, rate=PACE))
    yield subject("edge, paced", bench.grpc(edge.address, one, OPEN, rate=PACE), edge)
    yield Subject("one in flight, server alone", bench.grpc(server.address, one, Load(1, 1)))
    yield Subject("one in flight, by an edge", bench.grpc(edge.address, one, Load(1, 1)))
