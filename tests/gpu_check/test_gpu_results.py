"""The GPU suite's figures on their way into the file, its page, and the README's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.plan import TARGETS
from bench.gpu.results import Results, merge, page, slug
from bench.gpu.run import Run
from bench.pages.readme import gpu_runs, gpu_table
from bench.result_file import Row

pytestmark = pytest.mark.compute
DUTY = Row(TARGETS["duty"].name, 99.5, "%", 99, 99.9, note="the device")


def started(folder: Path, *steps: str, gpu: str = "NVIDIA H200", commit: str = "c", **facts: Any) -> Results:
    """A file of a machine with this GPU."""
    results = Results(folder / f"{slug(gpu)}-2026-01-01.json")
    where = {"gpu": gpu, "cpu": "EPYC", "cores": 16}
    results.start(steps, **{"command": "a", "commit": commit, "date": "2026-01-01", "environment": where} | facts)
    return results


def test_results_keep_other_steps(tmp_path: Path) -> None:
    results, duty, other = started(tmp_path), TARGETS["duty"].step, "decoder:llama-1b"
    for step in (duty, other):
        results.begin(step)
    results.row(duty, DUTY, "duty")
    results.row(other, Row("FP8", 1.1, "×", 1.2, 1.3), "fp8")
    results.end(duty, "done", 3.0)
    results.end(other, "failed", 3.0, "it broke")
    started(tmp_path, commit="d", command="b").begin(other)
    found = results.read()
    assert found["table"] == [{
        "name": "device duty cycle under saturation", "measured": 99.5, "accept": 99, "goal": 99.9, "accepted": True,
        "bound_by": "the device", "unit": "%", "at_most": False, "step": duty, "target": "duty",
    }]  # fmt: skip
    assert found["command"] == "b"
    assert f"* {duty} is of commit c\n" in page(found) and f"{other} is of" not in page(found)
    assert "| device duty cycle under saturation | 99.5 % | ≥ 99 | ≥ 99.9 | yes | the device |" in page(found)
    assert results.path.with_suffix(".md").read_text() == page(found)


def test_merge_takes_steps(tmp_path: Path) -> None:
    def write(folder: str, commit: str, **measured: float) -> Path:
        results = started(tmp_path / folder, commit=commit)
        for step, value in measured.items():
            results.begin(step)
            results.row(step, Row(step, value, "/s"))
            results.raw(step, "rates", [value])
            results.end(step, "done", 1.0)
        return results.path

    first, second = write("a", "c", x=1, y=2), write("b", "d", y=3, z=4)
    [path, _] = merge([first, second], tmp_path / "all")
    found = json.loads(path.read_text())
    assert {row["name"]: row["measured"] for row in found["table"]} == {"x": 1, "y": 3, "z": 4}
    assert {point["step"]: point["figure"] for point in found["points"]} == {"x": 1, "y": 3, "z": 4}
    assert "raw" not in found
    assert Results(path).read()["raw"] == {step: {"rates": [value]} for step, value in {"x": 1, "y": 3, "z": 4}.items()}
    told = path.with_suffix(".md").read_text()
    assert "| z | 4 /s |" in told and "* y is of commit d" in told
    second.write_text(second.read_text().replace("NVIDIA H200", "NVIDIA L4"))
    with pytest.raises(ValueError, match=r"is of the GPU 'NVIDIA L4', and .* of 'NVIDIA H200'"):
        merge([second], tmp_path / "all")
    (tmp_path / "light.json").write_text('{"mode": "light"}')
    with pytest.raises(ValueError, match="no result of the GPU suite"):
        merge([tmp_path / "light.json"], tmp_path / "all")


def test_slug() -> None:
    found = [slug(name) for name in ("NVIDIA H200", "NVIDIA GeForce RTX 4090", "")]
    assert found == ["h200", "geforce-rtx-4090", "gpu"]


def test_a_run_that_is_killed_leaves_what_it_measured_and_what_it_did_not_reach(tmp_path: Path) -> None:
    """Each call leaves a whole file, so at any moment the process may be gone. A second figure replaces the first."""
    results = started(tmp_path, "encoder", "decoder_peers", "correct")
    results.begin("encoder")
    for rate in (4.0, 5.0):
        results.row("encoder", Row("rate", rate, "/s"))
    results.leave_out("encoder", "three lanes")
    results.end("encoder", "done", 1.0)
    results.begin("decoder_peers")
    found = json.loads(results.path.read_text())
    assert {step: facts["state"] for step, facts in found["steps"].items()} == {
        "encoder": "done", "decoder_peers": "running", "correct": "pending"
    }  # fmt: skip
    assert [row["measured"] for row in found["table"]] == [5.0]
    told = results.path.with_suffix(".md").read_text()
    assert "| rate | 5 /s |" in told
    assert "* encoder: left out: three lanes\n* decoder_peers: interrupted\n* correct: not reached\n" in told
    started(tmp_path, "encoder", commit="d")
    assert results.read()["steps"]["encoder"]["state"] == "done", "an intention takes nothing away"


def test_a_step_keeps_its_own_error(tmp_path: Path) -> None:
    results, step = started(tmp_path), TARGETS["fp8"].step
    results.begin(step)
    results.end(step, "failed", 0.0, "RuntimeError: no FP8")
    results.end(step, "failed", 3.0, "its process ended with code 1")
    assert results.read()["steps"][step]["error"] == "RuntimeError: no FP8"
    [owed] = results.read()["table"]
    assert (owed["target"], owed["measured"]) == ("fp8", None)


# ---- README


def test_readme_says_what_is_not_measured_yet() -> None:
    nothing = gpu_table([], "docs/gpu-check.md")
    assert nothing.count("not yet measured") == len(TARGETS)
    assert "make gpu-check" in nothing


def test_readme_takes_the_newest_figure_of_each_target(tmp_path: Path) -> None:
    """Of files of several days, with the commit of its step; dry runs do not count."""
    step = TARGETS["duty"].step
    for date, duty, dry in (("2026-01-02", 98.0, False), ("2026-01-01", 99.0, False), ("2026-01-03", 1.0, True)):
        where = {"gpu": "NVIDIA H200", "cpu": "EPYC", "cores": 16} | ({"dry": True} if dry else {})
        results = Results(tmp_path / f"h200-{date}.json")
        results.start(command="a", commit=f"of {date}", date=date, environment=where)
        results.begin(step)
        results.row(step, Row(DUTY.name, duty, "%", 99, 99.9), "duty")
        results.start(command="a", commit="later", date=date, environment=where)
    runs = gpu_runs(tmp_path)
    assert "| device duty cycle under saturation | 99 % | ≥ 99 |  |" in gpu_table(runs[:1], "docs/gpu-check.md")
    found = gpu_table(runs, "docs/gpu-check.md")
    assert "| device duty cycle under saturation | 98 % | ≥ 99 | missed |" in found
    assert found.count("not yet measured") == len(TARGETS) - 1
    brief = gpu_table(runs, "docs/gpu-check.md", brief=True)
    assert (
        "not yet measured" not in brief
        and brief.count("\n| ") == 1
        and brief.splitlines()[-1] == found.splitlines()[-1]
    )
    assert "NVIDIA H200, EPYC with 16 cores, commit of 2026-01-02; `make gpu-check`." in found


def test_rates_are_asked_of_one_gpu(tmp_path: Path) -> None:
    """On another one they are reported; ratios are asked of all."""
    results, step = started(tmp_path, gpu="NVIDIA H100 80GB HBM3"), TARGETS["decoder-135m"].step
    results.begin(step)
    run = Run(step, results, False, 0.0)
    run.target("decoder-135m", 8996.0, "the device")
    run.target("running", 1.21, "the device")
    results.begin("encoder")
    results.end("encoder", "failed", 1.0, "it broke")
    found = {row["target"]: (row["accept"], row["accepted"]) for row in results.read()["table"]}
    assert found["decoder-135m"] == (None, None) and found["running"] == (1.15, True)
    assert (found["encoder"], found["transport"]) == ((None, None), (1.2e6, False))
    table = gpu_table([results.read()], "docs/gpu-check.md")
    assert "| 135M Llama shape, 50 in / 50 out | 9,000 requests/s |  |  |" in table
    assert "| 135M Llama shape, best over 2 lanes × 512 sequences | 1.21 × | ≥ 1.15 |  |" in table
    assert "| null device, gRPC unary: the transport ceiling | failed | ≥ 1,200,000 | missed |" in table


def test_a_figure_is_held_against_what_is_asked_for_now(tmp_path: Path) -> None:
    results, step = started(tmp_path), TARGETS["decoder-135m"].step
    results.begin(step)
    results.row(step, Row("of then", 7821.0, "requests/s", 6000), "decoder-135m")
    table = gpu_table([results.read()], "docs/gpu-check.md")
    assert "| 135M Llama shape, 50 in / 50 out | 7,820 requests/s | ≥ 9,400 | missed |" in table
