"""What one client may take from another: the attacks that have been found, each beside a client that must not feel it.

An attacker has a CPU of its own where there are two; the server and the other client have the others, as in the bench.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkpoints import write_checkpoint
from figures import PAUSE_S, Perf, p99_s
from neighbour import Neighbour
from paths import python_path
from serving import Server, until
from victim import HttpVictim, ask_livez, growth
from word_files import write_words

from fastqps.v1 import predict_pb2 as pb

TOKEN = "a-token-of-this-test"
MIB = 1 << 20
CALLS = 100
"""Calls of the other client during an attack of the gate."""
RATIO_MAX = 2.0
CALM_S_MIN = 0.0025
"""A p99 below this counts as this. A call may find two turns of the loop in front of it, 1 ms. Its client, the front
door and the dispatcher share a CPU, on which a process runs for up to 4 ms before another one has its turn."""
HIGHER = 10
"""Levels of priority that server and other client have above the attacker."""
CALM_S, BEGUN_S, UNDER_ATTACK_S = 1.0, 0.5, 10.0


@dataclass(frozen=True)
class Attack:
    """``grows_mib``: what the front door, or of the admin port's the supervisor, may take of memory."""

    name: str
    grows_mib: int
    model: str = "minilm"
    livez: bool = False  # the other client asks the admin port
    http: bool = False  # both are at the HTTP port


ATTACKS = (
    Attack("unary_bombs", 64),
    Attack("unfinished_messages", 32),
    Attack("reflection_messages", 64),
    Attack("idle_streams", 64),
    Attack("window_settings", 32),
    Attack("admin_bytes", 32, livez=True),
    Attack("poison_texts", 64, model="hurtful"),
    Attack("slow_heads", 32, http=True),
    Attack("pipelined_requests", 64, http=True),
    Attack("unread_answers", 128, http=True),  # 1 MB of each of 64 connections, and their requests
    Attack("rapid_resets", 32, http=True),
    Attack("garbage", 32, http=True),
    Attack("compressed_streams", 128),  # its own 16 MiB of windows, 64 results of the inflating thread, and their texts
    Attack("health_bombs", 32),
    Attack("slow_bodies", 32, http=True),
    Attack("slow_chunks", 32, http=True),
    Attack("small_chunks", 64, http=True),
    Attack("long_heads", 32, http=True),
    Attack("gone_clients", 64, http=True),
    Attack("hostile_bodies", 128, http=True),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On all CPUs but the last, as this process from now on: the last one is the attackers'."""
    path = tmp_path_factory.mktemp("hurtful")
    write_checkpoint(path, "bert")
    write_words(path, hurtful=True)
    tokens = path / "tokens"
    tokens.write_text(TOKEN + "\n")
    tokens.chmod(0o600)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:-1] or before)
    models = ("--model=minilm", f"--model=hurtful={path}", "--max-input-tokens=64")
    running = None
    try:
        running = Server(*models, "--http-port=off", "--frontdoors=1", "--dispatchers=1", f"--auth-token-file={tokens}")
        yield running
        running.stop()
    finally:
        if running:
            running.kill()
        os.sched_setaffinity(0, before)


def lower(leader: int) -> None:
    """A child that leads a session of its own gets less time than the server and the other client, which get the same.

    Linux schedules by session first, where it has autogroups, and by process within one. The session of this process is
    the user's: its priority would outlive the test.
    """
    assert os.getsid(leader) == leader != os.getsid(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0) + HIGHER
    os.setpriority(os.PRIO_PROCESS, leader, nice)
    with suppress(OSError):
        Path(f"/proc/{leader}/autogroup").write_text(str(nice))


@contextmanager
def attacked(server: Server, attack: Attack) -> Iterator[list[int]]:
    """Meanwhile the attacker attacks. Yields the most bytes by which the attacked process has grown, as ``growth``."""
    door = server.child("frontdoor 0")
    program = [
        sys.executable,
        str(Path(__file__).with_name("attackers.py")),
        attack.name,
        server.address,
        server.admin,
        TOKEN,
    ]
    last = str(max(os.sched_getaffinity(os.getppid())))
    attacker = subprocess.Popen(
        ["taskset", "-c", last, *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH", ""))},
        start_new_session=True,
    )
    try:
        assert attacker.stdout and attacker.stdout.readline(), "the attacker does not begin"
        lower(attacker.pid)
        with growth(server.pid if attack.livez else door.pid) as most:
            if not attack.livez:  # a connection that the server has closed comes again
                until(lambda: server.metrics()["fastqps_connections"] > 1, "the attacker has a connection")
            yield most
        assert attacker.poll() is None, "the attacker has given up"
    finally:
        attacker.kill()
        attacker.communicate()
    assert server.child("frontdoor 0") == door
    assert not server.metrics()["fastqps_restarts_total"]


@contextmanager
def other_client(server: Server, attack: Attack) -> Iterator[Callable[[], object]]:
    """One call of the other client, which has to be answered rightly."""
    if attack.livez:
        yield lambda: ask_livez(server.admin)
        return
    with closing(HttpVictim(server.address, TOKEN) if attack.http else victim(server.address, attack.model)) as other:
        other.check()
        yield other.check
        other.check()


def victim(address: str, model: str) -> Neighbour:
    ask = pb.PredictRequest(model=model, text="a b", request_id=7, output={"dimensions": 4})
    return Neighbour(address, ("authorization", f"Bearer {TOKEN}"), body=ask.SerializeToString())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_another_client_is_answered(server: Server, attack: Attack) -> None:
    """All of its calls, and the server's memory stays in its bound."""
    with other_client(server, attack) as call, attacked(server, attack) as most:
        for _ in range(CALLS):
            call()
            time.sleep(PAUSE_S)
    assert most[0] < attack.grows_mib * MIB


@pytest.mark.perf
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_another_client_does_not_feel_it(server: Server, attack: Attack, perf: Perf) -> None:
    """Its p99 beside the attacker over its p99 before."""
    grown = 0

    def measure() -> float:
        nonlocal grown
        p99_s(call, CALM_S / 2)
        calm_s = p99_s(call, CALM_S)
        with attacked(server, attack) as most:
            p99_s(call, BEGUN_S)
            attacked_s = p99_s(call, UNDER_ATTACK_S)
        grown = max(grown, most[0])
        return attacked_s / max(calm_s, CALM_S_MIN)

    try:
        with other_client(server, attack) as call:
            perf(f"p99 beside {attack.name}", measure, at_most=RATIO_MAX)
    finally:
        perf(f"growth by {attack.name}", grown / MIB, at_most=attack.grows_mib, unit="MiB")
