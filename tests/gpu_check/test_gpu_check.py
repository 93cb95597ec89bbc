"""The GPU suite as a whole: passes and their clocks, what stops it and what does not, and a dry run of all of it."""

from __future__ import annotations

import argparse
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

from bench.gpu import isolation, machine, preflight, suite
from bench.gpu.__main__ import main
from bench.gpu.plan import BEFORE, PASSES, START_S, STEPS, chosen, limits, module_of
from bench.gpu.preflight import examine
from bench.gpu.results import Results
from bench.gpu.servers import modelled
from bench.gpu.servers.served import SETTLE_S
from bench.gpu.steps import decoder, ipc
from bench.gpu.suite import Suite
from bench.gpu.targets import TARGETS

pytestmark = pytest.mark.compute
PEER_STARTS = {"claims": 1}  # of decoder_peers


# ---- the plan


def test_passes_fit_their_limits() -> None:
    """Both together, with three minutes to spare for the machine's start and transfers, into a quarter of an hour."""
    assert [(name, each.limit_s) for name, each in PASSES.items()] == [("levers", 390), ("claims", 330)]
    for name, each in PASSES.items():
        assert sum(limits(each.steps).values()) <= each.limit_s, name


def test_passes_have_the_most_valuable_steps_first() -> None:
    assert PASSES["levers"].steps == (
        "decoder:smollm2-135m", "decoder:qwen2.5-0.5b", "decoder:smollm2-135m-fp8", "products", "profile:minilm-l6"
    )  # fmt: skip
    assert PASSES["claims"].steps == ("dispatchers:smollm2-135m", "dispatchers:minilm-l6", "decoder_peers")


def test_points_fit_the_limits_of_their_steps() -> None:
    """With the starts as the plan has them, and 15 s until the first one: imports, checkpoints, prompts."""
    for name, sweep in decoder.SWEEPS.items():
        points_s = max(1, len(sweep.places)) * (decoder.POINT_S + SETTLE_S) + START_S[1]
        assert 15 + len(sweep.quantizations) * points_s <= STEPS[f"decoder:{name}"].limit_s, name
    needed_s = 15 + START_S[1] + START_S[2] + 8 * decoder.POINT_S + 5 * SETTLE_S  # A C C B2 D D C A
    assert needed_s <= STEPS["dispatchers:smollm2-135m"].limit_s


def test_every_step_is_a_module_and_every_target_has_a_step() -> None:
    for step in STEPS:
        assert callable(import_module(module_of(step)).measure)
    assert {target.step for target in TARGETS.values()} <= set(STEPS)


def test_passes_and_steps_are_chosen_by_name() -> None:
    assert list(chosen([])) == ["levers", "claims"]
    assert chosen(["kernels", "encoder"]) == {"": ("kernels", "encoder")}
    assert limits(("encoder",), longer=3)["encoder"] == 3 * STEPS["encoder"].limit_s
    with pytest.raises(ValueError, match="no pass or step 'speed'"):
        chosen(["speed"])


def test_the_docs_name_every_step_with_its_limit() -> None:
    lines = (ROOT / "docs/gpu-check.md").read_text().splitlines()
    for name, step in (BEFORE | STEPS).items():
        [limit] = {line.split("|")[-2].split()[0] for line in lines if line.startswith("|") and f"`{name}`" in line}
        assert float(limit) == step.limit_s, name
    for name, each in PASSES.items():
        assert f"| {name} | {each.limit_s} | {each.starts} |" in lines


# ---- without a GPU


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu", lambda: {"why": "torch has been built without CUDA", "cuda": None, "gpus": 0})
    monkeypatch.setattr(preflight, "_compiles", lambda *words: True)


@pytest.mark.parametrize("named", list(PASSES))
def test_without_a_gpu_it_prints_what_it_would_do(no_gpu: None, capsys: pytest.CaptureFixture[str], named: str) -> None:
    assert main([named]) == 0
    told = capsys.readouterr().out
    assert "a GPU: torch has been built without CUDA" in told
    listed = re.findall(r"^ +(\d+) s  (\S+)", told, re.MULTILINE)
    assert [step for _, step in listed] == [*BEFORE, *PASSES[named].steps, "in"]
    *each_s, in_all_s = (int(limit_s) for limit_s, _ in listed)
    assert sum(each_s) == in_all_s <= PASSES[named].limit_s
    assert f"in all, {PASSES[named].starts} server starts" in told
    assert f'make gpu-check PART="{named}"' in told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_program_ends_well() -> None:
    command = [sys.executable, "-m", "bench.gpu", "kernels"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no GPU here, so nothing is measured" in done.stdout
    assert re.search(r"255 s  kernels .*\n +350 s  in all", done.stdout)


# ---- what is missing


def test_everything_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> None:
    lacking = {"torch", "uvloop", "sentence_transformers"}
    refused = ("nghttp2/nghttp2.h", "-lssl")
    monkeypatch.setattr(preflight, "installed", lambda name: name not in lacking)
    monkeypatch.setattr(preflight, "_compiles", lambda cxx, *words: not any(w in " ".join(words) for w in refused))
    monkeypatch.setattr(preflight, "SHM_MIB", 1 << 40)
    found = examine(built=False)
    assert [lack.what.partition(" (")[0] for lack in found.lacks if lack.stops] == [
        "Python packages: torch, uvloop",
        "for the compiler: nghttp2/nghttp2.h, libssl",
        "a GPU: torch has been built without CUDA",
    ]
    assert found.without() == {"encoder_peers": "Python package sentence_transformers"}
    told = "\n".join(found.describe())
    assert "Python package sentence_transformers; left out: encoder_peers" in told
    assert "/dev/shm: " in told and "missing, without which nothing runs:" in told
    assert not any("compiler" in lack.what for lack in examine(built=True).lacks if lack.stops), "nothing to build"


def test_the_compiler_is_asked_for_each_header_and_library() -> None:
    assert preflight._compiles("g++", "#include <vector>\n", "-E")
    assert not preflight._compiles("g++", "#include <no/such.h>\n", "-E")
    assert preflight._compiles("g++", "", "-shared", "-lm")
    assert not preflight._compiles("g++", "", "-shared", "-lno_such")


def test_others_on_the_gpu_are_told() -> None:
    facts = {"mps": "/usr/bin/x", "disk_free_gib": 99.0, "shm_mib": 999, "gpu_free_gib": 3.0, "gpu_processes": "7, 9"}
    told = [lack.what for lack in preflight._resources(facts)]
    assert told == ["GPU memory: 3.0 GiB free, 16 wanted", "the GPU to ourselves: other processes use it: 7, 9"]


# ---- the clock, and how steps end


@pytest.fixture
def make_suite(tmp_path: Path) -> Any:
    """A suite of these steps; ``ended`` stands for running one."""

    def make(steps: list[str], ended: Callable[[str, float], str], **without: str) -> Suite:
        results = Results(tmp_path / "h200-2026-01-01.json")
        results.start(steps, command="test", commit="c", environment={})
        options = argparse.Namespace(dry=False)
        found = Suite(options, results, (tmp_path / "log").open("a"), without)
        found._ended = ended  # type: ignore[method-assign]
        return found

    return make


def states(made: Suite) -> dict[str, str]:
    return {step: facts["state"] for step, facts in made._results.read()["steps"].items()}


def test_a_step_has_its_limit_and_what_others_saved(make_suite: Any) -> None:
    ends: dict[str, float] = {}
    made = make_suite(["build", "encoder", "fp8"], lambda step, ends_s: ends.update({step: ends_s}) or "")
    assert made.run({"preflight": 30, "build": 75, "encoder": 100, "fp8": 65}, 1000.0 + time.monotonic())
    assert [round(ends["encoder"] - ends["build"]), round(ends["fp8"] - ends["encoder"])] == [100, 65]
    assert ends["build"] - time.monotonic() - 1000 == pytest.approx(105, abs=PATIENCE_S)


def test_a_failing_step_stops_no_other_but_a_failing_build_does(make_suite: Any) -> None:
    made = make_suite(["build", "encoder", "fp8"], lambda step, ends_s: "it broke" if step == "encoder" else "")
    assert not made.run({"build": 75, "encoder": 100, "fp8": 65}, time.monotonic())
    assert states(made) == {"build": "done", "encoder": "failed", "fp8": "done"}
    assert made._results.read()["steps"]["encoder"]["error"] == "it broke"
    made = make_suite(["build", "products"], lambda step, ends_s: "no compiler")
    assert not made.run({"build": 75, "products": 100}, time.monotonic())
    assert states(made)["build"] == "failed" and states(made)["products"] == "pending"


def test_what_cannot_run_is_left_out_by_name(make_suite: Any) -> None:
    made = make_suite(["encoder_peers", "fp8"], lambda step, ends_s: "", encoder_peers="Python package x")
    assert made.run({"encoder_peers": 60, "fp8": 0.5}, time.monotonic() - 60)
    found = made._results.read()["steps"]
    assert (found["encoder_peers"]["state"], found["encoder_peers"]["error"]) == ("left out", "Python package x")
    assert (found["fp8"]["state"], found["fp8"]["error"]) == ("left out", "no time left")


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
    monkeypatch.setattr(ipc, "measure", lambda run: signal.raise_signal(signal.SIGTERM))
    assert main(["--dry", "ipc", "fp8", "--results", str(tmp_path)]) == 1
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())["steps"]
    assert [found[step]["state"] for step in ("build", "ipc", "fp8")] == ["done", "failed", "pending"]
    assert found["ipc"]["error"] == "it was interrupted"
    told = capsys.readouterr()
    assert "fp8: not reached" in told.out and "ended by SIGTERM" in told.err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_killed_run_leaves_a_file_with_what_it_did_not_reach(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.gpu", "--dry", "kernels", "fp8", "--results", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            until(lambda: running(tmp_path) == "kernels", "its first step runs")
        finally:
            child.kill()
    [path] = tmp_path.glob("dry-*.json")
    found = {step: facts["state"] for step, facts in json.loads(path.read_text())["steps"].items()}
    assert (found["kernels"], found["fp8"]) == ("running", "pending")
    assert "* fp8: not reached" in path.with_suffix(".md").read_text()


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
    assert main(["--dry", "kernels", "--results", str(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("gpu-check: no results can be put into ") and told.count("\n") == 1


def test_two_do_not_write_into_one_folder(no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert main(["--dry", "kernels", "--results", str(tmp_path)]) == 2
    os.close(held)
    assert capsys.readouterr().err == f"gpu-check: another one is writing into {tmp_path}; wait for its end\n"
    assert not list(tmp_path.iterdir())


def test_a_missing_package_stops_the_run_and_is_in_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "gpu", lambda: {"gpu": "NVIDIA H200", "cuda": "12.9", "gpus": 1})
    monkeypatch.setattr(preflight, "installed", lambda name: name != "hdrh")
    monkeypatch.setattr(Suite, "run", lambda *words: pytest.fail("nothing can run"))
    assert main(["levers", "--results", str(tmp_path)]) == 1
    assert "Python packages: hdrh" in capsys.readouterr().out
    found = json.loads(next(tmp_path.glob("h200-*.json")).read_text())["steps"]
    assert found["preflight"]["state"] == "failed" and "hdrh" in found["preflight"]["error"]
    assert found["decoder:smollm2-135m"]["state"] == "pending"


# ---- all of it, dry


def starts(found: dict[str, Any], name: str) -> int:
    """Of servers, by the steps of a pass."""
    return sum(found["steps"][step].get("starts", 0) for step in PASSES[name].steps)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_without_its_slow_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All servers are formulas, and nothing runs models in this process: the rest is what a pass makes of it."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr(modelled, "SERVED", ())
    really = suite.perform
    slow = ("products", "profile", "decoder_peers")
    monkeypatch.setattr(
        suite, "perform", lambda options, step, *words: step.startswith(slow) or really(options, step, *words)
    )
    assert main(["--dry", name, "--results", str(tmp_path), "--cache", str(tmp_path / "cache")]) == 0
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    assert starts(found, name) == PASSES[name].starts - PEER_STARTS.get(name, 0)
    assert not [step for step, facts in found["steps"].items() if facts["state"] != "done" or "left_out" in facts]
    here = {key for key, t in TARGETS.items() if t.step in PASSES[name].steps and not t.step.startswith(slow)}
    assert {row["target"] for row in found["table"] if row["target"]} == here
    assert "server starts" in capsys.readouterr().out


@pytest.mark.timeout(600)  # half a minute of CPU time, on whatever share of a machine
@pytest.mark.nightly  # in between, its parts are tested by themselves
def test_dry_run_of_both_passes_on_the_fake_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported everything; a decoder is served for real, and its limits change."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr(suite, "build", lambda *words: pytest.fail("the extensions do not load"))
    code = main(["--dry", *PASSES, "--results", str(tmp_path), "--cache", str(tmp_path / "cache")])
    told = capsys.readouterr().out
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    assert {step: facts["state"] for step, facts in found["steps"].items()} == dict.fromkeys(
        [*BEFORE, *(step for each in PASSES.values() for step in each.steps)], "done"
    ), told
    assert code == 0
    assert {name: starts(found, name) for name in PASSES} == {name: each.starts for name, each in PASSES.items()}
    planned = {step for each in PASSES.values() for step in each.steps}
    assert {row["target"] for row in found["table"]} >= {key for key, t in TARGETS.items() if t.step in planned}
    served = next(row for row in found["table"] if row["target"] == "decoder-135m")
    assert served["measured"] > 0
    assert sorted(each.suffix for each in tmp_path.glob("dry-*")) == [".json", ".log", ".md"]
    assert f"written: {path}" in told and "no figure here says anything about a GPU" in told


@pytest.mark.timeout(600)
@pytest.mark.nightly  # it starts servers and interprets all kernels; the passes run without
def test_dry_run_of_steps_by_name_on_the_fake_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those in no pass that measure targets, and the profiles with what follows from them."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    planned = {step for each in PASSES.values() for step in each.steps}
    named = sorted({target.step for target in TARGETS.values()} - planned)
    named += ["profile:minilm-l6", "profile:smollm2-135m", "changes"]
    folders = ["--results", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert main(["--dry", *named, *folders]) == 0
    found = json.loads(next(tmp_path.glob("dry-*.json")).read_text())
    changes = [row["name"] for row in found["table"] if row["step"] == "changes"]
    assert [name.partition(":")[0] for name in changes] == [f"change {number} of 3" for number in (1, 2, 3)]
    served = {row["target"]: row["measured"] for row in found["table"] if row["target"]}
    assert all(served[target] > 0 for target in ("encoder", "transport", "fp8"))
