"""The supervisor's states, over fake processes and a fake clock: starts, deaths, silence, signals, the drain, the end.

Real processes are killed, stopped, orphaned and drained in tests/e2e/recovery and in test_serve.py.
"""

from __future__ import annotations

import errno
import os
import random
import signal

import pytest
from process_table import Program, World, in_fake_time

from fastqps.errors import ConfigError
from fastqps.supervisor.listener import bind
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.server.supervisor import REAP_MAX_S, STOP_GRACE_S
from fastqps.supervisor.workers import worker_slot
from fastqps.supervisor.workers.progress import SILENCE_MAX_NS, STOPPED_MAX_NS, TICK_NS
from fastqps.supervisor.workers.worker_slot import RESTARTS_MAX, WINDOW_S

WELL = (True, True, ())


@in_fake_time
async def test_life_of_a_server() -> None:
    world = await World("--frontdoors=2", "--dispatchers=2").ready()
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0
    world.order("started dispatcher 0", "started frontdoor 1", " ready: ", "SIGTERM", "draining", "stopped")
    assert [event for event in world.events if "SIGKILL" in event] == []
    assert not any(process.alive for process in world.processes.values())


@pytest.mark.parametrize(
    ("programs", "code", "line", "deaths"),
    [
        ({"dispatcher": Program(fails=(4, "the weights are torn", 1))}, 4, "cannot start: the weights are torn", 1),
        ({"frontdoor": Program(fails=(2, "no such file", 1))}, 2, "frontdoor 0 cannot start: no such file", 1),
        ({"dispatcher": Program(fails=(-11, "a crash", 0.01))}, 1, "does not start: a crash", RESTARTS_MAX + 1),
        # Where starts take so long that no two deaths come within the window of the budget.
        ({"dispatcher": Program(fails=(-11, "a crash", WINDOW_S))}, 1, "does not start: a crash", RESTARTS_MAX + 1),
        ({"dispatcher": Program(("silent", "unready", "held"))}, 1, "does not start: it was killed and does", 0),
    ],
)
@in_fake_time
async def test_a_start_that_fails(programs: dict[str, Program], code: int, line: str, deaths: int) -> None:
    world = World("--dispatchers=1", programs=programs)
    assert await world.ended() == code
    assert world.log.count(line) == 1 and world.log.count(" ready: ") == 0, "\n".join(world.log.lines)
    assert world.log.count("was ended by") + world.log.count("ended with exit code") - 1 <= deaths
    assert world.events.count("start dispatcher 0") == max(deaths, 1) or "frontdoor" in programs


@in_fake_time
async def test_why_the_system_gives_no_process_is_said() -> None:
    world = World("--dispatchers=1")
    world.refuses = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    assert await world.ended() == 1
    assert world.log.count(" does not start: [Errno 38] Function not implemented") == 1


@in_fake_time
async def test_a_port_that_was_taken_meanwhile() -> None:
    """Both servers have bound it; the other one listens first."""
    world = World("--dispatchers=1", programs={"dispatcher": Program(("unready",))})
    await world.line_of("started frontdoor 0")
    port = world.listener.getsockname()[1]
    with bind("127.0.0.1", port, "--port") as taken:
        taken.listen()
        world.processes["dispatcher 0"].faults.clear()
        with pytest.raises(
            ConfigError, match=rf"port {port} on 127\.0\.0\.1 is in use; choose another with --port \(0: "
        ):
            await world.ended()


@pytest.mark.parametrize("title", ["dispatcher 1", "frontdoor 0"])
@pytest.mark.parametrize(
    ("fault", "limit_ns"), [("killed", 0), ("stopped", STOPPED_MAX_NS), ("silent", SILENCE_MAX_NS)]
)
@in_fake_time
async def test_who_dies_or_hangs_comes_back(title: str, fault: str, limit_ns: int) -> None:
    world = await World("--frontdoors=2", "--dispatchers=2").ready()
    if fault == "killed":
        world.processes[title].end(-signal.SIGKILL)
    else:
        world.processes[title].faults.add(fault)
    took_s = await world.until(lambda: world.events.count(f"start {title}") == 2)
    assert limit_ns <= took_s * 1e9 <= limit_ns + 3 * TICK_NS
    await world.ready()
    assert world.events[4:] == [f"SIGKILL {title}"] * bool(limit_ns) + [f"settle {title}", f"start {title}"]
    assert world.log.count("killing ") == bool(limit_ns)
    assert sorted(world.supervisor.view.restarts().values()) == [0, 1]


@in_fake_time
async def test_a_step_that_takes_too_long() -> None:
    world = await World("--dispatchers=1", "--step-timeout=3s").ready()
    world.processes["dispatcher 0"].step_started_ns = 7
    took_s = await world.until(lambda: world.log.count("its step takes longer than --step-timeout"))
    assert 3 <= took_s < 3.3
    await world.ready()


@in_fake_time
async def test_one_that_cannot_be_reaped() -> None:
    """It is killed once, serves no more, and in the end only a restart of the server would help, unless it ends."""
    world = await World("--dispatchers=1").ready()
    held = world.processes["dispatcher 0"]
    held.faults |= {"stopped", "held"}
    await world.until(lambda: held.killed)
    assert world.state() == (False, True, ("dispatcher 0 (null) is not ready",))
    took_s = await world.until(lambda: not world.state()[1])
    assert worker_slot.REAP_MAX_S - 0.1 <= took_s < worker_slot.REAP_MAX_S + 1
    down = "dispatcher 0 (null) stays down: it was killed and does not end: a driver or a debugger holds it"
    assert world.state() == (False, False, (down,))
    held.end(-signal.SIGKILL)
    await world.ready()
    assert world.log.count("killing") == 1 and world.events.count("start dispatcher 0") == 2


@in_fake_time
async def test_a_machine_that_stood_still_blames_nobody() -> None:
    """The supervisor was stopped, and a child with it; that wakes up a little later."""
    world = await World("--dispatchers=2").ready()
    for seconds in (1.5, 10.0, 3600.0):
        world.processes["dispatcher 1"].faults.add("stopped")
        world.loop.skip(seconds)
        began_s = world.loop.time()
        await world.until(lambda began_s=began_s: world.loop.time() > began_s + 0.5)
        world.processes["dispatcher 1"].faults.clear()
        await world.until(lambda began_s=began_s: world.loop.time() > began_s + 2)
    assert world.state() == WELL and world.log.count("killing") == 0


@in_fake_time
async def test_crash_loop_while_serving() -> None:
    world = World("--dispatchers=1")
    for _ in range(RESTARTS_MAX + 1):
        await world.ready()
        world.processes["dispatcher 0"].end(-signal.SIGKILL)
        await world.until(lambda: not world.state()[0])
    await world.line_of("dispatcher 0 (null) stays down: died too often")
    assert world.state() == (False, False, ("dispatcher 0 (null) stays down: died too often",))
    assert world.supervisor.view.restarts() == {"frontdoor": 0, "dispatcher": RESTARTS_MAX}
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0


@in_fake_time
async def test_no_server_stays_without_a_front_door() -> None:
    """Its port would take connections that nobody answers."""
    world = World("--frontdoors=2", "--dispatchers=1")
    await world.ready()
    for title in ("frontdoor 0", "frontdoor 1"):
        for _ in range(RESTARTS_MAX + 1):
            await world.until(lambda title=title: world.processes[title].ready)
            world.processes[title].end(-signal.SIGKILL)
        await world.line_of(f"{title} stays down: died too often")
    assert await world.ended() == 1
    assert world.log.count("every front door stays down, and no client can be answered") == 1


@in_fake_time
async def test_deaths_that_are_far_apart_are_forgiven() -> None:
    world = World("--dispatchers=1")
    for _ in range(3 * RESTARTS_MAX):
        await world.ready()
        began_s = world.loop.time()
        await world.until(lambda began_s=began_s: world.loop.time() > began_s + WINDOW_S / RESTARTS_MAX + 1)
        world.processes["dispatcher 0"].end(-signal.SIGSEGV)
        await world.until(lambda: not world.state()[0])
    assert world.log.count("stays down") == 0


DRAINS = {
    "all at once": ((), 0, 0.0, 1.0),
    "an end with an error is not waited for": (("unclean",), 5, 0.0, 1.0),
    "one that is stuck has all the time there is": (("stuck",), 5, 30.0, 33.0),
}


@pytest.mark.parametrize(("faults", "code", "least_s", "most_s"), DRAINS.values(), ids=DRAINS)
@in_fake_time
async def test_drain(faults: tuple[str, ...], code: int, least_s: float, most_s: float) -> None:
    world = World("--dispatchers=1", "--drain-timeout=30s", programs={"frontdoor": Program(faults)})
    await world.ready()
    began_s = world.loop.time()
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == code
    assert least_s <= world.loop.time() - began_s <= most_s
    assert not any(process.alive for process in world.processes.values())


@in_fake_time
async def test_a_front_door_that_dies_in_the_drain_is_not_started_again() -> None:
    world = World(
        "--frontdoors=2", "--dispatchers=1", "--drain-timeout=30s", programs={"frontdoor": Program(("stuck",))}
    )
    await world.ready()
    signal.raise_signal(signal.SIGTERM)
    await world.line_of("draining")
    world.processes["frontdoor 0"].end(-signal.SIGSEGV)
    world.processes["dispatcher 0"].end(-signal.SIGSEGV)  # what is open needs it
    await world.until(lambda: world.events.count("start dispatcher 0") == 2)
    world.processes["frontdoor 1"].end(0)
    assert await world.ended() == 5
    assert world.events.count("start frontdoor 0") == 1


@in_fake_time
async def test_a_front_door_that_waits_for_its_restart_when_the_drain_begins() -> None:
    world = await World("--dispatchers=1").ready()
    for _ in range(3):
        world.processes["frontdoor 0"].end(-signal.SIGSEGV)
        await world.until(lambda: not world.state()[0])
        starts = world.events.count("start frontdoor 0")
        if starts < 3:
            await world.ready()
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0
    assert world.events.count("start frontdoor 0") == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@in_fake_time
async def test_second_signal_stops_at_once(number: signal.Signals) -> None:
    world = World(
        "--dispatchers=1", "--drain-timeout=600s", "--lame-duck=100s", programs={"frontdoor": Program(("stuck",))}
    )
    await world.ready()
    signal.raise_signal(number)
    await world.line_of("lame duck: serving for 100 s more")
    assert (world.supervisor.view.readiness().answers, world.state()[0]) == (True, False)
    await world.line_of("draining, at most 600 s")
    began_s = world.loop.time()
    signal.raise_signal(number)
    assert await world.ended() == 5
    assert world.loop.time() - began_s < 0.1


@in_fake_time
async def test_signal_during_the_start() -> None:
    world = World("--dispatchers=2", programs={"dispatcher 1": Program(("unready",))})
    await world.line_of("started frontdoor 0")
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0
    assert world.log.count(" ready: ") == 0 and not any(process.alive for process in world.processes.values())


@pytest.mark.parametrize(("faults", "killed", "left"), [({"deaf"}, True, False), ({"deaf", "held"}, True, True)])
@in_fake_time
async def test_a_dispatcher_that_does_not_end(faults: set[str], killed: bool, left: bool) -> None:
    """It has a grace, is killed, and is named where not even that ends it."""
    world = await World("--dispatchers=1").ready()
    process = world.processes["dispatcher 0"]
    process.faults |= faults
    signal.raise_signal(signal.SIGTERM)
    await world.line_of("draining")
    began_s = world.loop.time()
    assert await world.ended() == 0
    assert STOP_GRACE_S <= world.loop.time() - began_s <= STOP_GRACE_S + REAP_MAX_S + 1
    assert process.killed == killed
    end = f"stopped; not ended: dispatcher 0 (null) (pid {process.pid})" if left else "supervisor: stopped"
    assert world.log.lines[-1].endswith(end)


@in_fake_time
async def test_a_task_that_fails_ends_the_server() -> None:
    """As that of the load meter: whatever balances or scales by it would go on with what was."""
    world = await World("--dispatchers=1").ready()

    async def measure() -> None:
        raise TypeError("no load")

    world.supervisor.depend_on(world.loop.create_task(measure()))
    assert await world.ended() == 1
    world.order("broken: TypeError('no load')", "stopped")


@pytest.mark.parametrize(
    ("lost", "nohup", "leaves", "reloads", "line"),
    [
        (False, False, False, 1, "SIGHUP"),
        (False, True, False, 1, "SIGHUP"),
        (True, False, True, 0, "SIGHUP"),
        (True, True, False, 0, "the terminal is gone"),
    ],
)
@in_fake_time
async def test_sighup(
    monkeypatch: pytest.MonkeyPatch, lost: bool, nohup: bool, leaves: bool, reloads: int, line: str
) -> None:
    """A lost terminal ends a server, unless it was started to survive that; any other SIGHUP reloads."""
    world = await World("--dispatchers=1").ready()
    outcome, asked = Outcome(world.log), []
    monkeypatch.setattr("fastqps.supervisor.outcome.Terminal.lost", lambda terminal: lost)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    outcome.take_signals(lambda: asked.append(1))
    signal.raise_signal(signal.SIGHUP)
    await world.line_of(line)
    assert (outcome.leaving.is_set(), len(asked)) == (leaves, reloads)


TITLES = ("frontdoor 0", "frontdoor 1", "dispatcher 0", "dispatcher 1")


@pytest.mark.parametrize("seed", range(100))
@in_fake_time
async def test_whatever_happens_whenever(seed: int) -> None:
    """Processes die, hang and stay at any moment, and one or two signals come: the server ends as it should, each
    process is settled exactly once after its end, and none is left."""
    dice = random.Random(seed)
    world = World("--frontdoors=2", "--dispatchers=2", "--drain-timeout=10s")
    events = [(dice.uniform(0, 12), dice.choice(TITLES), dice.choice(FAULTS)) for _ in range(dice.randrange(12))]
    events += [(dice.uniform(0, 15), "", signal.SIGTERM) for _ in range(dice.choice((1, 1, 2)))]
    began_s = world.loop.time()
    for when_s, title, fault in sorted(events, key=lambda event: event[0]):
        world.loop.call_at(began_s + when_s, happen, world, title, fault)
    code = await world.ended()
    assert code in (0, 1, 5), "\n".join(world.log.lines)
    assert world.log.lines[-1] == "supervisor: stopped" and world.loop.time() - began_s < 60
    assert not any(process.alive for process in world.processes.values())
    for title in TITLES:
        lives = [event for event in world.events if event in (f"start {title}", f"settle {title}")]
        pairs = [f"start {title}", f"settle {title}"] * len(lives)
        assert lives == pairs[: len(lives)]  # the last may end with the server


FAULTS = (-signal.SIGKILL, -signal.SIGSEGV, 1, 0, "stopped", "silent", "deaf", "stuck", "unclean")


def happen(world: World, title: str, fault: int | str) -> None:
    if not title:
        if not world.supervisor._outcome.hurry.is_set() and world.log.lines[-1] != "supervisor: stopped":
            signal.raise_signal(signal.Signals(fault))
    elif process := world.processes.get(title):
        if isinstance(fault, str):
            process.faults.add(fault)
        else:
            process.end(fault)
