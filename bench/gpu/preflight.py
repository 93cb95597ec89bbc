"""What this machine has and lacks for the suite, all of it at once, before anything is built or measured.

It imports neither torch nor an extension of ours: both may be what is missing.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.gpu import machine
from bench.gpu.plan import STEPS

ROOT = Path(__file__).parents[2]
PYTHON = (
    "torch", "triton", "numpy", "safetensors", "tokenizers", "transformers", "setuptools", "pybind11", "grpc",
    "google.protobuf", "uvloop", "setproctitle", "prometheus_client", "pynvml", "hdrh", "pytest", "pytest_timeout",
)  # fmt: skip
HEADERS = (
    "nghttp2/nghttp2.h", "simdjson.h", "openssl/ssl.h", "zlib.h", "nlohmann/json.hpp",
    "boost/beast/http/basic_parser.hpp", "Python.h",
)  # fmt: skip
LIBRARIES = ("nghttp2", "simdjson", "ssl", "crypto", "z")
DISK_GIB, MEMORY_GIB, SHM_MIB = 12.0, 16.0, 256.0  # wanted: checkpoints and caches, a model with its cache, MPS clients
MPS = "nvidia-cuda-mps-control"
_OF_DISPATCHERS = tuple(step for step in STEPS if step.startswith("dispatchers:"))


@dataclass(frozen=True)
class Lack:
    """Something that is missing. ``stops``: no step can run without it; else ``steps`` are left out, or poorer."""

    what: str
    stops: bool = False
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """``facts`` go into the results. ``gpu``: whether torch can use one."""

    facts: dict[str, Any]
    lacks: list[Lack]
    gpu: bool

    @property
    def stops(self) -> bool:
        return any(lack.stops for lack in self.lacks)

    def without(self) -> dict[str, str]:
        """Why, by step, for those that are left out."""
        return {step: lack.what for lack in self.lacks for step in lack.steps}

    def describe(self) -> Iterator[str]:
        """Lines for people: facts, then everything that is missing."""
        yield from (f"{key:<24} {value}" for key, value in self.facts.items())
        kinds = (("missing, without which nothing runs", True), ("missing or small", False))
        for title, stops in kinds:
            if listed := [lack for lack in self.lacks if lack.stops == stops]:
                yield f"{title}:"
                yield from (f"  {lack.what}{_cost(lack)}" for lack in listed)


def _cost(lack: Lack) -> str:
    return f"; left out: {', '.join(lack.steps)}" if lack.steps else ""


def examine(built: bool) -> Found:
    """Looks at everything. ``built``: the extensions load, so what compiles them is not needed."""
    with ThreadPoolExecutor(3) as pool:
        gpu, compiled = pool.submit(machine.gpu), pool.submit(_compiler, built)
        facts = _facts(machine.environment())
        found, building = gpu.result(), compiled.result()
    lacks = [*_python(), *building]
    if "gpu" not in found:
        lacks.append(Lack(f"a GPU: {found['why']}", stops=True))
    facts |= {key: value for key, value in found.items() if key != "why"}
    return Found(facts, [*lacks, *_resources(facts)], "gpu" in found)


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The machine's, beside those of ``machine``."""
    kit = Path(os.environ.get("KIT") or ROOT / "build/gpu-kit")
    shm, disk = shutil.disk_usage("/dev/shm"), shutil.disk_usage(ROOT)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return facts | {
        "mps": shutil.which(MPS) or "missing",
        "kit": str(kit) if (kit / "versions").is_file() else "none",
        "disk_free_gib": round(disk.free / 2**30, 1),
        "shm_mib": shm.total >> 20,
        "locked_memory": "unlimited" if locked == resource.RLIM_INFINITY else f"{locked >> 10} KiB",
    }


def _python() -> Iterator[Lack]:
    """Packages: those that every step needs, and those of single steps."""
    if missing := [name for name in PYTHON if not installed(name)]:
        yield Lack(f"Python packages: {', '.join(missing)} (make gpu-kit carries the small ones)", stops=True)
    for name in sorted({name for step in STEPS.values() for name in step.needs}):
        if not installed(name):
            yield Lack(f"Python package {name}", steps=tuple(s for s, step in STEPS.items() if name in step.needs))


def installed(name: str) -> bool:
    """Whether Python finds a module, without importing it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of its package
        return False


def _compiler(built: bool) -> Iterator[Lack]:
    """A compiler for triton; a C++ one, headers and libraries for the extensions, where those are not built."""
    c, cxx = os.environ.get("CC", "gcc"), os.environ.get("CXX", "g++")
    lacks = []
    if not shutil.which(c.split()[-1]):
        lacks.append(Lack(f"a C compiler ({c}): triton starts kernels with it", stops=True))
    if not shutil.which(cxx.split()[-1]):
        lacks.append(Lack(f"a C++ compiler ({cxx})", stops=not built))
        return iter(lacks)
    headers = [name for name in HEADERS if not _compiles(cxx, f"#include <{name}>\n", "-E")]
    libraries = [name for name in LIBRARIES if not _compiles(cxx, "", "-shared", f"-l{name}")]
    if missing := [*headers, *(f"lib{name}" for name in libraries)]:
        stops = not built or "Python.h" in headers  # triton includes it as well
        lacks.append(Lack(f"for the compiler: {', '.join(missing)} (make gpu-kit carries them)", stops))
    return iter(lacks)


def _compiles(cxx: str, source: str, *flags: str) -> bool:
    """Whether the compiler takes it, with the kit's folders as csrc/build.mk has them."""
    folders = [f"-I{sysconfig.get_path('include')}"]
    if kit := os.environ.get("FASTQPS_NGHTTP2"):
        folders += [f"-I{kit}/include", f"-L{kit}/lib"]
    command = [*cxx.split(), "-x", "c++", "-", "-x", "none", "-o", "/dev/null", *folders, *flags]
    try:
        return subprocess.run(command, input=source, text=True, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _resources(facts: dict[str, Any]) -> Iterator[Lack]:
    """What there is too little of, and what shares the GPU."""
    if facts["mps"] == "missing":
        yield Lack(f"{MPS}: dispatchers are measured without MPS")
    if facts["disk_free_gib"] < DISK_GIB:
        yield Lack(f"disk: {facts['disk_free_gib']} GiB free, {DISK_GIB:g} wanted for checkpoints")
    if facts["shm_mib"] < SHM_MIB:
        yield Lack(f"/dev/shm: {facts['shm_mib']} MiB, {SHM_MIB:g} wanted for MPS clients")
    if facts.get("gpu_free_gib", MEMORY_GIB) < MEMORY_GIB:
        yield Lack(f"GPU memory: {facts['gpu_free_gib']} GiB free, {MEMORY_GIB:g} wanted")
    if facts.get("gpu_processes"):
        yield Lack(f"the GPU to ourselves: other processes use it: {facts['gpu_processes']}")
    if facts.get("compute_mode", "Default") != "Default":
        yield Lack(f"compute mode Default: it is {facts['compute_mode']}", steps=_OF_DISPATCHERS)


def main() -> int:
    """``python -m bench.gpu.preflight``: prints all of it; 1 where something is missing that stops every step."""
    from bench.gpu.build import is_built

    found = examine(is_built())
    print("\n".join(found.describe()))
    return int(found.stops)


if __name__ == "__main__":
    sys.exit(main())
