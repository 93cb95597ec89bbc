"""The GPU suite as a whole: passes and their clocks, what stops it and what does not, and a dry run of all of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import fake_cuda
import pytest
import torch
from paths import ROOT
from serving import PATIENCE_S, until

from bench.gpu import isolation, preflight, suite
from bench.gpu.__main__ import main
from bench.gpu.plan import BEFORE_S, PASSES, START_S, STEPS, chosen
from bench.gpu.results import Results
from bench.gpu.servers import modelled
from bench.gpu.servers.served import SETTLE_S
from bench.gpu.steps import decoder, encoder
from bench.gpu.suite import Suite
from bench.gpu.targets import TARGETS

pytestmark = pytest.mark.compute


# ---- the plan


def test_passes_fit_their_limits() -> None:
    """Both together, with three minutes to spare for the machine's start and transfers, into a quarter of an hour."""
    assert [(name, each.limit_s) for name, each in PASSES.items()] == [("levers", 345), ("claims", 330)]
    for name, each in PASSES.items():
        assert BEFORE_S + sum(STEPS[step].limit_s for step in each.steps) <= each.limit_s, name


def test_passes_have_the_most_valuable_steps_first() -> None:
    assert PASSES["levers"].steps == (
        "decoder:smollm2-135m", "decoder:qwen2.5-0.5b", "profile:minilm-l6"
    )  # fmt: skip
    assert PASSES["claims"].steps == ("dispatchers:smollm2-135m", "dispatchers:minilm-l6", "decoder_peers")


def test_points_fit_the_limits_of_their_steps() -> None:
    """With the starts as the plan has them, and 15 s until the first one: imports, checkpoints, prompts."""
    point_s = 7.0
    for name in ("smollm2-135m", "qwen2.5-0.5b"):
        sweep = decoder.SWEEPS[name]
        starts = len({arm.server["quantization"] for arm in sweep.arms}) + sweep.fp8_after
        points_s = (len(sweep.arms) + sweep.fp8_after) * (point_s + SETTLE_S)
        assert 15 + points_s + starts * START_S[1] <= STEPS[f"decoder:{name}"].limit_s, name
    needed_s = 15 + START_S[1] + START_S[2] + 8 * point_s + 5 * SETTLE_S  # A C C B2 D D C A
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_program_ends_well() -> None:
    command = [sys.executable, "-m", "bench.gpu", "decoder:llama-1b"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no GPU here, so nothing is measured" in done.stdout
    assert re.search(r"65 s  decoder:llama-1b .*\n +160 s  in all", done.stdout)


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
        "  disk: 9.0 GiB free, 12 wanted for checkpoints",
        "  /dev/shm: 99 MiB, 256 wanted for MPS clients",
        "  GPU memory: 3.0 GiB free, 16 wanted",
        "  the GPU to ourselves: other processes use it: 7, 9",
        "  compute mode Default: it is Exclusive; left out: dispatchers:smollm2-135m, dispatchers:minilm-l6",
    ]
    assert list(found.without()) == ["encoder_peers", "dispatchers:smollm2-135m", "dispatchers:minilm-l6"]


# ---- the clock, and how steps end


@pytest.fixture
def make_suite(tmp_path: Path) -> Any:
    """A suite of these steps; ``ended`` stands for running one."""

    def make(steps: list[str], ended: Callable[[str, float], str], **without: str) -> Suite:
        results = Results(tmp_path / "h200-2026-01-01.json")
        results.start(steps, command="test", commit="c", environment={})
        found = Suite(False, results, (tmp_path / "log").open("a"), without)
        found._ended = ended  # type: ignore[method-assign]
        return found

    return make


def states(made: Suite) -> dict[str, str]:
    return {step: facts["state"] for step, facts in made._results.read()["steps"].items()}


def test_a_step_has_its_limit_and_what_others_saved(make_suite: Any) -> None:
    ends: dict[str, float] = {}
    made = make_suite(["encoder", "correct"], lambda step, ends_s: ends.update({step: ends_s}) or "")
    began_s = time.monotonic() + 1000
    assert made.run({"encoder": 100, "correct": 65}, began_s)
    assert ends == {"encoder": began_s + 100, "correct": began_s + 165}


def test_a_failing_step_stops_no_other(make_suite: Any) -> None:
    made = make_suite(["encoder", "correct"], lambda step, ends_s: "it broke" if step == "encoder" else "")
    assert not made.run({"encoder": 100, "correct": 65}, time.monotonic())
    assert states(made) == {"encoder": "failed", "correct": "done"}
    assert made._results.read()["steps"]["encoder"]["error"] == "it broke"


def test_what_cannot_run_is_left_out_by_name(make_suite: Any) -> None:
    made = make_suite(["encoder_peers", "correct"], lambda step, ends_s: "", encoder_peers="Python package x")
    assert made.run({"encoder_peers": 60, "correct": 0.5}, time.monotonic() - 60)
    found = made._results.read()["steps"]
    assert (found["encoder_peers"]["state"], found["encoder_peers"]["error"]) == ("left out", "Python package x")
    assert (found["correct"]["state"], found["correct"]["error"]) == ("left out", "no time left")


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
            assert isolation.run_step(command, time.monotonic() + limit_s, log) == said
            if told := (tmp_path / "log").read_text():
                break
            limit_s *= 2  # a slow machine: it had not begun
    pid = int(told.split()[0])
    until(lambda: isolation._session(pid) == 0, "the process in another group has ended")


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


def test_a_killed_run_leaves_a_file_with_what_it_did_not_reach(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bench.gpu",
        "--dry",
        "profile:smollm2-135m",
        "correct",
        "--results",
        str(tmp_path),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            until(lambda: running(tmp_path) == "profile:smollm2-135m", "its first step runs")
        finally:
            child.kill()
    [path] = tmp_path.glob("dry-*.json")
    found = {step: facts["state"] for step, facts in json.loads(path.read_text())["steps"].items()}
    assert (found["profile:smollm2-135m"], found["correct"]) == ("running", "pending")
    assert "* correct: not reached" in path.with_suffix(".md").read_text()


def running(folder: Path) -> str:
    """The step that a run is at."""
    steps = next((json.loads(path.read_text())["steps"] for path in folder.glob("dry-*.json")), {})
    return next((step for step, facts in steps.items() if facts["state"] == "running"), "")


# ---- wrong usage


def test_a_wrong_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["speed"]) == 2
    assert "no pass or step 'speed'" in capsys.readouterr().err


def test_results_that_cannot_be_kept_are_told_before_anything_is_measured(
    no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--dry", "decoder:llama-1b", "--results", str(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("gpu-check: no results can be put into ") and told.count("\n") == 1


def test_two_do_not_write_into_one_folder(no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert main(["--dry", "decoder:llama-1b", "--results", str(tmp_path)]) == 2
    os.close(held)
    assert capsys.readouterr().err == f"gpu-check: another one is writing into {tmp_path}; wait for its end\n"
    assert not list(tmp_path.iterdir())


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


@pytest.mark.timeout(600)  # half a minute of CPU time, on whatever share of a machine
@pytest.mark.nightly  # in between, its parts are tested by themselves
def test_dry_run_of_both_passes_on_the_fake_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported everything; a decoder is served for real, and its limits change."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    code = main(["--dry", *PASSES, "--results", str(tmp_path)])
    told = capsys.readouterr().out
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    assert {step: facts["state"] for step, facts in found["steps"].items()} == dict.fromkeys(
        [step for each in PASSES.values() for step in each.steps], "done"
    ), told
    assert code == 0
    planned = {step for each in PASSES.values() for step in each.steps}
    assert {row["target"] for row in found["table"]} >= {key for key, t in TARGETS.items() if t.step in planned}
    served = next(row for row in found["table"] if row["target"] == "decoder-135m")
    assert served["measured"] > 0
    assert sorted(each.suffix for each in tmp_path.glob("dry-*")) == [".json", ".log", ".md"]
    assert f"written: {path}" in told and "no figure here says anything about a GPU" in told


@pytest.mark.timeout(600)
@pytest.mark.nightly  # it starts servers and interprets all kernels; the passes run without
def test_dry_run_of_steps_by_name_on_the_fake_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those in no pass that measure targets, and a decoder's profile."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    planned = {step for each in PASSES.values() for step in each.steps}
    named = sorted({target.step for target in TARGETS.values()} - planned)
    named.append("profile:smollm2-135m")
    assert main(["--dry", *named, "--results", str(tmp_path)]) == 0
    found = json.loads(next(tmp_path.glob("dry-*.json")).read_text())
    served = {row["target"]: row["measured"] for row in found["table"] if row["target"]}
    assert all(served[target] > 0 for target in ("encoder", "transport", "fp8"))
