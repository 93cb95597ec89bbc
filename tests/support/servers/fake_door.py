"""A front door that only lives: for tests of the supervisor. What it does is FAKE_DOOR, or what the test sends it."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time

from fastqps._core import Heartbeat, Segment
from fastqps.process.children import DoorSettings

# Where Header keeps the offset of the front doors' lines (csrc/core/layout.h), and what of a line is where
# (csrc/core/layout/processes.h).
HEADER_DOOR_LINES, LINE_BYTES, READY = 152, 2240, 80


def main(settings: DoorSettings) -> int:
    """Ready at once; drains when the phase says so, or not, or with an error: FAKE_DOOR = "", "stuck", "unclean"."""
    behaviour = os.environ.get("FAKE_DOOR", "")
    segment = Segment(settings.segment_fd)
    memory = mmap.mmap(settings.segment_fd, 0)
    (lines,) = struct.unpack_from("<Q", memory, HEADER_DOOR_LINES)
    heartbeat = Heartbeat(segment, "door", settings.index, settings.parent_fd)
    struct.pack_into("<I", memory, lines + settings.index * LINE_BYTES + READY, 1)
    print(f"fake door {settings.index} runs", file=sys.stderr)
    while segment.phase in ("starting", "serving", "lame duck") or behaviour == "stuck":
        time.sleep(0.02)
    print(f"phase {segment.phase}", file=sys.stderr)
    del heartbeat
    return 7 if behaviour == "unclean" else 0
