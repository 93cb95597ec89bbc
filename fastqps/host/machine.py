"""The resources that this process may use: cores, CPU quota, memory, a cache folder, the time of day."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

CPUS_MAX = 4096


def allowed_cpus() -> tuple[int, ...]:
    """The CPUs that this process may run on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def parse_cpus(text: str) -> tuple[int, ...]:
    """ "0-3,8", as the kernel and people write lists of CPUs. ``ValueError`` names the part that makes no sense."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 16:
            raise ValueError(f"{part.strip()!r} is no CPU and no range of them")
        low, high = int(first), int(last or first)
        if not low <= high < CPUS_MAX:
            raise ValueError(f"{part.strip()} is not a range of CPUs")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def usable_cores(cpus: int | None = None) -> int:
    """Whole cores to plan with: the allowed CPUs (or ``cpus`` of them), less where a cgroup quota gives less."""
    count = len(allowed_cpus()) if cpus is None else cpus
    quota = cgroup().cpu_quota_cores
    return count if quota is None else max(1, min(count, int(quota)))


def cpu_flags() -> frozenset[str]:
    """The CPU's feature flags in the kernel's names; empty if the kernel does not list them."""
    for line in text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def cpu_model() -> str:
    """The CPU's name as the kernel reports it, or else the architecture's."""
    for line in text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def cache_folder(name: str) -> Path | None:
    """A folder of this user that is kept between starts. None: there is none that can be written to."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "fastqps" / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home, as containers have
        return None
    return path if os.access(path, os.W_OK) else None


def now_utc() -> str:
    """The time of a measurement: ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def bfloat16_flags() -> tuple[str, ...]:
    """The CPU's flags for bf16 products. ``--dtype auto`` takes bf16 if there is one."""
    return tuple(flag for flag in ("amx_bf16", "avx512_bf16") if flag in cpu_flags())


def memory_bytes() -> int:
    """The machine's memory, or less where a cgroup's limit is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = cgroup().memory_limit_bytes
    return total if limit is None else min(total, limit)


def memory_used_bytes(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """The part of ``memory_bytes`` in use that cannot simply be reclaimed; this cgroup's, where it has a limit."""
    if cgroup(root, own).memory_limit_bytes is not None:
        for folder, name, cache in (
            (root / _own_path(own, ""), "memory.current", "inactive_file"),
            (root / "memory" / _own_path(own, "memory"), "memory.usage_in_bytes", "total_inactive_file"),
            (root / "memory", "memory.usage_in_bytes", "total_inactive_file"),
            (root, "memory.current", "inactive_file"),
        ):
            if (used := text_of(folder / name)).isdigit():
                return max(0, int(used) - _field(text_of(folder / "memory.stat"), cache))
    return meminfo("MemTotal") - meminfo("MemAvailable")


def meminfo(key: str) -> int:
    """Bytes, or a plain number where /proc/meminfo gives none in kB; 0 if the key is missing."""
    for line in text_of(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == key:
            number, *unit = value.split()
            return int(number) * (1024 if unit == ["kB"] else 1)
    return 0


def _field(text: str, name: str) -> int:
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")), 0)


@dataclass(frozen=True)
class Cgroup:
    """Limits of this process's control group; None: no limit."""

    version: int  # 0: none found
    cpu_quota_cores: float | None
    memory_limit_bytes: int | None


def cgroup(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Cgroup:
    """Reads version 1 or 2. A limit of any ancestor counts: the smallest holds."""
    if (root / "cgroup.controllers").is_file():
        return _cgroup2(root, _own_path(own, ""))
    if (root / "cpu").is_dir() or (root / "memory").is_dir():
        return _cgroup1(root, own)
    return Cgroup(0, None, None)


def _cgroup2(root: Path, path: str) -> Cgroup:
    quotas: list[float] = []
    memory: list[int] = []
    for folder in _up_from(root, path):
        quota, _, period = text_of(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            quotas.append(int(quota) / int(period))
        limit = text_of(folder / "memory.max")
        if limit.isdigit():
            memory.append(int(limit))
    return Cgroup(2, min(quotas, default=None), min(memory, default=None))


def _cgroup1(root: Path, own: Path) -> Cgroup:
    quotas: list[float] = []
    for folder in _up_from(root / "cpu", _own_path(own, "cpu")):
        quota, period = text_of(folder / "cpu.cfs_quota_us"), text_of(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(int(quota) / int(period))
    memory: list[int] = []
    for folder in _up_from(root / "memory", _own_path(own, "memory")):
        limit = text_of(folder / "memory.limit_in_bytes")
        if limit.isdigit() and int(limit) < 1 << 60:  # "no limit" is a huge number
            memory.append(int(limit))
    return Cgroup(1, min(quotas, default=None), min(memory, default=None))


def _own_path(own: Path, controller: str) -> str:
    for line in text_of(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def _up_from(root: Path, path: str) -> list[Path]:
    """``root/path`` and all folders above it up to ``root``; those that a container hides are simply not there."""
    folder = root / path
    folders = [folder, *folder.parents]
    return [f for f in folders if f == root or root in f.parents]


def text_of(path: Path) -> str:
    """The content of a file of the kernel; "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
