"""Each dispatcher accounts for all of its device's time, whatever it does: idle, a little, as much as it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from nightly import nightly
from serving import PATIENCE_S, Server, until

from fastqps import Client
from fastqps.telemetry.live.remote import fetch_counts

OFF_MAX = 0.02


class Look:
    """The counters, and between when and when they were read."""

    def __init__(self, admin: str) -> None:
        self.asked_s = time.monotonic()
        self.counts = fetch_counts(admin)
        self.had_s = time.monotonic()


class Window:
    """What happened between two looks; the longer it is, the less it weighs that a look or a dispatcher was late."""

    def __init__(self, before: Look, after: Look) -> None:
        pairs = list(zip(before.counts["dispatchers"], after.counts["dispatchers"], strict=True))
        self.busy = [1e-9 * (now["busy_ns"] - then["busy_ns"]) for then, now in pairs]
        self.idle = [
            {reason: 1e-9 * (ns - then["idle_ns"][reason]) for reason, ns in now["idle_ns"].items()}
            for then, now in pairs
        ]
        active = sum(after.counts["devices"].values()) - sum(before.counts["devices"].values())
        self.active = 1e-9 * active
        self.least_s, self.most_s = after.asked_s - before.had_s, after.had_s - before.asked_s

    def is_all(self, seconds: float, times: float = 1) -> bool:
        """Whether seconds are all the time that passed, ``times`` over."""
        return times * self.least_s * (1 - OFF_MAX) <= seconds <= times * self.most_s * (1 + OFF_MAX)

    def accounted(self) -> list[float]:
        """Of each dispatcher: the seconds that it accounts for."""
        return [busy + sum(idle.values()) for busy, idle in zip(self.busy, self.idle, strict=True)]

    def active_is_the_union(self) -> bool:
        off = OFF_MAX * self.most_s
        return max(self.busy) <= self.active + off and self.active <= sum(self.busy) + off


@pytest.mark.parametrize(
    ("device", "clients"), [("sim:h200-minilm-l6", 2), ("null", 0), *nightly(("null", 2), ("sim:h200-minilm-l6", 0))]
)
def test_busy_and_idle_are_all_the_time(serve: Callable[..., Server], device: str, clients: int) -> None:
    server = serve(f"--device={device}", "--dispatchers=2", "--canary-interval=0")  # each of which is a step
    over = threading.Event()

    def ask() -> None:
        with Client(server.address, timeout_s=PATIENCE_S) as client:
            while not over.is_set():
                client.predict("a text for a device")
                time.sleep(0.001)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        before = Look(server.admin)

        def all_of_it() -> bool:
            time.sleep(1.0)
            window = Window(before, Look(server.admin))
            accounted = window.accounted()
            told[:] = [accounted, window.least_s, window.busy, window.active]
            asleep = sum(idle["no_work"] for idle in window.idle)
            return (
                len(accounted) == 2
                and all(map(window.is_all, accounted))
                and window.active_is_the_union()
                and (window.active > 0) == (clients > 0)
                and (clients > 0 or window.is_all(asleep, 2))  # all the time, and it shows at each look
            )

        told: list[object] = []
        try:
            until(all_of_it, "all time is accounted for")
        except AssertionError:
            raise AssertionError(f"accounted, of seconds, busy, active: {told}") from None
    finally:
        over.set()
        for thread in threads:
            thread.join()
