"""Triton, mosec and LitServe in virtual environments of their own, each on the server's core, computing nothing."""

from __future__ import annotations

import subprocess
import sysconfig
from contextlib import AbstractContextManager
from pathlib import Path

from bench.peers.environment import ROOT, install
from bench.peers.server import free_ports, peer_server
from fastqps.bench.results.result import BenchError

Started = AbstractContextManager[subprocess.Popen[str]]
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


def triton(folder: Path, cpu: int) -> tuple[str, Started]:
    """The gRPC address of a Triton with a model of its Python backend, and the server. ``folder`` takes its files.

    PyTriton would pass each batch on to another process: about a third of this rate.
    """
    package = Path(_run(_PYTHON, "-c", "import pytriton; print(pytriton.__path__[0])").strip())
    major_minor = sysconfig.get_python_version()
    model, backend = folder / "models/minilm", folder / "backends/python"
    (model / "1").mkdir(parents=True)
    backend.mkdir(parents=True)
    (model / "config.pbtxt").write_text(_TRITON)
    (model / "1/model.py").symlink_to(ROOT / "bench/peers/triton_model.py")
    stub = package / "tritonserver/python_backend_stubs" / major_minor / "triton_python_backend_stub"
    for path in (*(package / "tritonserver/backends/python").glob("*.*"), stub):
        (backend / path.name).symlink_to(path)
    grpc, http = free_ports(2)
    command = [str(package / "tritonserver/bin/tritonserver"), "--allow-metrics=false", "--exit-timeout-secs=5"]
    command += [f"--model-repository={model.parent}", f"--backend-directory={backend.parent}"]
    command += [f"--grpc-port={grpc}", f"--http-port={http}", "--grpc-address=127.0.0.1", "--http-address=127.0.0.1"]
    # The backend finds its packages by the first Python on PATH, and has to load the library of that very Python.
    libraries = f"{sysconfig.get_config_var('LIBDIR')}:{package.parent / 'nvidia_pytriton.libs'}"
    ready = f"http://127.0.0.1:{http}/v2/health/ready"
    return f"127.0.0.1:{grpc}", peer_server(command, ready, cpu, _path() | {"LD_LIBRARY_PATH": libraries})


def mosec(cpu: int) -> tuple[str, Started]:
    """The HTTP address of a mosec that echoes bodies, and the server."""
    (port,) = free_ports(1)
    python = str(MOSEC_FOLDER / "bin/python")
    command = [python, "-m", "bench.peers.serve_mosec", "--address", "127.0.0.1", "--port", str(port)]
    return f"127.0.0.1:{port}", peer_server(command, f"http://127.0.0.1:{port}/", cpu, _path(MOSEC_FOLDER))


def litserve(cpu: int) -> tuple[str, Started]:
    """The HTTP address of a LitServe that answers texts by JSON, and the server."""
    (port,) = free_ports(1)
    command = [_PYTHON, "-m", "bench.peers.serve_litserve", str(port)]
    return f"127.0.0.1:{port}", peer_server(command, f"http://127.0.0.1:{port}/health", cpu, _path())


def _path(folder: Path = FOLDER) -> dict[str, str]:
    return {"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout
