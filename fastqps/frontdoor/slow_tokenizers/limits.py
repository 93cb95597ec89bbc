"""What one text may take. docs/frontdoor.md names these numbers."""

from __future__ import annotations

USUAL_CPU_S = 0.01
"""Of a text that waits among short ones (4 KiB at most): one that takes longer starts again among the long ones."""
LONG_CPU_S = 2.0
"""Of any text: one that takes longer fails."""
WALL_FACTOR = 10
"""A worker that uses no CPU time is given up after so many times the above."""
APART_S = 5.0
"""For so long a connection's texts wait among the long ones, after one of them was slow."""
ADDRESS_SPACE_BYTES = 512 << 20
"""Of a worker, beyond what it has at its start."""
GROWTH_BYTES = 64 << 20
"""A worker that keeps more than this beyond what it has at its start is replaced."""
LONG_NICE = 10
MESSAGE_BYTES = 1 << 20
"""To and from the process that loads: a card has a few KiB, and a prefix of some thousand ids."""
