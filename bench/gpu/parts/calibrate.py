"""What steps cost on this GPU, as profiles for ``--device sim``: what ``fastqps bench calibrate`` measures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gpu.run import Run
from fastqps.devices.profile import SHIPPED, load_profile, write_profile

MODELS = {"minilm-l6": "h200-minilm-l6", "qwen2.5-0.5b": "h200-qwen2.5-0.5b"}


def measure(run: Run) -> None:
    """One profile for each model, beside the results; with --profiles in the place of the shipped ones."""
    for model, name in MODELS.items():
        folder = run.results.path.parent / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.toml"
        with TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "fastqps", "bench", "calibrate", "--model", str(run.checkpoint(model))]
            command += ["--device", run.device, "--output", scratch, "--profile", str(path), "--no-check"]
            command += ["--set", f"dtype={run.dtype}", "--set", "dispatchers=1"]
            if run.dry:
                items = "max-running" if run.shape(model).kind == "decoder" else "max-batch-items"
                command += ["--set", f"{items}=8", "--set", "max-batch-tokens=512"]
                command += ["--set", "max-input-tokens=64", "--set", "max-output-tokens=32", "--lengths", "8"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=run.left_s, check=False)
            if done.returncode:
                raise RuntimeError((done.stderr.strip().splitlines() or ["fastqps bench calibrate failed"])[-1])
            report = json.loads((Path(scratch) / "report.json").read_text())
        run.raw(model, {"calibration": report["calibration"], "notes": report["notes"]})
        profile = load_profile(str(path))
        estimated = load_profile(name)
        note = (
            f"estimated {estimated.fixed_us:.0f} µs; deviation {100 * report['calibration']['worst_deviation']:.0f} %"
        )
        run.figure(f"{model}: fixed part of a step, measured", profile.fixed_us, "µs", note)
        if run.profiles and not run.dry:
            write_profile(profile, SHIPPED / f"{name}.toml")
            run.say(f"replaced {SHIPPED / name}.toml")
