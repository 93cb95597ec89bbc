"""An edge in front of one, two and four modelled servers, and of two unequal ones: what it gets of their capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.load import Load
from bench.row import Row
from bench.runner import Bench, Claim, Measure, Subject
from bench.texts import request, texts

FLAGS = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")
SERVERS = (1, 2, 4)
STEP_ITEMS = 32
FAST_US, SLOW_US = 250, 1000  # of the device for an item, in full steps
IN_FLIGHT = 16 * STEP_ITEMS  # for each server: its steps are always full
BUSY = 0.8  # of the capacity, where times are compared
OF_SUM = 97  # percent
TAIL = Claim(
    "… p99 over the slow one's own", "×", "unequal, steady", "slow alone, steady", 1.5, at_most=True,
    figure="service_p99_us",
)  # fmt: skip


def measure(bench: Bench) -> None:
    """All points in turn. Servers and edges share a core, which they leave mostly idle."""
    found = bench.measure(_subjects(bench))
    alone = found["1 alone"].median()
    sums = [(f"edge before {n} modelled servers: of their sum", f"{n} servers", n * alone) for n in SERVERS]
    both = alone + found["slow alone"].median()
    for name, subject, whole in [*sums, ("… before two unequal ones", "unequal", both)]:
        rate = found[subject].median()
        bench.rows.append(Row(name, 100 * rate / whole, "%", OF_SUM, note=f"{rate:,.0f}/s of {whole:,.0f}/s"))
    bench.rows.append(TAIL.row(found))


def _subjects(bench: Bench) -> Iterator[Subject]:
    payloads = bench.write(map(request, texts(2000)))
    fast, slow = (_profile(bench.folder, name, us) for name, us in (("fast", FAST_US), ("slow", SLOW_US)))

    def server(profile: Path) -> str:
        device = ("--device", f"sim:{profile}", "--max-batch-items", str(STEP_ITEMS), "--lanes", "2")
        return bench.server(*FLAGS, *device).address

    def edge(upstreams: Sequence[str]) -> str:
        return bench.server(*FLAGS, "--device", "remote", *(f"--upstream={each}" for each in upstreams)).address

    def closed(address: str, servers: int) -> Measure:
        return bench.grpc(address, payloads, Load(16, servers * IN_FLIGHT // 16))

    def steady(address: str, *items_us: float) -> Measure:
        return bench.grpc(address, payloads, Load(16, 64), rate=BUSY * sum(1e6 / us for us in items_us))

    servers, slow_server = [server(fast) for _ in range(max(SERVERS))], server(slow)
    both = edge([servers[0], slow_server])
    yield Subject("1 alone", closed(servers[0], 1))
    for n in SERVERS:
        yield Subject(f"{n} servers", closed(edge(servers[:n]), n))
    yield Subject("slow alone", closed(slow_server, 1))
    yield Subject("slow alone, steady", steady(slow_server, SLOW_US))
    yield Subject("unequal", closed(both, 2))
    yield Subject("unequal, steady", steady(both, FAST_US, SLOW_US))


def _profile(folder: Path, name: str, item_us: float) -> Path:
    """A device for steps of STEP_ITEMS, of which a tenth is fixed."""
    path = folder / f"{name}.toml"
    fixed_us = 0.1 * item_us * STEP_ITEMS
    path.write_text(
        f'name = "{name}"\nstatus = "estimated"\nsource = "chosen, so that the device is the limit"\ntask = "embed"\n'
        f"[step]\nfixed_us = {fixed_us}\nper_token_us = 0.0\nper_item_us = {0.9 * item_us}\n[host]\nlaunch_us = 12.8\n"
    )
    return path
