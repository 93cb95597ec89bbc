"""The load generator itself: how much one core of it can ask for, and whether it sees what h2load sees."""

from __future__ import annotations

from bench.load import Load
from bench.result_file import Row
from bench.runner import Bench, Claim, Subject, apart
from bench.texts import request, texts, write_body
from bench.transport import DEEP, printing_server

OFFERED = 300_000  # calls per second of the open loop
KNOWN = 50_000  # calls per second of a server that takes no longer and no shorter
OPEN = Load(16, 256)  # so many streams that hardly any call waits for one

CLAIMS = (
    Claim("loadgen on one core, closed loop, to a native echo", "/s", "closed", accept=300_000),
    Claim("h2load in the same run", "/s", "h2load"),
)


def measure(bench: Bench) -> None:
    """A native echo on one core, the generators in turn on the other; then a server whose rate is known."""
    payloads = bench.write(map(request, texts(1)))
    body = write_body(bench.folder / "body", request(texts(1)[0]))
    constant = ("--service", f"{10**9 // KNOWN}ns")
    echo, known = (f"127.0.0.1:{bench.start(printing_server('loadgen.server', *more))[0]}" for more in ((), constant))
    subjects = bench.measure(
        [
            Subject("closed", bench.grpc(echo, payloads, DEEP)),
            Subject("h2load", bench.h2load(echo, body, DEEP)),
            Subject("open", bench.grpc(echo, payloads, OPEN, rate=OFFERED)),
            Subject("closed, known", bench.grpc(known, payloads, DEEP)),
            Subject("h2load, known", bench.h2load(known, body, DEEP)),
        ],
        CLAIMS,
    )
    bench.rows.append(_offered(subjects["open"]))
    both = apart(f"loadgen apart from h2load, {KNOWN:,}/s server", "closed, known", "h2load, known", 10)
    bench.rows.append(both.row(subjects))


def _offered(subject: Subject) -> Row:
    """A run in which the generator was late by itself is no proof that it can ask for so much."""
    on_time = [run["rate"] for run in subject.runs if not run["not_valid"]]
    kept = sorted(on_time)[len(on_time) // 2] if on_time else 0.0
    note = f"{len(on_time)} of {len(subject.runs)} runs VALID"
    note += f"; best: own lateness p99 {min(subject.values('own_lateness_p99_us')):,.0f} µs"
    return Row(f"loadgen, open loop, {OFFERED:,}/s offered", kept, "/s", 0.995 * OFFERED, note=note)
