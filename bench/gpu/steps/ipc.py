"""Device memory that two processes share: whether one of them survives when the other is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.gpu.run import Run
from bench.gpu.servers import mps
from fastqps._core import CudaApi, CudaError
from fastqps.host.gpus import FAKE_LIBRARY
from fastqps.supervisor.gpu.mps import MpsError

BYTES = 64 << 20
PATTERN = bytes(range(256))


def measure(run: Run) -> None:
    """Owner and follower, each killed once, without and with MPS."""
    if run.dry and not os.environ.get(FAKE_LIBRARY):
        run.say("a dry run has no device memory: it needs the tests' CUDA library")
        return
    for kind, surroundings in (("time-sliced", mps.without), ("MPS", mps.daemon)):
        for killed in ("follower", "owner"):
            try:
                with surroundings() as environment:
                    found = _kill(run, killed, environment)
            except MpsError as error:
                run.say(f"{kind}: {error}")
                run.raw(kind, str(error))
                break
            run.raw(f"{kind}, {killed} killed", found)
            survives = found.endswith("reads what was written")
            run.figure(f"CUDA IPC, {kind}: the {killed} is killed", float(survives), "(1: the other goes on)", found)


def _kill(run: Run, killed: str, own: dict[str, str]) -> str:
    owner = _start(own, "own")
    follower = None
    try:
        handle = _line(owner)
        follower = _start(own, "follow", handle)
        if (said := _line(follower)) != "same":
            raise RuntimeError(f"the follower does not read what the owner wrote: {said}")
        victim, survivor = (owner, follower) if killed == "owner" else (follower, owner)
        victim.kill()
        victim.wait()
        time.sleep(0.1 if run.dry else 1.0)
        other = "follower" if killed == "owner" else "owner"
        said = _ask(survivor)
        return f"the {other} " + ("reads what was written" if said == "same" else f"says: {said}")
    finally:
        for process in filter(None, (owner, follower)):
            process.kill()
            process.wait()


def _start(own: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.gpu.steps.ipc", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip() or f"ended with code {process.wait(10)}"


def _ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return f"ended with code {process.wait(10)}"
    return _line(process)


def child(kind: str, handle: str = "") -> None:
    """Owns the arena, or follows; looks at it whenever a line comes."""
    api = _api()
    if kind == "own":
        pointer = api.malloc(BYTES)
        source = bytearray(PATTERN * (BYTES // len(PATTERN)))
        api.copy(pointer, _address(source), BYTES)
        print(api.ipc_export(pointer).hex(), flush=True)
    else:
        pointer = api.ipc_open(bytes.fromhex(handle))
        print(_look(api, pointer), flush=True)
    for _ in sys.stdin:
        print(_look(api, pointer), flush=True)


def _api() -> CudaApi:
    """Of the library that torch has loaded, or the tests' own."""
    fake = os.environ.get(FAKE_LIBRARY)
    if not fake:
        import torch

        torch.cuda.init()  # type: ignore[no-untyped-call]
    api = CudaApi(fake) if fake else CudaApi()
    api.set_device(0)
    return api


def _look(api: CudaApi, pointer: int) -> str:
    seen = bytearray(BYTES)
    try:
        api.copy(_address(seen), pointer, BYTES)
    except CudaError as error:
        return str(error)
    return "same" if seen == PATTERN * (BYTES // len(PATTERN)) else "other bytes"


def _address(data: bytearray) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(data))


if __name__ == "__main__":
    child(*sys.argv[1:])
