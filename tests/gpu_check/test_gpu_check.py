"""The GPU suite as a whole: passes and their clocks, what stops it and what does not, and a dry run of all of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

import fake_cuda
import pytest
from paths import ROOT
from serving import PATIENCE_S, until

from bench.gpu import preflight, suite
from bench.gpu.__main__ import main
from bench.gpu.plan import BEFORE_S, PASSES, START_S, STEPS, TARGETS, chosen
from bench.gpu.results import Results
from bench.gpu.servers import modelled
from bench.gpu.servers.served import SETTLE_S
from bench.gpu.steps import decoder, encoder
from bench.gpu.suite import Suite

pytestmark = pytest.mark.compute


# ---- the plan


def test_passes_fit_their_limits() -> None:
    """Both together, with three minutes to spare for the machine's start and transfers, into a quarter of an hour."""
    assert [(name, each.limit_s) for name, each in PASSES.items()] == [("levers", 345), ("claims", 290)]
    for name, each in PASSES.items():
        assert BEFORE_S + sum(STEPS[step].limit_s for step in each.steps) <= each.limit_s, name


def test_points_fit_the_limits_of_their_steps() -> None:
    """With the starts as the plan has them, and 15 s until the first one: imports, checkpoints, prompts."""
    point_s = 7.0
    for name in ("smollm2-135m", "qwen2.5-0.5b"):
        sweep = decoder.SWEEPS[name]
        starts = len({arm.server["quantization"] for arm in sweep.arms}) + sweep.fp8_after
        points_s = (len(sweep.arms) + sweep.fp8_after) * (point_s + SETTLE_S)
        assert 15 + points_s + starts * START_S[1] <= STEPS[f"decoder:{name}"].limit_s, name
    needed_s = 15 + START_S[1] + START_S[2] + 5 * point_s + 3 * SETTLE_S
    assert needed_s <= STEPS["dispatchers:smollm2-135m"].limit_s


def test_every_step_is_a_module_and_every_target_has_a_step() -> None:
    for step in STEPS:
        assert callable(import_module(f"bench.gpu.steps.{step.partition(':')[0]}").measure)
    assert {target.step for target in TARGETS.values()} <= set(STEPS)


def test_passes_and_steps_are_chosen_by_name() -> None:
    assert list(chosen([])) == ["levers", "claims"]
    assert chosen(["decoder:llama-1b", "encoder"]) == {"": ("decoder:llama-1b", "encoder")}
    with pytest.raises(ValueError, match="no pass or step 'speed'"):
        chosen(["speed"])


def test_the_docs_name_every_step_with_its_limit() -> None:
    lines = (ROOT / "docs/gpu-check.md").read_text().splitlines()
    for name, step in STEPS.items():
        [limit] = {line.split("|")[-2].split()[0] for line in lines if line.startswith("|") and f"`{name}`" in line}
        assert float(limit) == step.limit_s, name
    for name, each in PASSES.items():
        assert f"| {name} | {each.limit_s} |" in lines


# ---- without a GPU


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "torch has been built without CUDA"
    monkeypatch.setattr(preflight, "ask_torch", lambda: {"why": why, "cuda": None, "gpus": 0})


@pytest.mark.parametrize("named", list(PASSES))
def test_without_a_gpu_it_prints_what_it_would_do(no_gpu: None, capsys: pytest.CaptureFixture[str], named: str) -> None:
    assert main([named]) == 0
    told = capsys.readouterr().out
    assert "nothing is measured: torch has been built without CUDA" in told
    listed = re.findall(r"^ +(\d+) s  (\S+)", told, re.MULTILINE)
    assert [step for _, step in listed] == ["at", *PASSES[named].steps, "in"]
    *each_s, in_all_s = (int(limit_s) for limit_s, _ in listed)
    assert sum(each_s) == in_all_s <= PASSES[named].limit_s
    assert f'make gpu-check PART="{named}"' in told


# ---- what is missing


def test_everything_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> None:
    facts = {"mps": "missing", "disk_free_gib": 9.0, "shm_mib": 99, "gpu_free_gib": 3.0}
    facts |= {"gpu_processes": "7, 9", "compute_mode": "Exclusive"}
    monkeypatch.setattr(preflight, "_resources", lambda: facts)
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    found = preflight.examine()
    told = "\n".join(found.describe()).partition("missing or small:\n")[2].splitlines()
    assert told == [
        "  a GPU, without which nothing is measured: torch has been built without CUDA",
        "  Python package sentence_transformers; left out: encoder_peers",
        "  nvidia-cuda-mps-control: dispatchers are measured without MPS",
        "  disk_free_gib: 9.0, 12 wanted for checkpoints and caches",
        "  shm_mib: 99, 256 wanted for MPS clients",
        "  gpu_free_gib: 3.0, 16 wanted for a model with its cache",
        "  the GPU to ourselves: other processes use it: 7, 9",
        "  compute mode Default: it is Exclusive; left out: dispatchers:smollm2-135m, dispatchers:minilm-l6",
    ]
    assert list(found.without()) == ["encoder_peers", "dispatchers:smollm2-135m", "dispatchers:minilm-l6"]


# ---- the clock, and how steps end


def test_steps_share_one_clock_and_hide_no_other(tmp_path: Path) -> None:
    """Each ends at its limit behind that of the one before. What failed, or could not run, is named."""
    limits = {"encoder": 100, "encoder_peers": 60, "decoder_peers": 65, "correct": -300}
    results = Results(tmp_path / "h200-2026-01-01.json")
    results.start(limits, command="test", commit="c", environment={})
    made = Suite(False, results, (tmp_path / "log").open("a"), {"encoder_peers": "Python package x"})
    began_s, ends = time.monotonic(), {}

    def ended(step: str, ends_s: float) -> str:
        ends[step] = ends_s - began_s
        return "it broke" if step == "decoder_peers" else ""

    made._ended = ended  # type: ignore[method-assign]
    assert not made.run(limits, began_s)
    assert ends == pytest.approx({"encoder": 100, "decoder_peers": 225})
    found = {step: (facts["state"], facts.get("error")) for step, facts in results.read()["steps"].items()}
    assert found == {
        "encoder": ("done", None), "encoder_peers": ("left out", "Python package x"),
        "decoder_peers": ("failed", "it broke"), "correct": ("left out", "no time left"),
    }  # fmt: skip


CHILD = """
import subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(other.pid, flush=True)
time.sleep({sleep})
"""


@pytest.mark.parametrize(("sleep", "said"), [(600, "it was killed at its limit"), (0, "")])
def test_a_step_ends_at_its_limit_with_all_it_started(tmp_path: Path, sleep: float, said: str) -> None:
    """Also with processes in groups of their own, as servers are."""
    limit_s = 2.0 if sleep else PATIENCE_S
    with (tmp_path / "log").open("w+") as log:
        while True:
            command = [sys.executable, "-c", CHILD.format(sleep=sleep)]
            assert suite.run_step(command, time.monotonic() + limit_s, log) == said
            if told := (tmp_path / "log").read_text():
                break
            limit_s *= 2  # a slow machine: it had not begun
    pid = int(told.split()[0])
    until(lambda: suite._session(pid) == 0, "the process in another group has ended")


def test_a_run_that_is_told_to_end_says_what_it_did_not_reach(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an outer time limit does before it kills."""
    monkeypatch.setattr(encoder, "measure", lambda run: signal.raise_signal(signal.SIGTERM))
    assert main(["--dry", "encoder", "decoder:llama-1b", "--results", str(tmp_path)]) == 1
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())["steps"]
    assert [found[step]["state"] for step in ("encoder", "decoder:llama-1b")] == ["failed", "pending"]
    assert found["encoder"]["error"] == "it was interrupted"
    told = capsys.readouterr()
    assert "decoder:llama-1b: not reached" in told.out and "ended by SIGTERM" in told.err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


# ---- wrong usage


@pytest.mark.parametrize(
    ("part", "folder", "said"),
    [
        ("speed", ".", "no pass or step 'speed'"),
        ("correct", "file", "no results can be put into "),
        ("correct", "locked", "another one is writing into "),
    ],
)
def test_wrong_usage_is_told_before_anything_is_measured(
    no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, folder: str, said: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir()
    held = os.open(tmp_path / "locked", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert main(["--dry", part, "--results", str(tmp_path / folder)]) == 2
    os.close(held)
    told = capsys.readouterr().err
    assert told.startswith(f"gpu-check: {said}") and told.count("\n") == 1
    assert not list((tmp_path / "locked").iterdir())


# ---- all of it, dry


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_without_its_slow_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """All servers are formulas, and nothing runs models in this process: the rest is what a pass makes of it."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr(modelled, "SERVED", ())
    really = suite.perform
    slow = ("profile", "decoder_peers")
    monkeypatch.setattr(
        suite, "perform", lambda step, *words, **more: step.startswith(slow) or really(step, *words, **more)
    )
    assert main(["--dry", name, "--results", str(tmp_path)]) == 0
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    assert not [step for step, facts in found["steps"].items() if facts["state"] != "done" or "left_out" in facts]
    here = {key for key, t in TARGETS.items() if t.step in PASSES[name].steps and not t.step.startswith(slow)}
    assert {row["target"] for row in found["table"] if row["target"]} == here


@pytest.mark.timeout(1200)  # a minute of CPU time, on whatever share of a machine
@pytest.mark.nightly  # it starts servers and interprets all kernels; in between, its parts are tested by themselves
def test_dry_run_of_all_that_measures_on_the_fake_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both passes, all other steps with targets, and a decoder's profile, in this process, which has imported
    everything. An encoder and a decoder are served for real, and their limits change."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    planned = {step for each in PASSES.values() for step in each.steps}
    others = {target.step for target in TARGETS.values()} - planned | {"profile:smollm2-135m"}
    code = main(["--dry", *PASSES, *others, "--results", str(tmp_path)])
    told = capsys.readouterr().out
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    states = {step: facts["state"] for step, facts in found["steps"].items()}
    assert states == dict.fromkeys(planned | others, "done"), told
    assert code == 0
    measured = {row["target"]: row["measured"] for row in found["table"] if row["target"]}
    assert set(measured) == set(TARGETS)
    assert min(measured[target] for target in ("encoder", "transport", "fp8", "decoder-135m")) > 0
    assert sorted(each.suffix for each in tmp_path.glob("dry-*")) == [".json", ".log", ".md"]
    assert f"written: {path}" in told and "no figure here says anything about a GPU" in told
