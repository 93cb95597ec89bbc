"""Compiles every kernel of every model ahead of time, without a GPU, and prints what became of each."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict

from bench.kernels.cases import all_cases
from bench.kernels.compile import TARGETS, compile_all, table
from bench.kernels.machine_code import Target


def _heading(target: Target) -> str:
    import triton

    return (
        f"# Kernels as compiled for {target.name}\n\nWritten by `make kernels`; docs/kernels.md explains it. Triton "
        f"{triton.__version__}, {target.compiler()}.\n\n"
    )


def main() -> int:
    """Prints the table, or with --json the builds; 1 if one did not compile."""
    parser = argparse.ArgumentParser(prog="python -m bench.kernels", description=__doc__)
    parser.add_argument("--arch", default="90", choices=TARGETS, help="compute capability × 10, or AMD's name (90)")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has a match")
    parser.add_argument("--brief", action="store_true", help="few cases, of every kind: what the tests compile")
    parser.add_argument("--json", action="store_true", help="builds as JSON instead of a table")
    options = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET"):
        parser.error("TRITON_INTERPRET is set: kernels are interpreted then, not compiled")
    target = TARGETS[options.arch]
    cases = [c for c in all_cases(target.fp8, options.brief) if re.search(options.only, c.name)]
    builds = compile_all(cases, target)
    if options.json:
        print(json.dumps([asdict(b) for b in builds]))
    else:
        print(_heading(target) + table(builds), end="")
    failed = [b.case for b in builds if b.error]
    print(f"{len(builds)} kernels of {len(cases)} cases, {len(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
