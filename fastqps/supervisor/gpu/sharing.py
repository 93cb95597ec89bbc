"""How the dispatchers of one GPU share it: at the same time through a private MPS daemon, or in turns. Also the
processes that hold weights for them, if any do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from fastqps.devices import Device, DeviceError
from fastqps.host import machine
from fastqps.supervisor.gpu.holder import Holder
from fastqps.supervisor.gpu.mps import MpsDaemon, MpsError
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import PIPES, RunDirectory

TRITON_CACHE = "TRITON_CACHE_DIR"
NO_DAEMON = "none"  # an empty folder. By default CUDA looks for a daemon in a place where any user may have started one


class Lost(NamedTuple):
    """An ended process on which all dispatchers of a GPU depend."""

    reason: str
    code: int | None = None  # the exit code of its process, if it is informative


class Sharing:
    """``mode``: as --mps. ``processes``: how many dispatchers the GPU has."""

    def __init__(self, device: Device, processes: int, mode: str, run: RunDirectory, log: Log) -> None:
        assert device.gpu
        self.label = device.label
        self._gpu = device.gpu
        self._processes = processes
        self._mode = mode
        self._run = run
        self._log = log
        self._daemon: MpsDaemon | None = None
        self.holders: list[Holder] = []
        self.holders_on_trial: list[Holder] = []  # of generations that do not serve yet

    @property
    def together(self) -> bool:
        """Whether they run at the same time or over the same weights, so that a fault of one is a fault of all."""
        return self._daemon is not None or bool(self.holders)

    @property
    def one_context(self) -> bool:
        """Whether the GPU reports a fault of one to all, as under MPS."""
        return self._daemon is not None

    @property
    def lost(self) -> Lost | None:
        """The process that the dispatchers depend on and that has ended unexpectedly; None while all run."""
        for holder in self.holders:
            if (code := holder.exit_code) is not None:
                return Lost(holder.reason, code)
        return Lost("its MPS daemon ended") if self._daemon is not None and self._daemon.ended else None

    def holder_of(self, route: int) -> Holder | None:
        """The process that holds the route's weights; None: each dispatcher has its own copy."""
        return next((h for h in (*self.holders, *self.holders_on_trial) if h.route == route), None)

    def processes(self) -> Iterator[tuple[str, int]]:
        """The (role, pid) of each other process: daemon and holders."""
        for holder in (*self.holders, *self.holders_on_trial):
            if holder.pid is not None:
                yield "holder", holder.pid
        if self._daemon:
            for pid in self._daemon.pids:
                yield "mps", pid

    def environment(self) -> dict[str, str]:
        """The additional environment of its dispatchers, in which this GPU is the only one, with number 0."""
        pipes = self._daemon.pipes if self._daemon else self._run.folder(NO_DAEMON)
        cache = _triton_cache() or self._run.folder("triton")
        return {**self._gpu.environment(), PIPES: str(pipes), TRITON_CACHE: str(cache)}

    async def open(self) -> None:
        """Prepares the GPU before the dispatchers start. Raises ``DeviceError`` if they cannot share it as asked."""
        await self._open_daemon()
        self._start_holders()

    async def _open_daemon(self) -> None:
        shared = self._processes > 1 and self._gpu.vendor.mps
        if self._mode == "on" or (self._mode == "auto" and shared):
            daemon = MpsDaemon(self._gpu, self._run, self._log)
            try:
                await daemon.start()
                self._daemon = daemon
                return
            except MpsError as error:
                self._complain(str(error))
        if self._processes + len(self.holders) > 1 and self._gpu.compute_mode.startswith("exclusive"):
            raise DeviceError(
                f"{self.label} is in compute mode {self._gpu.compute_mode}, so without MPS one process at a time can "
                f"use it: --dispatchers 1 without --share-weights, or nvidia-smi -i {self._gpu.pci} -c 0"
            )

    async def check(self, pids: Collection[int]) -> None:
        """Checks that all ready dispatchers are the daemon's clients. Raises ``DeviceError`` with --mps on, otherwise
        warns."""
        if self._daemon is None:
            return
        try:
            absent = await self._daemon.absent(pids)
        except MpsError as error:
            self._complain(str(error))
            return
        if absent:
            which = f"process {absent[0]} is" if len(absent) == 1 else f"processes {', '.join(map(str, absent))} are"
            self._complain(f"{which} not among the daemon's clients")
        else:
            self._log.info(f"{self.label}: all of its {len(pids)} dispatchers are clients of its MPS daemon")

    def try_holder(self, holder: Holder) -> None:
        """Starts a holder for a generation that warms up. Raises ``OSError`` if the system refuses a process."""
        self.holders_on_trial.append(holder)
        holder.start(self.environment())

    def keep_holder(self, route: int) -> None:
        """Keeps the holder of a generation that serves now."""
        kept = [holder for holder in self.holders_on_trial if holder.route == route]
        self.holders += kept
        self.holders_on_trial = []

    async def drop_holder(self, route: int) -> None:
        """Ends the holder of a route whose weights no dispatcher maps any more."""
        for holders in (self.holders, self.holders_on_trial):
            for holder in [h for h in holders if h.route == route]:
                holders.remove(holder)
                await holder.stop()
                holder.close()

    async def take_off(self, pids: Collection[int], timeout_s: float) -> bool:
        """Takes processes off the GPU before they are killed. Returns whether the others will not be affected."""
        if self._daemon is None:
            return True  # they take turns, so a kill hits no other
        taking = asyncio.ensure_future(self._daemon.terminate(pids))
        done, _ = await asyncio.wait([taking], timeout=timeout_s)
        taking.cancel()
        return taking in done and taking.result()

    def renounce(self, reason: str) -> bool:
        """At the start, when it may be the daemon that keeps a dispatcher from it: whether it shall go without.

        In some containers the daemon runs, and no process becomes its client. ``reopen`` then starts none.
        """
        if self._daemon is None or self._mode == "on":
            return False
        self._complain(reason)
        self._mode = "off"
        return True

    async def reopen(self) -> None:
        """Starts a fresh daemon and holders after a fault, when no dispatcher is left. Raises as ``open`` does.

        Without a daemon a fault is none of the holders', and those that run are kept.
        """
        if self._daemon:
            await self.close()
            await self.open()
        else:
            self._start_holders()

    def _start_holders(self) -> None:
        """Starts the holders that do not run."""
        for holder in self.holders:
            if not holder.running:
                try:
                    holder.start(self.environment())
                except OSError as error:
                    raise DeviceError(f"cannot start {holder.title}: {error}") from None

    async def close(self) -> None:
        """Ends the daemon and the holders, after the dispatchers."""
        await asyncio.gather(*(holder.stop() for holder in (*self.holders, *self.holders_on_trial)))
        daemon, self._daemon = self._daemon, None
        if daemon:
            await daemon.stop()

    def _complain(self, reason: str) -> None:
        if self._mode == "on":
            raise DeviceError(f"--mps on: {self.label}: {reason}")
        self._log.warning(f"{self.label}: no MPS: {reason}; its dispatchers take turns on the GPU")


def _triton_cache() -> Path | None:
    """The folder in which compiled kernels are cached across starts. None if this user has none."""
    given = os.environ.get(TRITON_CACHE)
    return Path(given) if given else machine.cache_folder("triton")
