"""The GPU and the software that is measured, asked in a process of its own: this one takes no CUDA context."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from fastqps.bench.results.environment import environment as own

PACKAGES = ("triton", "transformers", "sentence-transformers", "pybind11", "setproctitle", "nvidia-ml-py")
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
ASK_S = 90  # the first import from a cold disk takes long; giving up means that nothing is measured
_QUERY = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,compute_mode,mig.mode.current"


def gpu() -> dict[str, Any]:
    """What torch says of its first GPU; without ``gpu`` where it has none, with ``why`` then."""
    try:
        done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return {"why": f"torch did not say within {ASK_S} s which GPUs there are"}
    if done.returncode:
        return {"why": (done.stderr.strip().splitlines() or ["torch cannot be imported"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not found["gpus"]:
        build = "no GPU that it can use" if found["cuda"] else "been built without CUDA"
        found["why"] = f"torch has {build}"
    return found


def environment() -> dict[str, Any]:
    """The machine, its driver, and the versions of all that is compared; the GPU itself is ``gpu``'s."""
    return own(*PACKAGES) | _driver()


def _driver() -> dict[str, Any]:
    """Driver, clocks, power limit, modes, and the processes that are on the GPU already."""
    keys = ("driver", "sm_mhz_max", "memory_mhz_max", "power_limit_w", "compute_mode", "mig")
    parts = [part.strip() for part in (_ask(f"--query-gpu={_QUERY}") or [""])[0].split(",")]
    if len(parts) != len(keys) + 1:
        return {}
    others = _ask("--query-compute-apps=pid,used_memory")
    return dict(zip(keys, parts[1:], strict=True)) | ({"gpu_processes": "; ".join(others)} if others else {})


def _ask(query: str) -> list[str]:
    """Lines of nvidia-smi's answer about the first GPU; none where there is no nvidia-smi."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
