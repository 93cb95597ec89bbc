"""``python -m bench.gpu [PASS|STEP...]`` measures, each step in a process of its own; ``make gpu-check`` calls it."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from bench.gpu.plan import BEFORE_S, PASSES, STEPS, chosen
from bench.gpu.preflight import Machine, examine
from bench.gpu.results import Results, merge, page, slug
from bench.gpu.suite import Suite, perform
from bench.result_file import RESULTS
from fastqps.bench.measure.generator import ended_by_signals
from fastqps.bench.results.environment import commit
from fastqps.process.prctl import die_with_parent

ROOT = Path(__file__).parents[2]
COMMAND = "make gpu-check"
Calls = dict[str, dict[str, float]]  # by pass: its steps, each with its limit


def main(arguments: Sequence[str] | None = None) -> int:
    """0, also where there is no GPU; 1 if a step failed or a target was missed; 2: wrong usage."""
    options = _options(arguments)
    began_s = time.monotonic() - options.spent
    if options.merge:
        return _merge(options.merge)
    if options.dry:
        _interpret_kernels()
    if options.step:
        die_with_parent(os.getppid())
        return int(not perform(options.step, Results(options.file), options.ends))
    try:
        steps = chosen(options.part)
    except ValueError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    calls = {part: {name: options.longer * STEPS[name].limit_s for name in names} for part, names in steps.items()}
    machine = examine()
    print("\n".join(machine.describe()), flush=True)
    if machine.why and not options.dry:
        _print_plan(options.part, calls)
        return 0
    with ended_by_signals():
        return _measure(options, calls, machine, began_s)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    listed = [f"  {name:<22} {each.what}; {each.limit_s:g} s" for name, each in (PASSES | STEPS).items()]
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", epilog="\n".join(["passes and steps:", *listed]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("part", nargs="*", metavar="PASS|STEP", help="default: both passes, in this order")
    parser.add_argument("--dry", action="store_true", help="on the CPU at tiny shapes: proves the code, not a GPU")
    parser.add_argument("--longer", type=float, default=1.0, metavar="FACTOR", help="for the limits of the steps")
    parser.add_argument("--results", type=Path, help="folder for GPU-DATE.json, .md and .log (default: bench/results)")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="takes these into bench/results instead")
    parser.add_argument("--commit", default="", help="what a copy that is no checkout was copied from")
    for name, kind in (("spent", float), ("ends", float), ("file", Path), ("step", str)):
        parser.add_argument(f"--{name}", type=kind, default=kind(0) if kind is float else None, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _merge(files: Sequence[Path]) -> int:
    """Result files that passes left on several machines."""
    try:
        print(*merge(files), sep="\n")
    except (OSError, ValueError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    return 0


def _interpret_kernels() -> None:
    """Kernels run in Triton's interpreter, as in the tests."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        sys.path.append(str(ROOT / "tests/support/kernels"))
        import_module("interpreter").interpret_kernels()


def _print_plan(named: list[str], calls: Calls) -> None:
    """Prints the steps that would run, in order, with their limits."""
    print(f"gpu-check: no GPU here, so nothing is measured. With one, {COMMAND} would run:")
    for part, steps in calls.items():
        print(f"{part}: {PASSES[part].what}" if part else "steps:")
        print(f"  {BEFORE_S:>5.0f} s  at most before, to examine this machine and to build the extensions")
        for name, limit_s in steps.items():
            print(f"  {limit_s:>5.0f} s  {name:<24} {STEPS[name].what}")
        print(f"  {BEFORE_S + sum(steps.values()):>5.0f} s  in all")
    wanted = f' PART="{" ".join(named)}"' if named else ""
    print(f"On a machine with a CUDA GPU and a torch that can use it: {COMMAND}{wanted} (docs/gpu-check.md)")


def _measure(options: argparse.Namespace, calls: Calls, machine: Machine, began_s: float) -> int:
    name = "dry" if options.dry else slug(str(machine.facts["gpu"]))
    folder = options.results or (Path(tempfile.mkdtemp(prefix="fastqps-gpu-check-")) if options.dry else RESULTS)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    results = Results(folder / f"{name}-{today}.json")
    facts = {
        "command": " ".join(["python -m bench.gpu", *sys.argv[1:]]), "commit": options.commit or commit(),
        "date": today, "environment": machine.facts | ({"dry": True} if options.dry else {}),
    }  # fmt: skip
    steps = list(dict.fromkeys(step for limits_s in calls.values() for step in limits_s))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)  # until this process ends, or closes it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        results.start(steps, **facts)
        log = results.path.with_suffix(".log").open("a")
    except BlockingIOError:
        print(f"gpu-check: another one is writing into {folder}; wait for its end", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:  # before anything is measured
        print(f"gpu-check: no results can be put into {results.path}: {error}", file=sys.stderr)
        return 2
    well = True
    with log:
        suite = Suite(options.dry, results, log, machine.without())
        try:
            for limits in calls.values():
                well &= suite.run(limits, began_s + BEFORE_S)
                began_s = time.monotonic()
        except KeyboardInterrupt as error:
            print(f"gpu-check: ended by {error or 'Ctrl-C'}; what was measured is kept", file=sys.stderr)
            well = False
    os.close(lock)
    print(page(results.read()))
    print(f"written: {results.path}, .md and .log")
    missed = [row for row in results.read()["table"] if row["accepted"] is False and row["step"] in steps]
    return 0 if well and (options.dry or not missed) else 1


if __name__ == "__main__":
    sys.exit(main())
