"""Puts result files together that passes left on several machines: ``python -m bench.gpu.merge FILE...``"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.gpu.results import MODE, Results
from bench.result_file import RESULTS


def merge(files: Sequence[Path], folder: Path = RESULTS) -> list[Path]:
    """Each file's steps into the one of its name in ``folder``, in the place of what was there of them.

    ``ValueError`` for a file that is none of the suite's, or that was measured on another GPU than the rest. Its steps
    keep their commits.
    """
    changed = []
    for path in files:
        new = Results(path).read()
        if new.get("mode") != MODE:
            raise ValueError(f"{path} is no result of the GPU suite")
        results = Results(folder / path.name)
        if not (found := results.read()):
            results.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, results.path)
            found = new
        old, own = found["environment"].get("gpu"), new["environment"].get("gpu")
        if old != own:
            raise ValueError(f"{path} is of the GPU {own!r}, and {results.path} of {old!r}")
        results.take(new)
        changed.append(results.path)
    return changed


def main() -> int:
    """0, or 2 with the reason."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("python -m bench.gpu.merge FILE...: GPU-DATE.json, of make gpu-check", file=sys.stderr)
        return 2
    try:
        for path in merge([Path(name) for name in sys.argv[1:]]):
            print(path)
    except (OSError, ValueError) as error:
        print(f"merge: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
