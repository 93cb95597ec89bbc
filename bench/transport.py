"""The host path without a model: the whole server on one core, the load on another one, a grpc.aio echo as baseline."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.load import Load
from bench.runner import ONE_OF_EACH, SERVER_CPU, Bench, Claim, Subject, Subjects, counted
from bench.texts import request, texts, write_body
from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError

DISTINCT = 20_000
DEEP, SINGLE = Load(16, 64), Load(16, 1)
ECHO = "grpc.aio echo"


def _parts(subjects: Subjects) -> str:
    """The CPU time of a request by process; ``kernel`` is a part of theirs."""
    roles = ("supervisor", "dispatcher", "frontdoor", "kernel")
    return ", ".join(f"{role} {subjects['deep'].median(f'{role}_us'):.2f}" for role in roles)


def _tls(subjects: Subjects) -> str:
    added_us = subjects["TLS"].median("cpu_us") - subjects["deep"].median("cpu_us")
    return f"one core, h2load; TLS costs {added_us:.2f} µs of CPU a request"


CLAIMS = (
    Claim("Predict, 384 floats, 16 × 64 in flight", "/s", "deep", accept=300e3, goal=450e3, note="one core, h2load"),
    Claim("… with 4 floats", "/s", "small answers", accept=350e3, goal=600e3, note="one core, h2load"),
    Claim("… with 16 × 1 in flight", "/s", "one in flight", accept=80e3, goal=110e3, note="one core, h2load"),
    Claim("… under TLS", "/s", "TLS", note=_tls),
    Claim("… under TLS, 16 × 1", "/s", "TLS, one in flight", note="one core, h2load"),
    Claim(f"… from {DISTINCT} distinct texts", "%", "distinct texts", "repeated text", 80, scale=100),
    Claim("… over a grpc.aio echo", "×", "deep", ECHO, 40),
    Claim("… by CPU time", "×", ECHO, "deep", figure="cpu_us"),
    Claim("host CPU per Predict", "µs", "deep", figure="cpu_us", note=_parts),
    Claim("host CPU per Predict, 16 × 1", "µs", "one in flight", figure="cpu_us"),
)


def measure(bench: Bench) -> None:
    """All points in turn with the baseline."""
    flags = (*ONE_OF_EACH, "--device", "null")
    server, secure = bench.server(*flags), bench.server(*flags, *_certificate(bench.folder))
    echo, pid = bench.start(printing_server("bench.grpcio_echo"))
    one, many = texts(1), texts(DISTINCT)
    full = write_body(bench.folder / "whole", request(one[0]))
    small = write_body(bench.folder / "small", request(one[0], dimensions=4))
    repeated, distinct = bench.write(map(request, one)), bench.write(map(request, many))
    loads = {
        "deep": (server, bench.h2load(server.address, full, DEEP)),
        "small answers": (server, bench.h2load(server.address, small, DEEP)),
        "one in flight": (server, bench.h2load(server.address, full, SINGLE)),
        "TLS": (secure, bench.h2load(secure.address, full, DEEP, "https")),
        "TLS, one in flight": (secure, bench.h2load(secure.address, full, SINGLE, "https")),
        "repeated text": (server, bench.grpc(server.address, repeated, DEEP)),
        "distinct texts": (server, bench.grpc(server.address, distinct, DEEP)),
    }
    subjects = [Subject(name, counted(of, load), of.pid) for name, (of, load) in loads.items()]
    bench.measure([*subjects, Subject(ECHO, bench.h2load(echo, full, DEEP), pid)], CLAIMS)


def _certificate(folder: Path) -> tuple[str, str]:
    """The flags of a server with one that it has signed itself. h2load believes it."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"no certificate: {done.stderr}")
    return f"--tls-cert={certificate}", f"--tls-key={key}"


@contextlib.contextmanager
def printing_server(module: str, *flags: str) -> Iterator[tuple[str, int]]:
    """The first line that a module prints on the server's CPU, its address, and its pid."""
    command = ["taskset", "-c", str(SERVER_CPU), sys.executable, "-m", module, *flags]
    with child_process(command, end_s=10, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise BenchError(f"{module} did not start")
        yield address, process.pid
