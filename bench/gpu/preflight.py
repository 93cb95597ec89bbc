"""Lists everything that this machine has and lacks for the suite, before anything is measured.

Packages, compilers, headers and the build are seen to before, by tools/gpu_check.sh. What torch says of the GPU is
asked in a process of its own: this one takes no CUDA context.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.gpu.plan import STEPS
from fastqps.bench.results.environment import environment

ROOT = Path(__file__).parents[2]
PACKAGES = ("triton", "transformers", "sentence-transformers", "pybind11", "setproctitle", "nvidia-ml-py")
LEAST = {  # fact: what is wanted of it, and for what
    "disk_free_gib": (12.0, "checkpoints and caches"),
    "shm_mib": (256.0, "MPS clients"),
    "gpu_free_gib": (16.0, "a model with its cache"),
}
MPS = "nvidia-cuda-mps-control"
_OF_DISPATCHERS = tuple(step for step in STEPS if step.startswith("dispatchers:"))
_ASK = """
import json, torch
found = {"cuda": torch.version.cuda, "gpus": torch.cuda.device_count()}
if found["gpus"]:
    p = torch.cuda.get_device_properties(0)
    found["gpu_free_gib"] = round(torch.cuda.mem_get_info(0)[0] / 2**30, 1)
    found |= {"gpu": p.name, "capability": f"{p.major}.{p.minor}", "multiprocessors": p.multi_processor_count}
    found |= {"gpu_memory_gib": round(p.total_memory / 2**30, 1), "l2_mib": getattr(p, "L2_cache_size", 0) >> 20}
print(json.dumps(found))
"""
_ASK_S = 90  # the first import from a cold disk takes long; giving up means that nothing is measured
_DRIVER = {  # what nvidia-smi calls it
    "driver": "driver_version", "sm_mhz_max": "clocks.max.sm", "memory_mhz_max": "clocks.max.mem",
    "power_limit_w": "power.limit", "compute_mode": "compute_mode", "mig": "mig.mode.current",
}  # fmt: skip


@dataclass(frozen=True)
class Lack:
    """Something that is missing or small, and the ``steps`` that are left out for it."""

    what: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """``facts`` go into the results; with ``gpu`` among them if torch can use one. Else ``why`` not."""

    facts: dict[str, Any]
    lacks: list[Lack]
    why: str

    def without(self) -> dict[str, str]:
        """Why, by step, for those that are left out."""
        return {step: lack.what for lack in self.lacks for step in lack.steps}

    def describe(self) -> Iterator[str]:
        """Lines for people: facts, then everything that is missing."""
        yield from (f"{key:<24} {value}" for key, value in self.facts.items())
        if self.lacks or self.why:
            yield "missing or small:"
        if self.why:
            yield f"  a GPU, without which nothing is measured: {self.why}"
        for lack in self.lacks:
            yield f"  {lack.what}" + (f"; left out: {', '.join(lack.steps)}" if lack.steps else "")


def examine() -> Machine:
    """Looks at everything."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_torch)
        facts = environment(*PACKAGES) | _driver() | _resources()
        facts |= asked.result()
    why = str(facts.pop("why", ""))
    return Machine(facts, list(_lacks(facts)), why)


def ask_torch() -> dict[str, Any]:
    """The facts that torch reports of its first GPU; without one, ``why`` instead of ``gpu``."""
    try:
        done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return {"why": f"torch did not say within {_ASK_S} s which GPUs there are"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["torch cannot be imported"])[-1]}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not facts["gpus"]:
        facts["why"] = f"torch has {'no GPU that it can use' if facts['cuda'] else 'been built without CUDA'}"
    return facts


def _driver() -> dict[str, Any]:
    """Driver, clocks, power limit, modes, and the processes that are on the GPU already."""
    values = [part.strip() for part in (_ask_driver(f"--query-gpu={','.join(_DRIVER.values())}") or [""])[0].split(",")]
    if len(values) != len(_DRIVER):
        return {}
    others = _ask_driver("--query-compute-apps=pid,used_memory")
    return dict(zip(_DRIVER, values, strict=True)) | ({"gpu_processes": "; ".join(others)} if others else {})


def _ask_driver(query: str) -> list[str]:
    """Lines of nvidia-smi's answer about the first GPU; none where there is no nvidia-smi."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _resources() -> dict[str, Any]:
    kit, locked = Path(os.environ.get("KIT", "")), resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "mps": shutil.which(MPS) or "missing",
        "kit": str(kit) if (kit / "versions").is_file() else "none",
        "disk_free_gib": round(shutil.disk_usage(ROOT).free / 2**30, 1),
        "shm_mib": shutil.disk_usage("/dev/shm").total >> 20,
        "locked_memory": "unlimited" if locked == resource.RLIM_INFINITY else f"{locked >> 10} KiB",
    }


def _lacks(facts: dict[str, Any]) -> Iterator[Lack]:
    """Resources that are too small, programs that share the GPU, and missing packages of single steps."""
    for name in sorted({name for step in STEPS.values() for name in step.needs}):
        if find_spec(name) is None:
            yield Lack(f"Python package {name}", tuple(s for s, step in STEPS.items() if name in step.needs))
    if facts["mps"] == "missing":
        yield Lack(f"{MPS}: dispatchers are measured without MPS")
    for name, (least, use) in LEAST.items():
        if facts.get(name, least) < least:
            yield Lack(f"{name}: {facts[name]}, {least:g} wanted for {use}")
    if facts.get("gpu_processes"):
        yield Lack(f"the GPU to ourselves: other processes use it: {facts['gpu_processes']}")
    if facts.get("compute_mode", "Default") != "Default":
        yield Lack(f"compute mode Default: it is {facts['compute_mode']}", _OF_DISPATCHERS)
