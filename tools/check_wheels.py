"""Tests the wheels in a folder as users install them: ``python tools/check_wheels.py dist``, called by `make wheel`.

Each goes into an empty environment. The server's starts `fastqps serve` where there are no compilers and headers, and
no nghttp2 and simdjson of the system. The client's calls it. TORCH: the torch to install, as for `make setup`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 120
READY = re.compile(r"ready: .* at (\S+?),")
INSIDE = {"libnghttp2", "libsimdjson", "libssl", "libcrypto"}  # every Linux has zlib
# In a mount namespace of its own, a machine without development packages and without these libraries.
HIDE = """
mount() { /usr/bin/mount "$@"; }
for folder in /usr/include /usr/lib/gcc /usr/lib/ccache; do [ ! -d $folder ] || mount -t tmpfs none $folder; done
for file in /usr/lib/*/libnghttp2.so* /usr/lib/*/libsimdjson.so*; do
    [ ! -f $file ] || mount --bind /dev/null $file
done
exec "$@"
"""
BARE = ("/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-euc", HIDE, "sh")
ASK = """
import sys
from fastqps_client import Client
with Client(sys.argv[1]) as client:
    print(client.generate("She have a apple.").text)
"""


def check(holds: object, claim: str) -> None:
    if not holds:
        sys.exit(f"check_wheels: not so: {claim}")
    print(f"check_wheels: {claim}")


def install(folder: Path, *packages: str | Path) -> Path:
    """The bin folder of a new environment with these packages."""
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/pip", "install", "-q", *packages], check=True)
    return folder / "bin"


def environment(bin_folder: Path) -> dict[str, str]:
    """What a user's shell has, less compilers and whatever leads to the checkout."""
    return {"HOME": os.environ.get("HOME", "/"), "PATH": str(bin_folder), "LANG": "C.UTF-8"}


@contextmanager
def serving(bin_folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """`fastqps serve grammar`, whose weights are in the wheel, and its address."""
    flags = ("--device=cpu", "--port=0", "--http-port=0", "--admin-port=0", "--dispatchers=1", "--max-running=8")
    command = [*BARE, str(bin_folder / "fastqps"), "serve", "grammar", *flags]
    server = psutil.Popen(command, env=environment(bin_folder), cwd="/", stderr=subprocess.PIPE, text=True)
    log = []
    try:
        for line in server.stderr:
            log.append(line)
            if ready := READY.search(line):
                yield server, ready[1]
                break
        else:
            sys.exit("".join(log) + "check_wheels: the server did not start")
        server.terminate()
        check(server.wait(PATIENCE_S) == 0, "the server ends with exit code 0")
    finally:
        if server.poll() is None:
            server.kill()


def loaded(server: psutil.Process, folder: Path) -> set[str]:
    """The libraries under a folder that any process of the server has mapped, without their hashes and versions."""
    maps = [place.path for process in [server, *server.children(recursive=True)] for place in process.memory_maps()]
    return {Path(path).name.partition("-")[0] for path in maps if Path(path).is_relative_to(folder)}


def main(dist: Path) -> None:
    (server_wheel,) = dist.glob("fastqps-*.whl")
    (client_wheel,) = dist.glob("fastqps_client-*.whl")
    names = [{*zipfile.ZipFile(wheel).namelist()} for wheel in (server_wheel, client_wheel)]
    check("manylinux" in server_wheel.name, f"{server_wheel.name} is for any Linux with that glibc or a newer one")
    check(client_wheel.name.endswith("-py3-none-any.whl"), f"{client_wheel.name} is for any Python 3 and system")
    check(not names[0] & names[1], "they have no file in common")
    stubs = {"fastqps/_core.pyi", "fastqps/_front.pyi", "loadgen/_native.pyi", "fastqps/py.typed"}
    check(stubs <= names[0], "type checkers find stubs of the extensions")
    libraries = {Path(name).name.partition("-")[0] for name in names[0] if name.startswith("fastqps.libs/lib")}
    check(libraries == INSIDE, f"inside are {', '.join(sorted(libraries))}, and so nothing of torch")
    torch = os.environ.get("TORCH") or (ROOT / ".venv/fastqps-torch").read_text()
    with tempfile.TemporaryDirectory(prefix="fastqps-wheels-") as place:
        server_bin = install(Path(place, "server"), *torch.split(), server_wheel)
        client_bin = install(Path(place, "client"), client_wheel)
        told = subprocess.run(
            [*BARE, server_bin / "fastqps", "--version"], env=environment(server_bin), capture_output=True, text=True
        )
        version = server_wheel.name.split("-")[1]
        check(told.stdout == f"fastqps {version}\n", f"fastqps --version prints {version} {told.stderr}")
        with serving(server_bin) as (server, address):
            own = next(server_bin.parent.glob("lib/python*/site-packages/fastqps.libs"))
            check(loaded(server, own) == INSIDE, f"it runs with its own {', '.join(sorted(INSIDE))}")
            predict = [server_bin / "fastqps", "predict", "--address", address, "She have a apple."]
            for kind, command in (
                ("fastqps predict", predict),
                ("the client", [client_bin / "python", "-c", ASK, address]),
            ):
                answer = subprocess.run(
                    command, env=environment(client_bin), cwd="/", capture_output=True, text=True, timeout=PATIENCE_S
                )
                check("She has an apple." in answer.stdout, f"{kind} is answered {answer.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
