"""g++ on a machine without other development packages: it finds the headers and libraries of its own packages alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDERS = ("/usr/bin/", "/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/")


def bare_compiler(folder: Path) -> str:
    """The command of a g++ that sees nothing but its own packages. Skips where g++ is no Debian package."""
    if not shutil.which("dpkg-query"):
        pytest.skip("no dpkg here, which says what belongs to the compiler")
    packages = _with_dependencies("g++")
    if "g++" not in packages:
        pytest.skip("the Debian package g++ is not installed")
    for listed in _output("dpkg-query", "--listfiles", *sorted(packages)).splitlines():
        path = Path(listed if listed.startswith("/usr/") else f"/usr{listed}")  # /lib is a link to /usr/lib
        if str(path).startswith(FOLDERS) and path.exists() and not path.is_dir():
            link = folder / path.relative_to("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(path.resolve())
    for name in ("lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    # Not canonical: the compiler looks for its own files beside the link to itself, not beside what the link points to.
    return f"{folder}/usr/bin/g++ -no-canonical-prefixes --sysroot={folder}"


def _with_dependencies(package: str) -> set[str]:
    """The installed packages that this one needs, in any number of steps, with itself."""
    form = "${Package}\\t${db:Status-Status}\\t${Provides}\\t${Depends}\\n"
    needs: dict[str, list[str]] = {}
    providers: dict[str, str] = {}
    for line in _output("dpkg-query", "--show", f"--showformat={form}").splitlines():
        name, status, provided, depends = line.split("\t")
        if status == "installed":
            needs[name] = re.findall(r"(?:^|[,|] )([^ ,:]+)", depends)
            providers |= dict.fromkeys(re.findall(r"(?:^|, )([^ ,]+)", provided), name)
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = waiting.pop()
        name = name if name in needs else providers.get(name, "")
        if name in needs and name not in found:
            found.add(name)
            waiting += needs[name]
    return found


def _output(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
