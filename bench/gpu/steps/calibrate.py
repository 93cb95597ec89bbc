"""What steps cost on this GPU, as profiles for ``--device sim``: ``fastqps bench calibrate``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any

from bench.gpu.run import Run
from bench.gpu.servers.program import run_bench
from fastqps.devices.profile import Profile
from fastqps.devices.profile_file import load_profile, shipped

MODELS = ("minilm-l6", "qwen2.5-0.5b")
MODEL_S = 35.0  # about what one takes


def measure(run: Run) -> None:
    """One profile for each model, whose text is in the results, and how far the shipped one is from it."""
    for number, model in enumerate(MODELS):
        if not number or run.enough(MODEL_S, model):
            run.attempt(model, partial(_calibrate, run, model))
    run.finish()


def _calibrate(run: Run, model: str) -> None:
    path = run.cache / f"{model}.toml"
    flags = ["--model", str(run.checkpoint(model)), "--device", run.device, "--profile", str(path), "--no-check"]
    flags += ["--set", f"dtype={run.dtype}", "--set", "dispatchers=1"]
    if run.shape(model).kind == "decoder":
        flags += ["--set", "max-running=1024", "--set", "max-input-tokens=64", "--set", "max-output-tokens=64"]
    report = run_bench(run, "calibrate", flags)
    if run.dry:
        return
    if "calibration" not in report:
        raise RuntimeError(f"not measured to its end: {' '.join(report['notes'])}")
    run.raw(model, {"calibration": report["calibration"], "notes": report["notes"], "profile": path.read_text()})
    tell(run, model, load_profile(str(path)), report["calibration"])


def tell(run: Run, model: str, profile: Profile, calibration: Mapping[str, Any]) -> None:
    """Figures of a profile that was measured, and of the shipped one beside it."""
    note = f"deviation {100 * calibration['worst_deviation']:.0f} %"
    run.figure(f"{model}: fixed part of a step, measured", profile.fixed_us, "µs", note)
    if known := _shipped(model, profile.gpu):
        ratios = [known.step_us(step["tokens"], step["items"]) / step["us"] for step in calibration["steps"]]
        note = f"{min(ratios):.2f} to {max(ratios):.2f} × of {len(ratios)} shapes, by {known.name}"
        run.figure(f"{model}: steps of the shipped profile over the measured ones", median(ratios), "×", note)


def _shipped(model: str, gpu: str) -> Profile | None:
    """The shipped profile of this model on this make of GPU."""
    names = [name for name in shipped() if name.endswith(f"-{model}")]
    return next((load_profile(name) for name in names if name.partition("-")[0] in gpu.lower()), None)
