"""The cost of an idle server: memory, idle CPU, and its time to become ready."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.load import PREDICT, Load, loadgen
from bench.row import Row
from bench.texts import request, texts
from fastqps.bench.measure.processes import cpu_by_role, usage
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

IDLE_S = 10.0
MIB = 1 << 20


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """One server with MiniLM on the CPU device, before and after some work. Once, whatever ``repetitions`` says."""
    del repetitions
    payloads = write_messages(folder / "light", map(request, texts(256)))
    with ServerProcess("--model", "minilm", "--device", "cpu", "--frontdoors", "1", "--dispatchers", "2") as server:
        loadgen(server.address, PREDICT, payloads, Load(8, 16, seconds))
        before = cpu_by_role(server.pid)
        time.sleep(IDLE_S)
        idle = {role: (spent - before[role]) / IDLE_S for role, spent in cpu_by_role(server.pid).items()}
        del idle["kernel"]  # contained in the others
        processes = usage(server.pid)
    doors = [p for p in processes if "frontdoor" in p.title]
    door = max(p.resident_bytes for p in doors)
    shared = max(p.shared_bytes for p in doors)
    by_role = ", ".join(f"{role} {100 * share:.2f}" for role, share in idle.items())
    rows = [
        Row("front door, resident", door / MIB, "MiB", 120, at_most=True, note=f"{shared / MIB:.0f} MiB of it shared"),
        Row("idle server, of a core", 100 * sum(idle.values()), "%", 2, at_most=True, note=by_role),
        Row("start to ready with MiniLM", server.ready_after_s, "s", 10, at_most=True),
    ]
    points = [{"name": p.title, "resident": p.resident_bytes, "shared": p.shared_bytes} for p in processes]
    return rows, points
