"""The GPU suite where there is no GPU: its checkpoints, its figures' way into the table, and a dry run of its steps."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import fake_cuda
import numpy as np
import pytest
import torch
from serving import PATIENCE_S

import fastqps
from bench.gpu import plan
from bench.gpu.checkpoints import checkpoint
from bench.gpu.inprocess import EncoderLoop
from bench.gpu.parts import correct
from bench.gpu.results import Results, page, slug
from bench.gpu.run import Run
from bench.gpu.served import Served, bound_by
from bench.gpu.shapes import SHAPES
from bench.gpu.targets import TARGETS
from bench.gpu.vocabulary import texts
from bench.row import Row
from fastqps.bench.point import INVALID, Point

pytestmark = pytest.mark.compute

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture
def dry(cache: Path, tmp_path: Path) -> Any:
    """Makes a dry run of a step."""

    def make(step: str) -> Run:
        results = Results(tmp_path / "dry-2026-01-01.json")
        results.start(command="test", commit="", environment={"dry": True})
        results.begin(step)
        return Run(step, results, dry=True, repetitions=1, seconds=0.1, limit_s=60, cache=cache)

    return make


def rows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run.results.read()["table"]}


# ---- checkpoints


def test_sizes_are_those_of_the_models() -> None:
    millions = {name: round(shape.body_parameters / 1e6) for name, shape in SHAPES.items()}
    assert millions == {
        "minilm-l6": 11, "bert-base": 85, "smollm2-135m": 106, "qwen2.5-0.5b": 358, "qwen3-0.6b": 440, "llama-1b": 973
    }  # fmt: skip
    assert [SHAPES[name].kv_bytes for name in ("smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b")] == [23040, 12288, 114688]


def test_encoder_loads_everywhere(cache: Path) -> None:
    from sentence_transformers import SentenceTransformer

    path = checkpoint(SHAPES["minilm-l6"].tiny(), cache)
    many = texts(path, 12, 32)
    ours = np.stack(fastqps.Engine(str(path), dtype="float32").predict(many))
    theirs = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": torch.float32}).encode(many)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    between = (ours @ ours.T)[np.triu_indices(len(many), 1)]
    assert between.max() < 0.995, "a swapped answer would pass for a right one"


@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b"])
def test_decoder_loads_everywhere(cache: Path, name: str) -> None:
    import transformers as tr

    path = checkpoint(SHAPES[name].tiny(), cache)
    [text] = texts(path, 1, 50)
    ids = tr.AutoTokenizer.from_pretrained(path)(text, return_tensors="pt")["input_ids"]
    model = tr.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    config = tr.GenerationConfig(max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
    theirs = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)[0, 50:].tolist()
    engine = fastqps.Engine(str(path), dtype="float32")
    assert ids.shape[1] == 50
    assert engine.generate([text], max_tokens=20, ignore_eos=True)[0].token_ids == theirs
    assert len(set(theirs)) > 8, "the answer repeats itself"


def test_checkpoint_is_written_once(cache: Path) -> None:
    shape = SHAPES["smollm2-135m"].tiny()
    first = (checkpoint(shape, cache) / "model.safetensors").stat().st_mtime_ns
    assert (checkpoint(shape, cache) / "model.safetensors").stat().st_mtime_ns == first
    other = checkpoint(shape, cache, seed=2)
    assert (other / "model.safetensors").stat().st_mtime_ns != first
    assert not list(cache.glob(".*")), "something half written was left"


# ---- results


def test_results_keep_other_steps(tmp_path: Path) -> None:
    results = Results(tmp_path / "h200-2026-01-01.json")
    results.start(command="a", commit="c", environment={"gpu": "NVIDIA H200"})
    for step in ("parts.duty", "parts.fp8"):
        results.begin(step)
    results.row("parts.duty", Row("device duty cycle under saturation", 99.5, "%", 99, 99.9, note="the device"), "duty")
    results.row("parts.fp8", Row("FP8", 1.1, "×", 1.2, 1.3), "fp8")
    results.end("parts.duty", "done", 3.0)
    results.end("parts.fp8", "failed", 3.0, "it broke")
    results.start(command="b", commit="d", environment={"gpu": "NVIDIA H200"})
    results.begin("parts.fp8")
    found = results.read()
    assert [row["step"] for row in found["table"]] == ["parts.duty"]
    assert found["table"][0] == {
        "name": "device duty cycle under saturation", "measured": 99.5, "accept": 99, "goal": 99.9, "accepted": True,
        "bound_by": "the device", "unit": "%", "at_most": False, "step": "parts.duty", "target": "duty",
    }  # fmt: skip
    assert found["command"] == "b"
    assert "* parts.duty is of commit c\n" in page(found) and "parts.fp8 is of" not in page(found)
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

    first, second, other = write("a", "c", x=1, y=2), write("b", "c", y=3, z=4), write("d", "e", x=5)
    [path, _] = merge([first, second], tmp_path / "all")
    found = json.loads(path.read_text())
    assert {row["name"]: row["measured"] for row in found["table"]} == {"x": 1, "y": 3, "z": 4}
    assert found["raw"] == {"x": {"rates": [1]}, "y": {"rates": [3]}, "z": {"rates": [4]}}
    assert "| z | 4 /s |" in path.with_suffix(".md").read_text()
    with pytest.raises(ValueError, match=r"is of the commit 'e', and .* of 'c'"):
        merge([other], tmp_path / "all")
    (tmp_path / "light.json").write_text('{"mode": "light"}')
    with pytest.raises(ValueError, match="no result of the GPU suite"):
        merge([tmp_path / "light.json"], tmp_path / "all")


def test_slug() -> None:
    assert [slug(name) for name in ("NVIDIA H200", "NVIDIA GeForce RTX 4090", "")] == [
        "h200",
        "geforce-rtx-4090",
        "gpu",
    ]


def test_plan() -> None:
    for name, part in plan.PARTS.items():
        assert sum(part.steps.values()) <= plan.PART_S, f"{name} takes longer than eight minutes"
        for step in part.steps:
            assert callable(import_module(f"bench.gpu.{step}").measure)
    assert plan.chosen(["peers"]) == plan.PARTS["peers"].steps
    assert list(plan.chosen(["micro.gemm", "duty"])) == ["micro.gemm", "parts.duty"]
    assert {target.step for target in TARGETS.values()} <= set(plan.chosen([]))
    with pytest.raises(ValueError, match="'speed' is no part"):
        plan.chosen(["speed"])


def test_a_brief_run_gives_tests_their_time_and_measurements_less() -> None:
    brief, whole = plan.chosen(["correct", "encoder", "duty"], brief=True), plan.chosen([])
    assert brief["parts.correct"] == whole["parts.correct"]
    assert brief["parts.encoder"] == plan.BRIEF * whole["parts.encoder"]
    told = ["encoder", "decoder", "parts.decoder_peers", "fp8", "dispatchers", "duty"]
    assert sum(plan.chosen(told, brief=True).values()) < 2 * 585, "docs/gpu-check.md: two calls of ten minutes"


def test_a_file_of_tests_that_dies_or_hangs_hides_no_other(tmp_path: Path) -> None:
    bodies = {
        "fails": "def test_a(): pass\ndef test_b(): assert 0",
        "dies": "def test_a(): pass\ndef test_b(): __import__('os')._exit(3)",
        "hangs": "def test_a(): pass\ndef test_b(): __import__('time').sleep(60)",
    }
    files = [tmp_path / f"test_{name}.py" for name in bodies]
    for path, body in zip(files, bodies.values(), strict=True):
        path.write_text(body)
    with (tmp_path / "log").open("w") as log:
        began = time.monotonic()
        found = correct.run_files(files[:2], 2, tmp_path, log, limit_s=PATIENCE_S)
        limit_s = 1 + 2 * (time.monotonic() - began)  # more than it takes to begin
        found += correct.run_files(files[2:], 1, tmp_path, log, limit_s=limit_s)
    assert [counts for counts, _ in found] == 3 * [{"passed": 1, "failed": 1, "skipped": 0}]
    told = ["test_b (failed)", "test_dies.py (ended with code 3)", "test_hangs.py (no time left)"]
    assert [bad for _, bad in found] == [[name] for name in told]
    assert (tmp_path / "log").read_text().count("::test_a PASSED") == 3


def test_every_file_of_tests_on_the_gpu_runs() -> None:
    kernels, others = correct.test_files()
    found = {path.name for path in (ROOT / "tests/gpu").glob("test_*.py")}
    assert found <= {path.name for path in kernels + others} and len({*kernels, *others}) == len(kernels + others)
    assert all("kernels" in path.name for path in kernels) and len(kernels) > 3


@pytest.mark.parametrize(
    ("point", "ceiling", "said"),
    [
        (Point("", rate=10, verdict=INVALID, reasons=["late"]), None, "the load generator (INVALID): late"),
        (Point("", rate=10, duty_cycle=0.97), 11.0, "the device; device busy 97.0 %; 91 % of the transport's ceiling"),
        (Point("", rate=10, duty_cycle=0.5), 11.0, "the transport; device busy 50.0 %"),
        (Point("", rate=10, duty_cycle=0.5, idle_reasons={"no_work": 0.1, "launch": 0.4}), 100.0, "the host; "),
        (
            Point("", rate=10, duty_cycle=0.5, idle_reasons={"no_work": 0.1, "launch": 0.4}),
            None,
            "idle for launch 40.0 %",
        ),
    ],
)
def test_bound_by(point: Point, ceiling: float | None, said: str) -> None:
    assert said in bound_by(point, ceiling=ceiling)


# ---- without a GPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_it_skips() -> None:
    command = [sys.executable, "-m", "bench.gpu", "encoder", "micro.gemm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "no GPU here: torch has" in done.stdout
    assert 'make gpu-check PART="encoder micro.gemm"' in done.stdout
    assert "MiniLM in-process" in done.stdout
    assert "peers" not in done.stdout


def test_wrong_part_is_a_usage_error() -> None:
    command = [sys.executable, "-m", "bench.gpu", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "'speed' is no part of the suite" in done.stderr


def test_results_that_cannot_be_kept_are_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "bench.gpu", "--dry", "micro.gemm", "--results", str(tmp_path / "file")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("gpu-check: no results can be put into ") and done.stderr.count("\n") == 1


def test_two_do_not_write_into_one_folder(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    command = [sys.executable, "-m", "bench.gpu", "--dry", "micro.gemm", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    os.close(held)
    assert done.returncode == 2
    assert done.stderr == f"gpu-check: another one is writing into {tmp_path}; wait for its end\n"
    assert not list(tmp_path.iterdir())


# ---- steps, dry


def test_ipc_step(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    run = dry("micro.ipc")
    import_module("bench.gpu.micro.ipc").measure(run)
    found = rows(run)
    assert [row["measured"] for name, row in found.items() if "time-sliced" in name] == [1, 1]
    assert found["CUDA IPC, time-sliced: the owner is killed"]["bound_by"] == "the follower reads what was written"


@pytest.mark.parametrize("step", ["launch", "gemm", "slots", "copies", "lanes", "gpm"])
def test_micro_step(dry: Any, step: str) -> None:
    run = dry(f"micro.{step}")
    import_module(f"bench.gpu.{run.step}").measure(run)
    found = run.results.read()
    assert found["table"]
    assert found["raw"][run.step]
    assert all(np.isfinite(row["measured"]) for row in found["table"])


def test_attention_compares_before_it_times(dry: Any) -> None:
    run = dry("micro.attention")
    import_module("bench.gpu.micro.attention").measure(run)
    for point in run.results.read()["raw"]["micro.attention"]["points"]:
        assert isinstance(point["own"], float), point
        assert isinstance(point["padded"], float), point


def test_kernels_step(dry: Any) -> None:
    run = dry("parts.kernels")
    import_module("bench.gpu.parts.kernels").measure(run)
    names = " ".join(rows(run))
    for kernel in (
        "embed_norm",
        "add_norm",
        "activate",
        "tile_attention",
        "pool",
        "rope_kv",
        "slot_attention",
        "sample",
    ):
        assert kernel in names


def test_profile_step(dry: Any) -> None:
    run = dry("parts.profile")
    import_module("bench.gpu.parts.profile").measure(run)
    found = rows(run)
    assert len(found) == 2
    assert all(row["measured"] > 0 for row in found.values())


def test_shares_of_a_profile() -> None:
    from bench.gpu.parts.profile import shares

    kernels = {"sm90_xmma_gemm_bf16": (30.0, 4.0), "nvjet_tst_128": (20.0, 2.0), "add_norm_kernel": (10.0, 12.0)}
    assert shares(kernels, 100.0) == "products 50 % (6), add_norm_kernel 10 % (12)"


def test_encoder_loop_computes_what_the_engine_does(cache: Path) -> None:
    path = checkpoint(SHAPES["minilm-l6"].tiny(), cache)
    loop = EncoderLoop("cpu", path, items=3, tokens=16, lanes=2, dtype="float32")
    assert loop.rate(0.05) > 0
    assert loop.step_us(2) > 0
    ids = loop._lanes[1].runners[0].buffers().input_ids[:48].reshape(3, 16)
    expected = fastqps.Engine(str(path), dtype="float32").predict([row.tolist() for row in ids])
    got = loop._lanes[1].runners[0].buffers().output[:3]
    np.testing.assert_allclose(got / np.linalg.norm(got, axis=1, keepdims=True), np.stack(expected), atol=1e-5)
    loop.close()


def test_encoder_step_on_a_real_server(dry: Any) -> None:
    run = dry("parts.encoder")
    import_module("bench.gpu.parts.encoder").measure(run)
    found = rows(run)
    assert {row["target"] for row in found.values()} == {"encoder", "encoder-grpc", "transport"}
    assert found[TARGETS["encoder"].name]["measured"] > 0
    assert found[TARGETS["transport"].name]["measured"] > 0


class Formula(Served):
    """A server that is a formula: more dispatchers and lanes are faster, FP8 too."""

    def __init__(self, run: Run, base: Any, payloads: Any, threads: int | None = None, *, slow: bool = False) -> None:
        self._run, self._base, self._probe_s = run, base, 0.1
        self.threads, self.cores = 1, 1

    def measure(self, settings: Any, in_flight: int | None = None, **more: Any) -> Point:
        speed = settings.get("dispatchers", 1) ** 2 * settings.get("lanes", 1) ** 0.5
        speed *= {"fp8": 1.3, "auto": 1.4}.get(settings.get("quantization"), 1.0)
        rate = more.get("rate") or 1000.0 * speed
        told = {"duty_cycle": 0.995, "idle_reasons": {"launch": 0.005}, "batch": {"fill": 0.9}, "status": {"OK": 9}}
        return Point("", rate=rate, p99_us=1000.0, **told)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("part", "target", "measured"),
    [
        ("decoder", "decoder-0.5b", 0.95 * 1000 * 2**0.5),
        ("duty", "duty", 99.5),
        ("fp8", "fp8", 1.3),
        ("dispatchers", "dispatchers", 4 / 2**0.5),
    ],
)
def test_served_steps(dry: Any, monkeypatch: pytest.MonkeyPatch, part: str, target: str, measured: float) -> None:
    module = import_module(f"bench.gpu.parts.{part}")
    monkeypatch.setattr(module, "Served", Formula)
    run = dry(f"parts.{part}")
    module.measure(run)
    found = next(row for row in rows(run).values() if row["target"] == target)
    assert found["measured"] == pytest.approx(measured)
    assert "the device" in found["bound_by"] or part == "dispatchers"


def test_peers_of_decoders(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("bench.gpu.parts.decoder_peers")
    monkeypatch.setattr(module, "Served", Formula)
    monkeypatch.setattr(Formula, "address", "", raising=False)
    made: dict[tuple[int, ...], list[int]] = {}
    monkeypatch.setattr(module, "agreement", lambda address, asked, theirs: made.update(theirs) or 1.0)
    run = dry("parts.decoder_peers")
    module.measure(run)
    found = rows(run)[TARGETS["peer"].name]
    assert found["measured"] > 0
    assert "asynchronous" in found["bound_by"]
    engine = fastqps.Engine(str(run.checkpoint("qwen2.5-0.5b")), dtype="float32")
    for ids, theirs in list(made.items())[:2]:
        assert engine.generate([list(ids)], max_tokens=5, ignore_eos=True)[0].token_ids == theirs


def test_a_step_that_fails_leaves_its_error(tmp_path: Path) -> None:
    """And the next one runs: here the tests for GPUs, whose folder a copy of the suite lacks."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench.gpu", "--dry", "--results", str(tmp_path), "--cache", "/dev/null/none"]
    done = subprocess.run(
        [*command, "encoder", "micro.copies"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    [path] = tmp_path.glob("dry-*.json")
    found = json.loads(path.read_text())
    assert found["parts"]["parts.encoder"]["state"] == "failed"
    assert "NotADirectoryError" in found["parts"]["parts.encoder"]["error"]
    assert found["parts"]["micro.copies"]["state"] == "done"
    owed = [row for row in found["table"] if row["step"] == "parts.encoder"]
    assert [row["target"] for row in owed] == ["encoder", "encoder-grpc", "transport"]
    assert all(row["measured"] is None and row["accepted"] is False for row in owed)
    assert owed[0]["bound_by"].startswith("failed: NotADirectoryError")
    assert "parts.encoder failed: NotADirectoryError" in path.with_suffix(".md").read_text()


# ---- README


def test_readme_says_what_is_not_measured_yet() -> None:
    from bench.readme import gpu_table

    nothing = gpu_table([])
    assert nothing.count("not yet measured") == len(TARGETS)
    assert "make gpu-check" in nothing
    run = {"commit": "def", "environment": {"gpu": "NVIDIA H200", "cpu": "EPYC", "cores": 16}}
    run["parts"] = {"parts.duty": {"commit": "abc"}}  # the latest part of that day was of another
    old = {"target": "duty", "step": "parts.duty", "measured": 98.0, "unit": "%", "accepted": False}
    before, after = {**run, "table": [old]}, {**run, "table": [{**old, "measured": 99.95, "accepted": True}]}
    assert "| device duty cycle under saturation | 98 % | ≥ 99 | missed |" in gpu_table([before])
    found = gpu_table([before, after])
    assert "| device duty cycle under saturation | 99.95 % | ≥ 99 |  |" in found
    assert found.count("not yet measured") == len(TARGETS) - 1
    assert "NVIDIA H200, EPYC with 16 cores, commit abc; `make gpu-check`." in found
