"""A dispatcher that only lives: for tests of the supervisor. FAKE_DISPATCHER says how it fails, and which one."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from fake_mps.client import connect

from fastqps._core import EncodeStepper, Heartbeat, Segment, WakeFds
from fastqps.devices import DeviceError, DeviceFault
from fastqps.models import ModelError
from fastqps.process.children import DispatcherSettings

PR_SET_PTRACER, PTRACE_ATTACH = 0x59616D61, 16
HELD_MAX_S = 60.0  # whatever becomes of the test


def be_held(gate: Path) -> None:
    """By a process of its own, as by a debugger: it stops, and who kills it cannot reap it before there is the gate."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
    held = os.getpid()
    if os.fork() == 0:
        if libc.ptrace(PTRACE_ATTACH, held, None, None) != 0:
            print(f"cannot hold {held}: {os.strerror(ctypes.get_errno())}", file=sys.stderr, flush=True)
        give_up_s = time.monotonic() + HELD_MAX_S
        while not gate.exists() and time.monotonic() < give_up_s:
            time.sleep(0.02)
        os._exit(0)
    while True:
        time.sleep(0.02)


def main(settings: DispatcherSettings) -> int:
    """Ready at once, unless FAKE_DISPATCHER is "crash", "no-model" or "waits" (ready when there is a file FAKE_GATE).
    SIGUSR2 is a fault of its device, or with "quit-1" of the process alone. "tell": it says what it was told. "no-mps":
    it does not start as a client of MPS. "stays": it does not end when it is told to. "held": from SIGUSR2 on it
    gives no sign of life, and a debugger holds it until there is the gate."""
    behaviour = os.environ.get("FAKE_DISPATCHER", "")
    if behaviour == "no-model":
        raise ModelError("the weights are torn")
    if behaviour == "crash":
        print("about to crash", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGSEGV)
    segment = Segment(settings.segment_fd)
    heartbeat = Heartbeat(segment, "dispatcher", settings.index, settings.parent_fd)
    fds = WakeFds(dispatchers=list(settings.wake_dispatchers), doors=list(settings.wake_doors))
    stepper = EncodeStepper(
        segment, fds, settings.index, epoch=settings.epoch, route=settings.route, max_items=1, max_tokens=1, delay_ns=0
    )
    gate = Path(os.environ.get("FAKE_GATE", "/nowhere"))
    while behaviour == "waits" and not gate.exists():
        time.sleep(0.02)
    if connect() and behaviour == "no-mps":
        raise DeviceError("CUDA cannot be initialised: MPS server not ready (807)")
    if behaviour == "tell":
        names = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "TRITON_CACHE_DIR")
        print("told:", settings.device, *map(os.environ.get, names), file=sys.stderr, flush=True)
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: stopped.append(number))
    if behaviour == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stepper.set_ready()
    while not stopped:
        time.sleep(0.02)
    del heartbeat
    if stopped[0] == signal.SIGUSR2 and behaviour == "held":
        be_held(gate)
    if stopped[0] == signal.SIGUSR2 and behaviour == "quit-1":
        return 1
    if stopped[0] == signal.SIGUSR2:
        raise DeviceFault("the device has failed: an illegal memory access")
    return 0
