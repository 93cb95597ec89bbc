"""``make duty-cycle``: the tuner on a modelled device whose duty cycles can be computed. Exit code 0: they agree.

Steps take 5 ms; a host that prepares them in Python takes 6 ms of CPU time for each. The tuner is asked twice which
settings to run, with that preparation and with the C++ one; then delays are planted into the launch of each step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from examples.duty_cycle.computed import NATIVE, PYTHON, Expected, measured, synchronous

HERE = Path(os.path.relpath(Path(__file__).parent))  # as a command line in a report should have it
PROFILE = HERE / "step-5ms.toml"
# Few short texts in a step: what there is of real work beside the modelled one stays small. The server and the
# generator share all CPUs: two dispatchers that prepare in Python need more than one.
COMMON = ("--model", "minilm", "--pin", "off", "--lengths", "4", "--set", "max-batch-items=8", "-c", "256")
HELD = ("--try", "lanes=1", "--try", "max-batch-delay=0us", "--try", "max-batch-tokens=4096")
PLANTED_MS = (0.0, 1.25, 5.0)
ANSWERS = {"python": 2, "native": 1}  # dispatchers that the tuner has to find, by --preparation

Row = tuple[Expected, float]  # and the measured duty cycle


def main() -> int:
    """0: all agree, 1: not all do."""
    parser = argparse.ArgumentParser(prog="python -m examples.duty_cycle", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/duty-cycle"), help="where the reports go")
    parser.add_argument("--duration", default="2s", help="of each measurement (default: 2s)")
    options = parser.parse_args()
    rows: list[Row] = []
    answers = {}
    for preparation, expected in (("python", PYTHON), ("native", NATIVE)):
        report = tune(preparation, options.output / preparation, options.duration)
        best = report["points"][report["best"]]["settings"]
        answers[preparation] = best["dispatchers"]
        for one in expected:
            varied = {key: value for key, value in one.settings.items() if key in best}
            rows.append((one, measured(report["points"], varied)))
    rows += planted(options.output, options.duration)
    lines = list(table(rows))
    for preparation, found in answers.items():
        lines.append(f"--preparation {preparation}: the tuner answers {found} dispatcher{'s' * (found > 1)}")
    (options.output / "table.txt").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))
    return 0 if all(one.holds(found) for one, found in rows) and answers == ANSWERS else 1


def tune(preparation: str, folder: Path, duration: str) -> Mapping[str, Any]:
    """The tuner's report."""
    tries = ["--try", "async-steps=off,on"] if preparation == "python" else []
    tries += ["--try", "dispatchers=1,2", *HELD]
    flags = ("--device", f"sim:{PROFILE}", "--set", f"preparation={preparation}", *tries)
    return bench("tune", folder, *COMMON, *flags, "--duration", duration)


def planted(output: Path, duration: str) -> Iterator[Row]:
    """One synchronous dispatcher whose launches take longer and longer."""
    for delay_ms in PLANTED_MS:
        folder = output / f"planted-{delay_ms:g}ms"
        folder.mkdir(parents=True, exist_ok=True)
        profile = folder / "profile.toml"
        profile.write_text(with_launch(PROFILE, delay_ms))
        flags = ("--device", f"sim:{profile}", "--set", "async-steps=off", "--set", "dispatchers=1")
        report = bench("rate", folder, *COMMON, *flags, "--duration", duration, "--repetitions", "3")
        name = f"synchronous, C++ preparation, launches of {delay_ms:g} ms"
        yield Expected(name, {}, synchronous(delay_ms), ""), measured(report["points"], {})


def with_launch(profile: Path, launch_ms: float) -> str:
    """The profile's text, with so much CPU time for each launch."""
    return profile.read_text().replace("[host]", f"[host]\nlaunch_us = {1000 * launch_ms:g}")


def bench(mode: str, folder: Path, *flags: str) -> Mapping[str, Any]:
    """Runs ``fastqps bench``; its report. ``SystemExit`` where there is none."""
    command = ["fastqps", "bench", mode, *flags, "--output", str(folder)]
    print("$", " ".join(command), flush=True)
    code = subprocess.run([sys.executable, "-m", *command]).returncode
    if code:
        raise SystemExit(code)
    found: Mapping[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def table(rows: list[Row]) -> Iterator[str]:
    """Computed beside measured."""
    width = max(len(expected.name) for expected, _ in rows)
    yield f"{'duty cycle':{width}}  computed  measured"
    for expected, found in rows:
        least = "≥" if expected.least else " "
        verdict = "" if expected.holds(found) else "  does not agree"
        yield f"{expected.name:{width}}  {least}{100 * expected.duty_cycle:5.1f} %  {100 * found:6.1f} %{verdict}"


if __name__ == "__main__":
    sys.exit(main())
