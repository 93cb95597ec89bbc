"""What steps cost on this GPU, as profiles for ``--device sim``: ``fastqps bench calibrate``."""

from __future__ import annotations

from functools import partial

from bench.gpu.run import Run
from bench.gpu.servers.program import run_bench
from fastqps.devices.profile import SHIPPED, load_profile, write_profile

MODELS = {"minilm-l6": "h200-minilm-l6", "qwen2.5-0.5b": "h200-qwen2.5-0.5b"}
MODEL_S = 35.0  # about what one takes


def measure(run: Run) -> None:
    """One profile for each model, whose text is in the results; with --profiles in the place of the shipped ones."""
    for number, (model, name) in enumerate(MODELS.items()):
        if not number or run.enough(MODEL_S, model):
            run.attempt(model, partial(_calibrate, run, model, name))
    run.finish()


def _calibrate(run: Run, model: str, name: str) -> None:
    path = run.cache / f"{name}.toml"
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
    profile, estimated = load_profile(str(path)), load_profile(name)
    note = f"estimated {estimated.fixed_us:.0f} µs; deviation {100 * report['calibration']['worst_deviation']:.0f} %"
    run.figure(f"{model}: fixed part of a step, measured", profile.fixed_us, "µs", note)
    if run.profiles:
        write_profile(profile, SHIPPED / f"{name}.toml")
        run.say(f"replaced {SHIPPED / name}.toml")
