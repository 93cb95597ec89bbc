"""The limits of one text in a tokenizer process. docs/frontdoor.md names these numbers."""

from __future__ import annotations

USUAL_CPU_S = 0.01
"""CPU time of a short text (4 KiB at most). One that takes longer starts again among the long ones."""
LONG_CPU_S = 2.0
"""CPU time of any text. One that takes longer fails."""
WALL_FACTOR = 10
"""A worker that uses no CPU time is ended after this many times the limits above."""
APART_S = 5.0
"""After a slow text, its connection's texts wait among the long ones for this time."""
ADDRESS_SPACE_BYTES = 512 << 20
"""The limit of a worker's address space, beyond its size at the start."""
GROWTH_BYTES = 64 << 20
"""A worker is replaced when its resident memory has grown by more than this since its start."""
LONG_NICE = 10
LOAD_S = 120.0
"""Loading a tokenizer, and the start of the loading process."""
ANSWER_S = 30.0
"""Any other answer of the loading process. One that gives none is replaced."""
MESSAGE_BYTES = 1 << 20
"""The largest message to and from the loading process. A card has a few KiB, a prefix some thousand ids."""
