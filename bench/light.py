"""The cost of an idle server: memory, idle CPU, and its time to become ready."""

from __future__ import annotations

import time

from bench.load import Load
from bench.result_file import Row
from bench.runner import Bench
from bench.texts import request, texts
from fastqps.bench.measure.processes import cpu_by_role, usage

IDLE_S = 10.0
MIB = 1 << 20


def measure(bench: Bench) -> None:
    """One server with MiniLM on the CPU device, before and after some work. Once, whatever ``repetitions`` says."""
    payloads = bench.write(map(request, texts(256)))
    server = bench.server("--model", "minilm", "--device", "cpu", "--frontdoors", "1", "--dispatchers", "2", cpus=())
    bench.grpc(server.address, payloads, Load(8, 16), cpu=None)()
    before = cpu_by_role(server.pid)
    time.sleep(IDLE_S)
    idle = {role: (spent - before[role]) / IDLE_S for role, spent in cpu_by_role(server.pid).items()}
    del idle["kernel"]  # contained in the others
    processes = usage(server.pid)
    doors = [p for p in processes if "frontdoor" in p.title]
    door = max(p.resident_bytes for p in doors)
    shared = max(p.shared_bytes for p in doors)
    by_role = ", ".join(f"{role} {100 * share:.2f}" for role, share in idle.items())
    bench.rows += [
        Row("front door, resident", door / MIB, "MiB", 120, at_most=True, note=f"{shared / MIB:.0f} MiB of it shared"),
        Row("idle server, of a core", 100 * sum(idle.values()), "%", 2, at_most=True, note=by_role),
        Row("start to ready with MiniLM", server.ready_after_s, "s", 10, at_most=True),
    ]
    bench.points += [{"name": p.title, "resident": p.resident_bytes, "shared": p.shared_bytes} for p in processes]
