"""50 tokens in, 50 out, over gRPC: how many sequences should run on how many lanes, and what FP8 gains."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from bench.gpu.models.vocabulary import texts, write_payloads
from bench.gpu.profile.bounds import measure_peaks
from bench.gpu.run import Run
from bench.gpu.servers.arms import Arm, Arms, Claim, duty
from fastqps.bench.measure.workload import Payloads
from fastqps.v1 import predict_pb2 as pb

TOKENS_IN = TOKENS_OUT = 50
PROMPTS = 8192
P99_US = 1e6
DRY = 256  # as many times fewer sequences run in a dry run
NAMES = {"none": "bf16", "fp8": "FP8", "auto": "auto"}


def place(lanes: int, running: int, quantization: str = "none") -> Arm:
    """``running`` sequences on each lane; twice as many calls are in flight as run in all."""
    limits = {"lanes": lanes, "max-running": running}
    name = f"{NAMES[quantization]}, {lanes} × {running:,}"
    return Arm(name, limits, 2 * lanes * running, {"quantization": quantization})


@dataclass(frozen=True)
class Sweep:
    """Arms of one shape, in this order. ``fp8_after``: then the fastest of them in FP8. ``p99``: then open loops
    within ``P99_US`` at the fastest place in bf16."""

    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    fp8_after: bool = False
    p99: bool = False


BASELINE = place(2, 512)
SWEEPS = {
    "smollm2-135m": Sweep(
        (place(2, 1024), BASELINE, place(1, 2048), place(2, 2048), place(1, 4096)),
        (
            Claim("bf16*", target="decoder-135m"),
            Claim("bf16*", BASELINE.name, "running"),
            Claim("FP8*", "bf16*", name="FP8 over bf16"),
        ),
        fp8_after=True,
    ),
    "qwen2.5-0.5b": Sweep(
        (place(1, 1024, "fp8"), place(1, 2048, "fp8"), place(1, 1024), place(1, 2048)),
        (
            Claim("bf16*", target="duty", value=duty),
            Claim("FP8*", "bf16*", "fp8-0.5b", p99_us=P99_US),
            Claim("open loop*", target="decoder-0.5b", p99_us=P99_US),
        ),
        p99=True,
    ),
    "llama-1b": Sweep(
        tuple(place(1, 512, kind) for kind in ("none", "fp8", "fp8", "none", "auto")),
        (Claim("FP8*", "bf16*", "fp8"), Claim("auto*", "bf16*", name="--quantization auto over bf16")),
    ),
}


def measure(run: Run) -> None:
    """The sweep that the step names."""
    shape, sweep = run.argument, SWEEPS[run.argument]
    peaks = measure_peaks(run)
    floor_us = peaks.decoder_us(run.shape(shape), TOKENS_IN, tokens_out(run))
    arms = {arm.name: _sized(run, arm) for arm in sweep.arms}
    with TemporaryDirectory() as folder, Arms(run, shape, "requests/s", sweep.claims) as turns:
        turns.floor = lambda rate: peaks.share(floor_us, rate)
        calls = payloads(run, shape, folder)
        turns.serve(list(arms.values()), settings_of(run, shape), calls, slow=True)
        for number, arm in enumerate(sweep.arms):
            turns.turn(arms[arm.name])
            if not number and BASELINE in sweep.arms:
                served = turns.served(arms[arm.name])
                run.target("start", served.start_s, f"one dispatcher; {served.stages}")
        best = arms.get(turns.fastest("bf16*", P99_US) or turns.fastest("bf16*"))
        if best and sweep.fp8_after:
            fp8 = dataclasses.replace(best, name=best.name.replace("bf16", "FP8"), server={"quantization": "fp8"})
            turns.serve([fp8], settings_of(run, shape), calls, slow=True)
            turns.turn(fp8)
        if best and sweep.p99:
            turns.search(best, P99_US)
    run.finish()


def settings_of(run: Run, model: str) -> dict[str, object]:
    """The settings of a server for these requests."""
    return {
        "model": str(run.checkpoint(model)), "device": run.device, "dtype": run.dtype, "dispatchers": 1,
        "max-input-tokens": TOKENS_IN, "max-output-tokens": tokens_out(run), "max-queue-items": 1 << 14,
        "slots": 1 << 14, "default-timeout": "60s",
    }  # fmt: skip


def tokens_out(run: Run) -> int:
    """The number of tokens that answer each prompt."""
    return 5 if run.dry else TOKENS_OUT


def prompts(run: Run, model: str) -> list[str]:
    """Different ones, of exactly so many tokens."""
    return texts(run.checkpoint(model), 50 if run.dry else PROMPTS, TOKENS_IN)


def payloads(run: Run, model: str, folder: str) -> Payloads:
    """Calls with these prompts, which get exactly so many tokens, greedily."""
    options = pb.GenerateOptions(max_tokens=tokens_out(run), ignore_eos=True)
    return write_payloads(folder, [pb.PredictRequest(text=text, generate=options) for text in prompts(run, model)])


def _sized(run: Run, arm: Arm) -> Arm:
    if not run.dry:
        return arm
    limits = {**arm.limits, "max-running": arm.limits["max-running"] // DRY}
    return dataclasses.replace(arm, limits=limits, in_flight=16)
