"""The limits of compiling one structure that a client sent. docs/structure.md names these numbers."""

from __future__ import annotations

CPU_S = 0.5
"""CPU time."""
WALL_FACTOR = 10
"""A process that uses no CPU time is ended after this many times the limit above."""
GROWTH_BYTES = 48 << 20
"""Memory: of the address space, at any moment."""
STACK_BYTES = 1 << 20
"""Less than the stack of any thread that compiles what passed."""
LOAD_S = 120.0
"""Reading the model's vocabulary."""
