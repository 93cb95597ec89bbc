"""Where tests and their support modules are, for tests and for the programs that they start."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests/support"
FAKE_MPS = SUPPORT / "fake_mps"


def python_path(*more: str) -> str:
    """PYTHONPATH for a program that imports this tree and the modules of tests/support."""
    rooms = [SUPPORT, *(path for path in sorted(SUPPORT.iterdir()) if path.is_dir())]
    return os.pathsep.join([str(ROOT), *map(str, rooms), *filter(None, more)])
