"""The GPU suite's steps where there is no GPU: checkpoints of tiny shapes, and what each step makes of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import fake_cuda
import numpy as np
import pytest
import torch
from dry_steps import measured
from paths import ROOT
from serving import PATIENCE_S

import fastqps
from bench.gpu.inprocess import EncoderLoop
from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from bench.gpu.models.vocabulary import texts
from bench.gpu.servers.program import check_flags
from bench.gpu.steps import correct
from bench.gpu.targets import TARGETS
from fastqps.errors import ConfigError

pytestmark = pytest.mark.compute


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


# ---- tests on the GPU


def test_a_group_that_dies_or_hangs_hides_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bodies = {
        "fails": "def test_a(): pass\ndef test_b(): assert 0",
        "dies": "def test_a(): pass\ndef test_b(): __import__('os')._exit(3)",
        "hangs": "def test_a(): pass\ndef test_b(): __import__('time').sleep(600)",
    }
    groups = {name: [str(tmp_path / f"test_{name}.py")] for name in bodies}
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(body)
    began = time.monotonic()
    found = correct.run_groups({name: groups[name] for name in ("fails", "dies")}, 2, tmp_path, PATIENCE_S)
    limit_s = 1 + 4 * (time.monotonic() - began)  # more than it takes to begin
    found += correct.run_groups({"hangs": groups["hangs"]}, 1, tmp_path, limit_s)
    assert [counts for counts, _ in found] == 3 * [{"passed": 1, "failed": 1, "skipped": 0}]
    told = ["test_b (failed)", "dies (ended with code 3)", "hangs (no time left)"]
    assert [bad for _, bad in found] == [[name] for name in told]
    assert capfd.readouterr().out.count("::test_a PASSED") == 3


def test_every_file_of_tests_on_the_gpu_runs() -> None:
    kernels, others = correct.test_files()
    found = {path.name for path in (ROOT / "tests/gpu").glob("test_*.py")}
    assert found <= {*kernels, *others} and not {*kernels} & {*others}
    assert all("kernels" in name for name in kernels) and len(kernels) > 3


# ---- steps, dry


def test_ipc_step(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    run = dry("ipc")
    found = measured(run)
    assert [row["measured"] for name, row in found.items() if "time-sliced" in name] == [1, 1]
    assert found["CUDA IPC, time-sliced: the owner is killed"]["bound_by"] == "the follower reads what was written"


def test_kernels_step(dry: Any) -> None:
    names = " ".join(measured(dry("kernels")))
    for kernel in (
        "embed_norm",
        "add_norm",
        "activate",
        "tile_attention",
        "pool",
        "rope_kv",
        "slot_attention",
        "logit_options",
        "sample",
    ):
        assert kernel in names


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


@pytest.mark.parametrize(
    ("step", "target", "value"),
    [
        ("decoder:qwen2.5-0.5b", "decoder-0.5b", 0.92 * 8e6 / 180),
        ("decoder:qwen2.5-0.5b", "duty", 100),
        ("decoder:qwen2.5-0.5b", "fp8-0.5b", 1.3),
        ("fp8", "fp8", 1.3),
    ],
)
def test_steps_on_servers_that_are_formulas(
    dry: Any, monkeypatch: pytest.MonkeyPatch, step: str, target: str, value: float
) -> None:
    """Their settings are those of a server on the fake device; what they make of the figures is known."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    found = next(row for row in measured(dry(step)).values() if row["target"] == target)
    assert found["measured"] == pytest.approx(value)
    assert "the device" in found["bound_by"]


def test_more_running_sequences_are_compared_with_the_baseline(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All on one server, and the same place in FP8 behind it."""
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    monkeypatch.setattr("bench.gpu.servers.modelled.SERVED", ())
    run = dry("decoder:smollm2-135m")
    found = measured(run)
    assert run.results.read()["steps"][run.step]["starts"] == 1
    places = ("2 × 1,024", "2 × 512", "1 × 2,048", "2 × 2,048", "1 × 4,096")
    assert [name for name in found if "bf16" in name] == [f"smollm2-135m, bf16, {place} sequences" for place in places]
    best, base = 16e6 / 260, 2e6 / 120  # a step of 16 takes 260 µs of the formula's device, one of 2 takes 120
    assert found[TARGETS["decoder-135m"].name]["measured"] == pytest.approx(best)
    assert found[TARGETS["running"].name]["measured"] == pytest.approx(best / base)
    run.results.begin("decoder:smollm2-135m-fp8")
    run.step = "decoder:smollm2-135m-fp8"
    found = measured(run)
    assert found["smollm2-135m: FP8 over bf16"]["measured"] == pytest.approx(1.3)
    assert "both 1 × 4,096" in found["smollm2-135m: FP8 over bf16"]["bound_by"]


def test_what_no_time_is_left_for_is_named(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_cuda.VARIABLE, fake_cuda.library())
    run = dry("fp8", limit_s=6.0)
    assert TARGETS["fp8"].name in measured(run), "what is needed is measured all the same"
    left_out = run.results.read()["steps"]["fp8"]["left_out"]
    assert [what.partition(":")[0] for what in left_out] == [
        "--quantization fp8, turn 3", "--quantization none, turn 4", "--quantization auto, turn 5"
    ]  # fmt: skip
    run.repetitions = 3
    assert list(run.rounds(20.0)) == [0], "the first round always"
    assert list(run.rounds(0.0)) == [0, 1, 2]


# ---- programs


def test_flags_of_programs_are_checked() -> None:
    with pytest.raises(ConfigError, match="--speeds"):
        check_flags("breakdown", ["--speeds", "9"])
    with pytest.raises(ConfigError, match="max-batch-itms"):
        check_flags("breakdown", ["--set", "max-batch-itms=9"])
    with pytest.raises(ConfigError, match="at least 1"):
        check_flags("tune", ["--probes", "0"])
