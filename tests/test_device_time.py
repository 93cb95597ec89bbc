"""Each dispatcher accounts for all of its device's time, whatever it does: idle, a little, as much as it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from serving import Server

from fastqps import Client
from fastqps.scrape import Difference, Scrape, scrape

BUSY, IDLE = "fastqps_device_busy_seconds_total", "fastqps_device_idle_seconds_total"
ACTIVE = "fastqps_device_active_seconds_total"
WINDOW_S, TRIES = 5.0, 3


def accounted(change: Difference) -> list[float]:
    """Of each dispatcher: what it accounts for, over the time that passed."""
    busy = change.by(BUSY, "dispatcher")
    idle = change.by(IDLE, "dispatcher")
    return [(busy[d] + idle[d]) / change.seconds for d in busy]


def settled(look: Callable[[], Scrape]) -> Difference:
    """A window in which all time is accounted for, up to 2 %; the last one of TRIES if there is none."""
    for _ in range(TRIES):
        before = look()
        time.sleep(WINDOW_S)
        change = Difference(before, look())
        if all(abs(share - 1) <= 0.02 for share in accounted(change)):
            break
    return change


@pytest.mark.parametrize("device", ["null", "sim:h200-minilm-l6"])
@pytest.mark.parametrize("clients", [0, 2])
def test_busy_and_idle_are_all_the_time(serve: Callable[..., Server], device: str, clients: int) -> None:
    server = serve(f"--device={device}", "--dispatchers=2", "--canary-interval=0")  # each of which is a step
    over = threading.Event()

    def ask() -> None:
        with Client(server.address) as client:
            while not over.is_set():
                client.predict("a text for a device")
                time.sleep(0.001)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        change = settled(lambda: scrape(server.admin))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(accounted(change)) == 2
    assert all(abs(share - 1) <= 0.02 for share in accounted(change)), accounted(change)
    busy, active = change.by(BUSY, "dispatcher"), change.total(ACTIVE)
    assert max(busy.values()) <= active + 0.01 and active <= sum(busy.values()) + 0.01  # the union
    assert (active > 0) == (clients > 0)
    if not clients:  # asleep all the time, and it shows at each look
        assert change.total(IDLE, reason="no_work") == pytest.approx(2 * change.seconds, rel=0.02)
