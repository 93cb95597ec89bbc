"""Runs what the Dockerfile describes without an engine: its entry with its environment, user and volume, as the first
process of namespaces of its own, on a root that cannot be written to. Needs root, and iproute2's ``ip``."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from serving import PATIENCE_S, READY, until

HERE = (
    shutil.which("ip") and not subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode
)
(PACKAGES,) = (path for path in map(Path, sys.path) if (path / "torch").is_dir())  # torch and the rest
INSIDE, OUTSIDE = "10.77.0.2", "10.77.0.1"
_CLONE_NEWNET = 0x40000000
_START = f"""
outside=$1 root=$2 environment=$3 volume=$4 user=$5 workdir=$6
shift 6
nsenter --net="$outside" ip link delete veth0 2>/dev/null || :
ip link add eth0 type veth peer name veth0 netns "$outside"
nsenter --net="$outside" sh -euc 'ip link set veth0 up; ip route add {INSIDE} dev veth0'
ip link set lo up
ip address add {INSIDE}/24 dev eth0
ip link set eth0 up

mount -t tmpfs -o mode=755 image "$root"
cd "$root"
cp -d /bin /lib* /sbin .
mkdir -p tmp proc data opt/fastqps
mount -t tmpfs tmp tmp
mount -t proc proc proc
for folder in /usr /etc /dev /sys {sys.base_prefix} {PACKAGES} "$environment"; do
    mkdir -p ".$folder"
    mount --bind -o ro "$folder" ".$folder"
done
mount --bind -o ro "$environment" opt/fastqps
mount --bind "$volume" data
mount -o remount,ro "$root"
exec chroot . setpriv --reuid "${{user%:*}}" --regid "${{user#*:}}" --clear-groups --bounding-set=-all \\
    --inh-caps=-all --no-new-privs env -i -C "$workdir" "$@"
"""


def outside() -> ThreadPoolExecutor:
    """Runs functions in a network that only its one thread is in, at the other end of a container's cable."""

    def leave() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        for command in ("ip link set lo up", f"ip address add {OUTSIDE} dev lo"):
            subprocess.run(command.split(), check=True)

    return ThreadPoolExecutor(1, initializer=leave)


@dataclass(frozen=True)
class Image:
    """What a Dockerfile says of a container. ``variables``: the words of its ENV lines."""

    entry: tuple[str, ...]
    user: str
    workdir: str
    variables: tuple[str, ...]

    def command(self, arguments: Sequence[str], more: dict[str, str]) -> list[str]:
        """The words behind ``env`` that start the entry, with ``more`` variables as by ``docker run -e``."""
        found = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        for name, _, value in (word.partition("=") for word in self.variables):
            found[name] = value.replace("$PATH", found["PATH"])
        return [*(f"{name}={value}" for name, value in (found | more).items()), *self.entry, *arguments]


@contextmanager
def running(
    image: Image, network: ThreadPoolExecutor, packages: Path, folder: Path, arguments: Sequence[str], **more: str
) -> Iterator[psutil.Process]:
    """The first process of a container, which is ready, and must end with 0.

    ``packages``: those of the environment that /opt/fastqps is. ``folder``: what is in its folder data is the volume.
    """
    thread = network.submit(threading.get_native_id).result()
    root, volume, log = (folder / name for name in ("root", "data", "log"))
    root.mkdir(exist_ok=True)
    volume.mkdir(exist_ok=True)
    os.chown(volume, *map(int, image.user.split(":")))
    given = [f"/proc/{thread}/ns/net", root, packages.parents[2], volume, image.user, image.workdir]
    start = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", _START, "sh"]
    command = [*start, *map(str, given), *image.command(arguments, more)]
    with log.open("w") as out:
        container = network.submit(subprocess.Popen, command, stdin=subprocess.DEVNULL, stderr=out).result()
    try:
        until(lambda: READY.search(log.read_text()) or container.poll() is not None, "ready")
        assert container.poll() is None, log.read_text()
        (server,) = psutil.Process(container.pid).children()
        yield server
        server.send_signal(signal.SIGTERM)
        assert container.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        container.kill()
        container.wait(10)
