"""The GPU suite's steps where there is no GPU: checkpoints of tiny shapes, and what each step makes of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paths import ROOT
from serving import PATIENCE_S

import fastqps
from bench.gpu.lanes import EncoderLoop
from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from bench.gpu.models.vocabulary import texts
from bench.gpu.steps import correct

pytestmark = pytest.mark.compute


# ---- checkpoints


def test_sizes_are_those_of_the_models() -> None:
    millions = {name: round(shape.body_parameters / 1e6) for name, shape in SHAPES.items()}
    assert millions == {
        "minilm-l6": 11, "smollm2-135m": 106, "qwen2.5-0.5b": 358, "qwen3-0.6b": 440, "llama-1b": 973
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


def test_a_test_that_dies_or_hangs_hides_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bodies = {
        "fails": "def test_a(): pass\ndef test_b(): assert 0",
        "dies": "def test_a(): pass\ndef test_b(): __import__('os')._exit(0)\ndef test_c(): pass",
        "hangs": "def test_a(): pass\ndef test_b(): __import__('time').sleep(600)",
    }
    files = {name: str(tmp_path / f"test_{name}.py") for name in bodies}
    for name, body in bodies.items():
        Path(files[name]).write_text(body)

    began = time.monotonic()
    found = correct.run_tests([files["fails"], files["dies"]], 2, PATIENCE_S)
    limit_s = 1 + 4 * (time.monotonic() - began)  # more than it takes to begin
    by_name = {test.rpartition("/")[2]: result for test, result in found.items()}
    assert by_name == {
        "test_fails.py::test_a": "PASSED", "test_fails.py::test_b": "FAILED", "test_dies.py::test_a": "PASSED",
        "test_dies.py::test_b": "FAILED", "test_dies.py::test_c": "PASSED",
    }  # fmt: skip
    hung = correct.run_tests([files["hangs"]], 1, limit_s)
    assert list(hung.values()) == ["PASSED", "ERROR"] and "no time left" in hung
    assert "test_hangs.py::test_a" in capfd.readouterr().out


def test_the_quick_tests_are_there(dry: Any) -> None:
    run = dry("correct:quick")
    correct.measure(run)
    [row] = run.results.read()["table"]
    assert row["measured"] >= len(correct.QUICK)


def test_every_file_of_tests_on_the_gpu_runs() -> None:
    kernels, others = ({Path(file).name for file in files} for files in correct.test_files())
    assert {path.name for path in (ROOT / "tests/gpu").glob("test_*.py")} <= kernels | others and not kernels & others
    assert all("kernels" in name for name in kernels) and len(kernels) > 3


# ---- steps, dry


def test_encoder_loop_computes_what_the_engine_does(cache: Path) -> None:
    path = checkpoint(SHAPES["minilm-l6"].tiny(), cache)
    loop = EncoderLoop("cpu", path, items=3, tokens=16, lanes=2, dtype="float32")
    assert loop.rate(0.05) > 0
    ids = loop._lanes[1].runners[0].buffers().input_ids[:48].reshape(3, 16)
    expected = fastqps.Engine(str(path), dtype="float32").predict([row.tolist() for row in ids])
    got = loop._lanes[1].runners[0].buffers().output[:3]
    np.testing.assert_allclose(got / np.linalg.norm(got, axis=1, keepdims=True), np.stack(expected), atol=1e-5)
    loop.close()
