"""wrk, which speaks HTTP/1.1 without pipelining: one request for all connections, its answers counted."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fastqps.bench.results.result import BenchError

CONNECTIONS = 64
_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0}


class WrkRun(NamedTuple):
    """``rate``: answers per second; ``service_p99_us``: of all answers, from the write of the request."""

    rate: float
    answers: int
    service_p99_us: float


@dataclass(frozen=True)
class HttpRequest:
    """A POST."""

    path: str
    body: bytes
    headers: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Writes wrk's script, and the body beside it, into a folder of its own."""
        folder.mkdir()
        (folder / "body").write_bytes(self.body)
        script = [f'wrk.method, wrk.body = "POST", io.open("{folder / "body"}", "rb"):read("*a")']
        script += [f'wrk.headers["{name}"] = "{value}"' for name, value in self.headers.items()]
        (folder / "script.lua").write_text("\n".join(script) + "\n")
        return folder / "script.lua"


def wrk(address: str, path: str, script: Path, seconds: float, cpu: int) -> WrkRun:
    """One run. ``BenchError`` unless every answer was a success."""
    command = ["taskset", "-c", str(cpu), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s"]
    command += ["--timeout", "30s", "--latency", "-s", str(script), f"http://{address}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    return parse(done.stdout + done.stderr)


def parse(text: str) -> WrkRun:
    """What wrk printed."""
    found = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m),", text)
    p99 = re.search(r"^ *99% +([\d.]+)(us|ms|s|m)$", text, re.MULTILINE)
    if not found or not p99 or not int(found[1]) or "Non-2xx" in text or "Socket errors" in text:
        raise BenchError(f"wrk: {text.strip()}")
    count = int(found[1])
    return WrkRun(count / (float(found[2]) * _UNITS[found[3]]), count, 1e6 * float(p99[1]) * _UNITS[p99[2]])
