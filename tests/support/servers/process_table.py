"""A supervisor over a table of fake processes, on a clock of its own: an hour of it takes milliseconds.

Time stands still while anything can run, and then jumps to the next delay's or deadline's end. So the order of events
is the same on every machine, and a test can tell times exactly.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import selectors
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fastqps._core import Segment
from fastqps.config import decide, load
from fastqps.host.gpus import Gpu
from fastqps.process.children import LEAVE
from fastqps.supervisor.child import Child, System
from fastqps.supervisor.credentials.files import CredentialFiles
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.listener import bind
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import SIGNALS
from fastqps.supervisor.plan import Plan, make_plan
from fastqps.supervisor.server.supervisor import Supervisor
from fastqps.supervisor.shared import Shared
from fastqps.terminal import Level

WAIT_MAX_S = 4000.0  # of the fake clock: no wait of a test takes longer
BEGAN_S = 1000.0
LIVES_FROM_S, READY_FROM_S = 0.05, 0.1  # after its start


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep, its time passes instead."""

    slept_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nobody waits for anything that could come"
        found = super().select(0)
        if not found:
            self.slept_s += timeout
        return found


class FakeClock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where it would sleep, and by ``skip``."""

    def __init__(self) -> None:
        self._passed = _Selector()
        self.worlds: list[World] = []
        super().__init__(self._passed)

    def time(self) -> float:
        return BEGAN_S + self._passed.slept_s

    def skip(self, seconds: float) -> None:
        """The machine stands still for so long."""
        self._passed.slept_s += seconds


class FakeLog(Log):
    """Keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, process: str, text: str, level: Level = Level.INFO, **fields: Any) -> None:
        self.lines.append(f"{process}: {text}")

    def close(self) -> None:
        pass

    def count(self, text: str) -> int:
        return sum(text in line for line in self.lines)


@dataclass(frozen=True)
class Program:
    """What becomes of a process. ``faults`` and ``fails``: as a ``Process`` has them."""

    faults: tuple[str, ...] = ()
    fails: tuple[int, str, float] | None = None


class Process(Child):
    """A fake process, ready READY_FROM_S after its start unless its ``faults`` say otherwise.

    ``silent``: no heartbeat. ``stopped``: the system says so. ``unready``: it never is. ``deaf``: it does not end when
    it is asked to. ``held``: SIGKILL does not end it. ``stuck``: a front door that does not drain. ``unclean``: one
    that ends with an error then. ``fails``: the code with which it ends before it is ready, its last line, and after
    how many seconds.
    """

    def __init__(self, world: World, title: str, program: Program, on_line: Callable[[str], None]) -> None:
        self.pid = next(world.pids)
        self.title, self.faults = title, set(program.faults)
        self._is_door = title.startswith("frontdoor")
        self.killed = False
        self.exited: asyncio.Future[int] = world.loop.create_future()
        self.step_started_ns = 0
        self.environment: Mapping[str, str] = {}
        self._world, self._on_line, self._began_s, self._beat_s = world, on_line, world.loop.time(), 0.0
        if program.fails:
            code, line, after_s = program.fails
            world.loop.call_later(after_s, self.end, code, line)
            self.faults.add("unready")
        elif self._is_door:
            world.loop.create_task(self._drain())

    @property
    def alive(self) -> bool:
        return not self.exited.done()

    @property
    def ready(self) -> bool:
        return self.alive and self._age_s() >= READY_FROM_S - 1e-6 and "unready" not in self.faults

    @property
    def heartbeat_ns(self) -> int:
        if self.alive and not {"silent", "stopped"} & self.faults and self._age_s() >= LIVES_FROM_S:
            self._beat_s = self._world.loop.time()
        return int(self._beat_s * 1e9)

    def signal(self, number: signal.Signals) -> None:
        if not self.alive:
            return
        self._world.events.append(f"{number.name} {self.title}")
        if number == signal.SIGKILL:
            self.killed = True
        if number == signal.SIGKILL and "held" not in self.faults:
            self.end(-signal.SIGKILL)
        elif number in (LEAVE, signal.SIGTERM) and not self._is_door and not {"deaf", "stopped"} & self.faults:
            self._world.loop.call_later(0.01, self.end, 0)

    def end(self, code: int, line: str = "") -> None:
        """The process ends by itself, or is killed by somebody else."""
        if self.alive:
            if line:
                self._on_line(line)
            self.exited.set_result(code)

    def read(self) -> bool:
        return False

    def _age_s(self) -> float:
        return self._world.loop.time() - self._began_s

    async def _drain(self) -> None:
        while self._world.shared.segment.phase in ("starting", "serving", "lame duck") or "stuck" in self.faults:
            await asyncio.sleep(0.02)
        self.end(7 if "unclean" in self.faults else 0)


class FakeSegment(Segment):
    """The shared segment, in which the fake processes have nothing written."""

    world: World

    def door(self, i: int) -> Any:
        return self.world.line(f"frontdoor {i}")

    def dispatcher(self, i: int) -> Any:
        return self.world.line(f"dispatcher {i}")

    def publish_death(self, *where: Any) -> None:
        self.world.events.append(f"settle dispatcher {where[1]}")
        super().publish_death(*where)

    def reap_door(self, i: int) -> None:
        self.world.events.append(f"settle frontdoor {i}")
        super().reap_door(i)

    def suspects_waiting(self, route: int) -> int:
        return self.world.suspects


class World:
    """One run of a ``Supervisor`` with these flags. ``programs``: what becomes of processes, by title ("frontdoor 0")
    or role. GPUs are shared by a ``FakeDaemon`` each."""

    def __init__(self, *flags: str, programs: Mapping[str, Program] | None = None) -> None:
        self.loop = cast(FakeClock, asyncio.get_running_loop())
        self.loop.worlds.append(self)
        self.programs = dict(programs or {})
        self.pids = itertools.count(1 << 30)  # of no real process
        self.events: list[str] = []
        self.processes: dict[str, Process] = {}
        self.suspects = 0
        self.refuses: OSError | None = None  # how the system refuses processes
        self.log = FakeLog()
        plan = plan_of(flags)
        credentials = CredentialWatch(CredentialFiles.of(plan.config))
        self.shared = Shared(plan, credentials.vault.fd)
        segment = FakeSegment(self.shared.segment_fd)
        segment.world, self.shared.segment = self, segment
        self.listener = bind("127.0.0.1", 0, "--port")
        system = System(self._spawn, lambda: int(self.loop.time() * 1e9), self._is_stopped)
        sharings = sharings_of(plan, self.log)
        self.supervisor = Supervisor(plan, self.shared, self.listener, self.log, credentials, sharings, None, system)
        self.supervisor.workers.set_routes()
        self._run = asyncio.create_task(self.supervisor.run("an address"))

    def _spawn(
        self, command: Sequence[str], fds: Sequence[int], environment: Mapping[str, str], on_line: Callable[[str], None]
    ) -> Child:
        if self.refuses:
            raise self.refuses
        title = json.loads(command[-1])["title"].partition(" (")[0]
        program = self.programs.get(title) or self.programs.get(title.split()[0]) or Program()
        self.events.append(f"start {title}")
        self.processes[title] = Process(self, title, program, on_line)
        self.processes[title].environment = environment
        return self.processes[title]

    def _is_stopped(self, pid: int) -> bool:
        return any(process.pid == pid and "stopped" in process.faults for process in self.processes.values())

    def line(self, title: str) -> Any:
        """What the segment has of a process."""
        found = self.processes.get(title)
        return SimpleNamespace(
            live=bool(found and found.alive),
            ready=bool(found and found.ready),
            heartbeat_ns=found.heartbeat_ns if found else 0,
            step_started_ns=found.step_started_ns if found else 0,
            turn_started_ns=0,
            steps_done=0,
            canaries=0,
            canary_since_ns=0,
            tokenizers=[],
        )

    # ---- what tests wait for and look at

    async def until(self, condition: Callable[[], object]) -> float:
        """The seconds that it took."""
        began_s = self.loop.time()
        while not condition():
            assert self.loop.time() - began_s < WAIT_MAX_S, "\n".join(self.log.lines)
            await asyncio.sleep(0.01)
        return self.loop.time() - began_s

    async def line_of(self, text: str, count: int = 1) -> str:
        """Waits for a line of the log: its ``count``th with this text."""
        await self.until(lambda: self.log.count(text) >= count or self._run.done())
        assert self.log.count(text) >= count, "\n".join(self.log.lines)
        return [line for line in self.log.lines if text in line][count - 1]

    async def ready(self) -> World:
        """Until it serves with all its processes, again or for the first time."""
        await self.until(lambda: self._run.done() or self.state() == (True, True, ()))
        assert not self._run.done(), "\n".join(self.log.lines)
        return self

    def state(self) -> tuple[bool, bool, tuple[str, ...]]:
        """(ready, live, what is degraded) as /readyz and /livez say."""
        found = self.supervisor.view.readiness()
        return not found.reasons, not found.hopeless, found.degraded

    async def ended(self) -> int:
        """Its exit code."""
        await asyncio.wait([self._run], timeout=WAIT_MAX_S)
        assert self._run.done(), "\n".join(self.log.lines)
        return self._run.result()

    def order(self, *texts: str) -> None:
        """The log has these lines, in this order."""
        places = [next((i for i, line in enumerate(self.log.lines) if text in line), -1) for text in texts]
        assert places == sorted(places) and -1 not in places, (places, "\n".join(self.log.lines))

    async def close(self) -> None:
        if not self._run.done():
            for process in self.processes.values():
                process.faults.clear()
                process.end(0)
            self._run.cancel()
        await asyncio.wait([self._run])
        self.listener.close()
        self.shared.close()


@functools.cache
def plan_of(flags: tuple[str, ...]) -> Plan:
    """The plan of a server with these flags, as the command line would give them."""
    given = dict(
        flag.removeprefix("--").split("=") for flag in ("--device=null", "--slots=16", "--frontdoors=1", *flags)
    )
    return make_plan(decide(load(given, {}).config))


def in_fake_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The test runs on a ``FakeClock``. Its worlds end with it, and signals are handled as before."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}

        async def whole() -> None:
            await test(*arguments, **named)
            for world in cast(FakeClock, asyncio.get_running_loop()).worlds:
                await world.close()

        try:
            with asyncio.Runner(loop_factory=FakeClock) as runner:
                runner.run(whole())
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    return run


class FakeDaemon:
    """In the place of an ``MpsDaemon``: it starts at once, and its clients are all that are asked for."""

    def __init__(self, gpu: Gpu, run: Any, log: Log) -> None:
        del run
        self.pipes = Path(f"/pipes/{gpu.uuid}")
        self.pids: list[int] = []
        self.ended = False
        self._gpu, self._log = gpu, log

    async def start(self) -> None:
        self._log.event("supervisor", f"started mps {self._gpu.index}")
        self.ended = False

    async def stop(self) -> None:
        self._log.event("supervisor", f"stopped mps {self._gpu.index}")

    async def absent(self, pids: Collection[int]) -> list[int]:
        return []

    async def terminate(self, pids: Collection[int]) -> bool:
        self._log.event("supervisor", f"terminate {len(pids)} clients")
        return True


def sharings_of(plan: Plan, log: Log) -> dict[int, Sharing]:
    """The sharing of each GPU. Its folders are only names."""
    run: Any = SimpleNamespace(folder=lambda name: Path(f"/run/{name}"))
    processes, gpus = (
        plan.dispatchers_each * len(plan.cards),
        [i for i, device in enumerate(plan.devices) if device.gpu],
    )
    return {i: Sharing(plan.devices[i], processes, plan.config.mps, run, log) for i in gpus}
