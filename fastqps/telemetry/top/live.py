"""The view in a terminal, until the user has seen enough."""

from __future__ import annotations

import signal

from rich.console import Console
from rich.live import Live

from fastqps.telemetry.top.screen import Screen
from fastqps.telemetry.top.watch import Ticks, Watch

DRAWS_PER_S = 4  # how soon it follows a new size, and updates how long a server has been silent


def show(watch: Watch, interval_s: float, console: Console) -> None:
    """Draws until Ctrl-C or SIGTERM, as ``KeyboardInterrupt``; the terminal is then as it was before."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = Screen(watch, interval_s, live=True)
    ticks = Ticks(interval_s)
    with Live(screen, console=console, screen=True, refresh_per_second=DRAWS_PER_S, vertical_overflow="crop"):
        while True:
            ticks.wait()
            watch.look()


def show_once(watch: Watch, interval_s: float, console: Console) -> None:
    """One look, all of it. Raises ``FetchError`` if it fails."""
    ticks = Ticks(interval_s)
    while watch.view is None:  # a restart in between takes another look
        ticks.wait()
        watch.look(raising=True)
    console.print(Screen(watch, interval_s, live=False))
