"""``python -m bench.gpu [PART...]``: measures, each step in a process of its own; a failing step leaves its error."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.gpu import machine
from bench.gpu.checkpoints import CACHE
from bench.gpu.plan import BRIEF, PART_S, PARTS, chosen
from bench.gpu.results import Results, page, slug
from bench.gpu.run import Run
from fastqps.bench.environment import Others, commit

RESULTS = Path(__file__).parents[1] / "results"
GRACE_S = 10.0  # beyond its limit, for a step to end by itself
COMMAND = "make gpu-check"


def main() -> int:
    """0, also where there is no GPU; 1 if a step failed or something that has to be reached was not; 2: wrong usage."""
    options = _options()
    if options.step:
        return _step(options)
    try:
        steps = chosen(options.part, brief=options.brief)
    except ValueError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    found = machine.gpu()
    if "gpu" not in found and not options.dry:
        return _skip(options.part, steps, str(found["why"]))
    if options.dry and options.results is None:
        options.results = Path(tempfile.mkdtemp(prefix="fastqps-gpu-check-"))
    return _measure(options, steps, found)


def _options() -> argparse.Namespace:
    listed = "\n".join(f"  {name:<12} {part.what}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", epilog=f"parts:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", metavar="PART", help="parts or steps of them, as micro.gemm (default: all)")
    parser.add_argument("--dry", action="store_true", help="on the CPU at tiny shapes: proves the code, not a GPU")
    parser.add_argument(
        "--repetitions", type=int, default=0, help="of every point that is compared (default: 3; brief: 1)"
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="of every point (default: 4; brief: 2.5; dry: 0.3)")
    parser.add_argument("--brief", action="store_true", help=f"measurements in {100 * BRIEF:.0f} %% of their time")
    parser.add_argument("--results", type=Path, help="folder for GPU-DATE.json (default: bench/results)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for checkpoints")
    parser.add_argument("--commit", default="", help="what a copy that is no checkout was copied from")
    parser.add_argument("--profiles", action="store_true", help="calibrate replaces fastqps/data/profiles/h200-*.toml")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.seconds = options.seconds or (0.3 if options.dry else 2.5 if options.brief else 4.0)
    options.repetitions = options.repetitions or (1 if options.brief else 3)
    return options


def _skip(named: list[str], steps: dict[str, float], why: str) -> int:
    print(f"gpu-check: no GPU here: {why}. Skipped:")
    for name, part in PARTS.items():
        if set(part.steps) & set(steps):
            print(f"  {name:<12} {part.what}")
    print("On a machine with a CUDA GPU, a torch that can use it, and this checkout, run")
    wanted = " ".join(named)
    print(f"  {COMMAND}" + (f' PART="{wanted}"' if named else ""))
    print(f"or part by part, each less than eight minutes: {COMMAND} PART=correct, … (docs/gpu-check.md)")
    return 0


def _measure(options: argparse.Namespace, steps: dict[str, float], found: dict[str, Any]) -> int:
    name = "dry" if options.dry else slug(str(found["gpu"]))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    results = Results((options.results or RESULTS) / f"{name}-{today}.json")
    where = machine.environment(found) | ({"dry": True} if options.dry else {})
    command = " ".join(["python -m bench.gpu", *sys.argv[1:]])
    try:
        _lock(results.path.parent)
        results.start(command=command, commit=options.commit or commit(), date=today, environment=where)
    except BlockingIOError:
        print(f"gpu-check: another one is writing into {results.path.parent}; wait for its end", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:  # before anything is measured
        print(f"gpu-check: no results can be put into {results.path}: {error}", file=sys.stderr)
        return 2
    for key, value in where.items():
        print(f"{key:<24} {value}")
    failed = False
    part_ends: dict[str, float] = {}
    for step, limit in steps.items():
        part = next(name for name, part in PARTS.items() if step in part.steps)
        ends = part_ends.setdefault(part, time.monotonic() + PART_S)
        failed |= not _run_step(options, results, step, min(limit, ends - time.monotonic()))
    print(page(results.read()))
    print(f"written: {results.path}")
    missed = [row for row in results.read()["table"] if row["accepted"] is False and row["step"] in steps]
    return 1 if failed or (missed and not options.dry) else 0


def _lock(folder: Path) -> None:
    """Makes the folder, and keeps others out of it until this process ends. ``BlockingIOError``: one is there."""
    folder.mkdir(parents=True, exist_ok=True)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _run_step(options: argparse.Namespace, results: Results, step: str, limit_s: float) -> bool:
    """Whether it went well."""
    print(f"== {step}: at most {limit_s:.0f} s", flush=True)
    began, others = time.monotonic(), Others()
    results.begin(step)
    command = [sys.executable, "-m", "bench.gpu", "--step", step, "--limit", f"{limit_s:.1f}"]
    command += ["--file", str(results.path), "--cache", str(options.cache), "--seconds", f"{options.seconds:g}"]
    command += ["--repetitions", str(options.repetitions)]
    command += [
        flag
        for flag, on in (("--dry", options.dry), ("--profiles", options.profiles), ("--brief", options.brief))
        if on
    ]
    # A session of its own: what it leaves behind ends with it.
    child = subprocess.Popen(command, start_new_session=True, env=_surroundings())
    error = ""
    try:
        code = child.wait(max(1.0, limit_s) + GRACE_S)
        if code:
            error = results.read()["parts"][step].get("error") or f"its process ended with code {code}"
    except subprocess.TimeoutExpired:
        error = f"it took longer than {limit_s:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    results.end(step, "failed" if error else "done", time.monotonic() - began, error)
    facts = f"{time.monotonic() - began:.0f} s, other programs {100 * others.share():.0f} % of CPU"
    print(f"   {error or 'done'}; {facts}", flush=True)
    return not error


def _surroundings() -> dict[str, str]:
    """Nothing is fetched from anywhere, nobody draws bars, and what one step compiles the next ones need not."""
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    quiet |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    quiet["TRITON_CACHE_DIR"] = os.environ.get("TRITON_CACHE_DIR") or str(CACHE.parent / "triton")
    return {**os.environ, **quiet}


def _step(options: argparse.Namespace) -> int:
    """In the child: runs one step; its error goes into the file."""
    results = Results(options.file)
    run = Run(
        options.step, results, options.dry, 1 if options.dry else options.repetitions, options.seconds,
        options.limit, options.cache, options.profiles, options.brief,
    )  # fmt: skip
    try:
        if options.dry:  # kernels are interpreted, as in the tests
            sys.path.append(str(RESULTS.parents[1] / "tests"))
            import_module("interpreter").interpret_kernels()
        import_module(f"bench.gpu.{options.step}").measure(run)
    except BaseException as error:
        traceback.print_exc()
        results.end(options.step, "failed", 0.0, f"{type(error).__name__}: {' '.join(str(error).split())[:400]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
