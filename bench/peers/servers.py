"""Triton, mosec and LitServe in virtual environments of their own, each on the server's core, computing nothing."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.peers.process import ROOT, install, run
from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError

Served = AbstractContextManager[tuple[str, int]]  # address, pid
_START_S, _STOP_S = 120.0, 10.0
FOLDER, MOSEC_FOLDER = ROOT / "build/protocol_peers", ROOT / "build/mosec"
_PYTHON = str(FOLDER / "bin/python")
_PACKAGES = ("nvidia-pytriton==0.7.0", "litserve==0.2.19")  # the first one for its tritonserver
_MOSEC_PACKAGES = ("mosec==0.9.8",)
_BATCH = 64
_TRITON = f"""backend: "python"
max_batch_size: {_BATCH}
input {{ name: "text" data_type: TYPE_STRING dims: [1] }}
output {{ name: "embedding" data_type: TYPE_FP32 dims: [384] }}
dynamic_batching {{ }}
"""


def install_servers() -> None:
    """Once. ``BenchError`` where they cannot be installed."""
    install(FOLDER, _PACKAGES)
    install_mosec()


def install_mosec() -> None:
    """Once, and alone: it is small. ``BenchError`` where it cannot be installed."""
    install(MOSEC_FOLDER, _MOSEC_PACKAGES)


def triton(folder: Path, cpu: int) -> Served:
    """A Triton with a model of its Python backend, by gRPC. ``folder`` takes its files.

    PyTriton would pass each batch on to another process: about a third of this rate.
    """
    package = Path(run(_PYTHON, "-c", "import pytriton; print(pytriton.__path__[0])").strip())
    model, backend = folder / "models/minilm", folder / "backends/python"
    (model / "1").mkdir(parents=True)
    backend.mkdir(parents=True)
    (model / "config.pbtxt").write_text(_TRITON)
    (model / "1/model.py").symlink_to(ROOT / "bench/peers/triton_model.py")
    stub = package / "tritonserver/python_backend_stubs" / sysconfig.get_python_version() / "triton_python_backend_stub"
    for path in (*(package / "tritonserver/backends/python").glob("*.*"), stub):
        (backend / path.name).symlink_to(path)
    grpc, http = _free_port(), _free_port()
    command = [str(package / "tritonserver/bin/tritonserver"), "--allow-metrics=false", "--exit-timeout-secs=5"]
    command += [f"--model-repository={model.parent}", f"--backend-directory={backend.parent}"]
    command += [f"--grpc-port={grpc}", f"--http-port={http}", "--grpc-address=127.0.0.1", "--http-address=127.0.0.1"]
    # The backend finds its packages by the first Python on PATH, and has to load the library of that very Python.
    libraries = f"{sysconfig.get_config_var('LIBDIR')}:{package.parent / 'nvidia_pytriton.libs'}"
    return _served(command, grpc, f"127.0.0.1:{http}/v2/health/ready", cpu, FOLDER, LD_LIBRARY_PATH=libraries)


def mosec(cpu: int) -> Served:
    """A mosec that echoes bodies, by HTTP."""
    port, python = _free_port(), str(MOSEC_FOLDER / "bin/python")
    command = [python, "-m", "bench.peers.serve_mosec", "--address", "127.0.0.1", "--port", str(port)]
    return _served(command, port, f"127.0.0.1:{port}/", cpu, MOSEC_FOLDER)


def litserve(cpu: int) -> Served:
    """A LitServe that answers texts by JSON, by HTTP."""
    port = _free_port()
    command = [_PYTHON, "-m", "bench.peers.serve_litserve", str(port)]
    return _served(command, port, f"127.0.0.1:{port}/health", cpu, FOLDER)


@contextlib.contextmanager
def _served(
    command: Sequence[str], port: int, health: str, cpu: int, folder: Path, **environment: str
) -> Iterator[tuple[str, int]]:
    """A server that answers a GET of ``health`` from ``with`` on; it is asked to end at the end."""
    environment |= {"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"}
    options: dict[str, Any] = {
        "end_s": _STOP_S,
        "cwd": ROOT,
        "env": {**os.environ, **environment},
        "stderr": subprocess.STDOUT,
    }
    command = ["taskset", "-c", str(cpu), *command]
    with tempfile.TemporaryFile("w+") as log, child_process(command, stdout=log, **options) as process:
        deadline = time.monotonic() + _START_S
        while not _answers(f"http://{health}"):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise BenchError(f"{' '.join(command)} was not ready; it said:\n{log.read().strip()[-1000:]}")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}", process.pid


def _answers(health: str) -> bool:
    try:
        with urllib.request.urlopen(health, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500  # not before its workers are there
    except OSError:
        return False


def _free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
