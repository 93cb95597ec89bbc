"""``fastqps serve`` as it is, but with dispatchers of the tests': echo_dispatcher.py, or TEST_DISPATCHER; and with the
front doors of TEST_FRONTDOOR.

TEST_LOAD: a file with two numbers, the utilization and the requests per second that the server says of itself, whatever
its load is. It is read again and again.
"""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fastqps import cli
from fastqps._core import Segment
from fastqps.process.children import DispatcherSettings, DoorSettings

DispatcherSettings.module = os.environ.get("TEST_DISPATCHER", "echo_dispatcher")
DoorSettings.module = os.environ.get("TEST_FRONTDOOR", DoorSettings.module)


def say_load(path: Path) -> None:
    """Puts the file's numbers where the supervisor would put its own."""
    set_load, set_phase = Segment.set_load, Segment.set_phase

    def repeat(segment: Segment) -> None:
        while True:
            utilization, requests_per_second = map(float, path.read_text().split())
            set_load(
                segment,
                utilization=utilization,
                cpu_utilization=0.5,
                memory_utilization=0.5,
                requests_per_second=requests_per_second,
                errors_per_second=0.0,
                queue_wait_s=0.0,
                items_waiting=0,
                items_running=0,
            )
            time.sleep(0.05)

    def begin(segment: Segment, *arguments: Any) -> None:
        set_phase(segment, *arguments)
        Segment.set_phase = set_phase
        threading.Thread(target=repeat, args=(segment,), daemon=True).start()

    Segment.set_load = lambda *_, **__: None
    Segment.set_phase = begin


if __name__ == "__main__":
    if path := os.environ.get("TEST_LOAD"):
        say_load(Path(path))
    sys.exit(cli.main(sys.argv[1:]))
