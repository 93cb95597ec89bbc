"""The GPU suite's figures on their way into the file, its page, and the README's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gpu.results import MODE, Results, page, slug
from bench.gpu.run import Run
from bench.gpu.targets import TARGETS
from bench.readme import gpu_runs, gpu_table
from bench.row import Row

pytestmark = pytest.mark.compute


def test_results_keep_other_steps(tmp_path: Path) -> None:
    results = Results(tmp_path / "h200-2026-01-01.json")
    results.start(command="a", commit="c", environment={"gpu": "NVIDIA H200"})
    for step in ("decoder:qwen2.5-0.5b", "fp8"):
        results.begin(step)
    results.row(
        "decoder:qwen2.5-0.5b",
        Row("device duty cycle under saturation", 99.5, "%", 99, 99.9, note="the device"),
        "duty",
    )
    results.row("fp8", Row("FP8", 1.1, "×", 1.2, 1.3), "fp8")
    results.end("decoder:qwen2.5-0.5b", "done", 3.0)
    results.end("fp8", "failed", 3.0, "it broke")
    results.start(command="b", commit="d", environment={"gpu": "NVIDIA H200"})
    results.begin("fp8")
    found = results.read()
    assert [row["step"] for row in found["table"]] == ["decoder:qwen2.5-0.5b"]
    assert found["table"][0] == {
        "name": "device duty cycle under saturation", "measured": 99.5, "accept": 99, "goal": 99.9, "accepted": True,
        "bound_by": "the device", "unit": "%", "at_most": False, "step": "decoder:qwen2.5-0.5b", "target": "duty",
    }  # fmt: skip
    assert found["command"] == "b"
    assert "* decoder:qwen2.5-0.5b is of commit c\n" in page(found) and "fp8 is of" not in page(found)
    assert "| device duty cycle under saturation | 99.5 % | ≥ 99 | ≥ 99.9 | yes | the device |" in page(found)
    assert results.path.with_suffix(".md").read_text() == page(found)


def test_merge_takes_steps(tmp_path: Path) -> None:
    from bench.gpu.merge import merge

    def write(folder: str, commit: str, **measured: float) -> Path:
        results = Results(tmp_path / folder / "h200-2026-01-01.json")
        results.start(command=folder, commit=commit, date="2026-01-01", environment={"gpu": "NVIDIA H200"})
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
    assert Results(path).read()["raw"] == {
        "x": {"rates": [1]},
        "y": {"rates": [3]},
        "z": {"rates": [4]},
    }
    assert "| z | 4 /s |" in path.with_suffix(".md").read_text()
    assert "* y is of commit d" in path.with_suffix(".md").read_text()
    text = second.read_text().replace("NVIDIA H200", "NVIDIA L4")
    second.write_text(text)
    with pytest.raises(ValueError, match=r"is of the GPU 'NVIDIA L4', and .* of 'NVIDIA H200'"):
        merge([second], tmp_path / "all")
    (tmp_path / "light.json").write_text('{"mode": "light"}')
    with pytest.raises(ValueError, match="no result of the GPU suite"):
        merge([tmp_path / "light.json"], tmp_path / "all")


def test_slug() -> None:
    assert [slug(name) for name in ("NVIDIA H200", "NVIDIA GeForce RTX 4090", "")] == [
        "h200",
        "geforce-rtx-4090",
        "gpu",
    ]


def test_a_run_that_is_killed_leaves_what_it_measured_and_what_it_did_not_reach(tmp_path: Path) -> None:
    """Each call leaves a whole file, so at any moment the process may be gone."""
    results = Results(tmp_path / "h200-2026-01-01.json")
    results.start(["encoder", "fp8", "correct"], command="a", commit="c", environment={})
    results.begin("encoder")
    results.row("encoder", Row("rate", 5.0, "/s"))
    results.leave_out("encoder", "three lanes")
    results.end("encoder", "done", 1.0)
    results.begin("fp8")
    found = json.loads(results.path.read_text())
    assert {step: facts["state"] for step, facts in found["steps"].items()} == {
        "encoder": "done", "fp8": "running", "correct": "pending"
    }  # fmt: skip
    told = results.path.with_suffix(".md").read_text()
    assert "| rate | 5 /s |" in told
    assert "* encoder: left out: three lanes\n* fp8: interrupted\n* correct: not reached\n" in told
    results.start(["encoder", "fp8"], command="b", commit="d", environment={})
    assert results.read()["steps"]["encoder"]["state"] == "done", "an intention takes nothing away"


def test_a_figure_that_is_measured_again_replaces_the_first(tmp_path: Path) -> None:
    results = Results(tmp_path / "h200-2026-01-01.json")
    results.start(command="a", commit="c", environment={})
    results.begin("encoder")
    for rate in (1.0, 2.0):
        results.row("encoder", Row("rate", rate, "/s"), "encoder")
    assert [row["measured"] for row in results.read()["table"]] == [2.0]


def test_a_step_keeps_its_own_error(tmp_path: Path) -> None:
    step, results = "decoder:llama-1b", Results(tmp_path / "h200-2026-01-01.json")
    results.start(command="a", commit="c", environment={})
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
    run = {"commit": "def", "environment": {"gpu": "NVIDIA H200", "cpu": "EPYC", "cores": 16}}
    run["steps"] = {"decoder:qwen2.5-0.5b": {"commit": "abc"}}  # the latest pass of that day was of another
    old = {"target": "duty", "step": "decoder:qwen2.5-0.5b", "measured": 98.0, "unit": "%", "accepted": False}
    before, after = {**run, "table": [old]}, {**run, "table": [{**old, "measured": 99.95, "accepted": True}]}
    assert "| device duty cycle under saturation | 98 % | ≥ 99 | missed |" in gpu_table([before], "docs/gpu-check.md")
    found = gpu_table([before, after], "docs/gpu-check.md")
    assert "| device duty cycle under saturation | 99.95 % | ≥ 99 |  |" in found
    assert found.count("not yet measured") == len(TARGETS) - 1
    assert "NVIDIA H200, EPYC with 16 cores, commit abc; `make gpu-check`." in found


def test_readme_takes_the_newest_figure_of_each_target(tmp_path: Path) -> None:
    """Of files of several days; dry runs do not count."""
    for date, gpu, duty, dry in (
        ("2026-01-02", "h200", 99.0, False), ("2026-01-01", "h200", 98.0, False), ("2026-01-03", "dry", 1.0, True)
    ):  # fmt: skip
        results = Results(tmp_path / f"{gpu}-{date}.json")
        where = {"gpu": "NVIDIA H200", "cpu": "EPYC", "cores": 16} | ({"dry": True} if dry else {})
        results.start(command="a", commit=date, date=date, environment=where)
        step = TARGETS["duty"].step
        results.begin(step)
        results.row(step, Row(TARGETS["duty"].name, duty, "%", 99, 99.9), "duty")
    runs = gpu_runs(tmp_path)
    assert [run["mode"] for run in runs] == [MODE, MODE]
    assert "| device duty cycle under saturation | 99 % | ≥ 99 |  |" in gpu_table(runs, "docs/gpu-check.md")
    assert "commit 2026-01-02;" in gpu_table(runs, "docs/gpu-check.md")


def test_rates_are_asked_of_one_gpu(tmp_path: Path) -> None:
    """On another one they are reported; ratios are asked of all."""
    results = Results(tmp_path / "h100-2026-01-01.json")
    where = {"gpu": "NVIDIA H100 80GB HBM3", "cpu": "EPYC", "cores": 16}
    results.start(command="a", commit="c", date="2026-01-01", environment=where)
    step = TARGETS["decoder-135m"].step
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


def test_a_figure_is_held_against_what_is_asked_for_now() -> None:
    run = {"commit": "c", "environment": {"gpu": "NVIDIA H200", "cpu": "EPYC", "cores": 16}}
    run["steps"] = {"decoder:smollm2-135m": {"commit": "c"}}
    old = {"target": "decoder-135m", "step": "decoder:smollm2-135m", "measured": 7821.0, "unit": "requests/s"}
    run["table"] = [old | {"accept": 6000, "accepted": True}]
    table = gpu_table([run], "docs/gpu-check.md")
    assert "| 135M Llama shape, 50 in / 50 out | 7,820 requests/s | ≥ 9,400 | missed |" in table
