"""Encoders and decoders on a fake GPU, in this process: all but the GPU and its kernels is what a GPU runs with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models
import torch
from checkpoints import write_checkpoint
from decoders import VOCAB, write_decoder
from device_checks import CHANCE, FEW_MODELS, MODELS, check_decoder, check_model, items, pairs
from fake_cuda import VARIABLE, Knobs, environment, library
from nightly import nightly, nightly_but
from paths import ROOT

from fastqps import Engine
from fastqps.architectures import vocabulary_head
from fastqps.devices import make_runner
from fastqps.devices.cuda import lane as cuda_lane
from fastqps.devices.cuda import steps as cuda_steps
from fastqps.devices.cuda.fake import FakeCuda
from fastqps.devices.errors import DeviceError
from fastqps.engine.generator import Generator
from fastqps.errors import ConfigError
from fastqps.models import ModelError, load_card
from fastqps.runners.lane import AsyncLane, make_lanes
from fastqps.runners.pack_items import pack_items

pytestmark = pytest.mark.compute

GIB = 1 << 30


@pytest.fixture(autouse=True)
def knobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Knobs]:
    """Copies read their source late, as they may on a GPU: a host block that is written too early shows."""
    monkeypatch.setenv(VARIABLE, library())
    found = Knobs()
    found.set("copy_delay_ns", 300_000)
    yield found
    found.set("copy_delay_ns", 0)


@pytest.fixture(autouse=True)
def same_chance() -> None:
    """A test draws the same numbers whichever run before it: in some prompts rounding decides a draw."""
    CHANCE.bit_generator.state = np.random.default_rng(7).bit_generator.state


@pytest.mark.parametrize("name", nightly_but(FEW_MODELS, MODELS))
def test_every_model_equals_the_cpu(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_head, "_COLUMNS", 48)
    check_model(tmp_path / "model", name, close=1e-5 if name.startswith("static") else 2e-5)


def test_minilm_in_bf16() -> None:
    texts = ["A cat sits on the mat.", "Rates rose.", "", "word " * 90, "Où est la gare ? 駅はどこ"]
    exact = Engine("minilm", device="cpu", dtype="float32").predict(texts)
    found = Engine("minilm", device="cuda").predict(texts)
    for one, other in zip(exact, found, strict=True):
        assert float(np.dot(np.asarray(one), np.asarray(other))) > 0.999


def test_a_graph_equals_the_same_kernels_one_by_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "bert", "bert")
    card = load_card(str(tmp_path / "bert"), 60)
    runner: Any = make_runner("cuda", card, 16, 300, dtype="float32")
    shape = pack_items(card, pairs(items(9, card.vocab_size, 33)), runner.buffers())
    runner.run(*shape)
    graph = runner.buffers().output[:9].copy()
    runner.buffers().output[:] = 0
    runner.run_eagerly(*shape)
    assert graph.any() and np.array_equal(graph, runner.buffers().output[:9])

    write_decoder(tmp_path / "llama", "llama-gqa-tied")
    made = []
    for eagerly in (False, True):
        decoder: Any = make_runner("cuda", load_card(str(tmp_path / "llama"), 40, max_output_tokens=24), 4, 96)
        if eagerly:
            decoder.launch = decoder.run_eagerly
        made.append(
            Generator(decoder.card, runner=decoder, steps_in_flight=1).generate(
                [[5, 6], *3 * [[*range(40)]], [7], [8, 9]]
            )
        )
    assert made[0] == made[1]


def test_a_graph_is_the_smallest_that_holds_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each is captured once, when it is first needed, or at the warm-up."""
    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path), 60)
    runner: Any = make_runner("cuda", card, 16, 300)
    ran = {64: 0, 96: 0, 300: 0}
    for tokens, bucket in ((5, 64), (64, 64), (65, 96), (60, 64), (300, 300)):
        ids = [[1] * n for n in [60] * (tokens // 60) + [tokens % 60] if n]
        runner.run(*pack_items(card, [(each, len(each)) for each in ids], runner.buffers()))
        ran[bucket] += 1
        assert {g.max_tokens: g.steps for g in runner.lane.native.graphs()}[bucket] == ran[bucket]
    assert [g.max_tokens for g in runner.lane.native.graphs()] == [64, 96, 300]
    monkeypatch.setattr(cuda_lane, "FINER_S_MAX", 1e9)
    runner.warm_up()
    assert [g.max_tokens for g in runner.lane.native.graphs()] == [64, 96, 128, 192, 256, 300]
    with pytest.raises(ValueError, match="301"):
        runner.launch(5, 301, 61)
    with pytest.raises(ValueError, match="more than the lane's blocks hold"):
        make_runner("cuda", card, 16, 300).launch(5, 301, 61)  # type: ignore[attr-defined]


def test_a_runner_captures_again_on_a_lane_that_replaces_a_warm_one(tmp_path: Path) -> None:
    """``use`` after ``warm_up``: what the old lane had captured says nothing about the new one."""
    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path), 60)
    runner: Any = make_runner("cuda", card, 16, 300, dtype="float32")
    batch, rows = pairs(items(5, card.vocab_size, 20)), []
    for _ in range(2):
        runner.warm_up()
        runner.use(runner.make_stream())
        assert not runner.lane.native.graphs()
        runner.run(*pack_items(card, batch, runner.buffers()))
        assert len(runner.lane.native.graphs()) == 1
        rows.append(runner.buffers().output[:5].copy())
    assert rows[0].any() and np.array_equal(*rows)


def test_lanes_at_once_equal_one(tmp_path: Path) -> None:
    """Two steps in flight on each of two lanes, over and over; every answer is its own step's."""
    write_checkpoint(tmp_path, "modernbert")
    card = load_card(str(tmp_path), 60)
    lanes = make_lanes(make_runner("cuda", card, 8, 200, dtype="float32"), 2, 2)
    for lane in lanes:
        assert isinstance(lane, AsyncLane)
        lane.warm_up()
    streams = {runner.lane.stream.cuda_stream for lane in lanes for runner in lane.runners}
    assert len(streams) == 2, "the twins of a lane share one"
    alone = make_runner("cpu", card, 8, 200, dtype="float32")
    places = [(lane, step) for lane in lanes for step in (0, 1)]
    for _ in range(6):
        asked = []
        for lane, step in places:
            batch = pairs(items(int(CHANCE.integers(1, 9)), card.vocab_size, 25))
            shape = pack_items(card, batch, lane.runners[step].buffers())
            lane.launch(step, *shape)
            asked.append((lane, step, batch))
        for lane, step, batch in asked:
            lane.wait(step)
            alone.run(*pack_items(card, batch, alone.buffers()))
            rows = lane.runners[step].buffers().output[: len(batch)]
            np.testing.assert_allclose(rows, alone.buffers().output[: len(batch)], rtol=0, atol=2e-5)
            start, end = lane.runners[step].buffers().stamps
            assert 0 < start <= end


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        *[("qwen2", 9), ("qwen3", 0), ("gpt2", 9), ("olmo2", 0), ("gpt_neox", 9)],
        *nightly(("llama", 9), ("llama-5-heads", 0), ("opt-normed-sums", 0), ("granite", 9), ("stablelm-parallel", 0)),
    ],
)
def test_every_decoder_equals_the_cpu(tmp_path: Path, kind: str, prefix: int) -> None:
    # How many steps are in flight is nothing that a family knows of.
    check_decoder(tmp_path, kind, prefix, close=1e-4, in_flight=(2, 1) if kind == "qwen2" else (2,))


def test_a_generators_lanes_have_their_own_sequences(tmp_path: Path) -> None:
    write_decoder(tmp_path, "qwen3")
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    runner: Any = make_runner("cuda", card, 3, 64, dtype="float32")
    prompts = items(8, VOCAB, 20)
    expected = Generator(card, device="cpu", dtype="float32", max_running=3).generate(prompts)
    runners = [runner, runner.for_another_lane()]
    for each in runners:
        each.warm_up()  # of lanes that the generators replace
    generators = [Generator(card, runner=each, max_running=3) for each in runners]
    halves = [[generator.add(ids) for ids in prompts[i::2]] for i, generator in enumerate(generators)]
    found: dict[tuple[int, int], list[int]] = {}
    while any(generator.busy for generator in generators):
        for i, generator in enumerate(generators):
            for token in generator.step():
                found.setdefault((i, token.request), []).append(token.id)
    for i, requests in enumerate(halves):
        assert [found[i, request] for request in requests] == [made.token_ids for made in expected[i::2]]


def test_a_repeated_prompt_is_copied_in_front_of_the_step(tmp_path: Path, knobs: Knobs) -> None:
    """By the launch, whose other steps have no call more."""
    write_decoder(tmp_path, "qwen3")
    card = replace(load_card(str(tmp_path), 40, max_output_tokens=24), prefix_ids=(5, 6, 7))
    prompts = [[int(id) for id in CHANCE.integers(1, VOCAB, n)] for n in (33, 16, 20)]
    cpu = Generator(card, device="cpu", dtype="float32", max_running=4)
    generator = Generator(card, device="cuda", dtype="float32", max_running=8)
    asked: dict[str, Any] = {"temperature": 1.0, "max_tokens": 9, "repetition_penalty": 1.2}
    want = [cpu.generate([prompt], seed=3 + i, **asked)[0].token_ids for prompt in prompts for i in range(3)]
    knobs.mark()
    generator.generate(prompts, seed=3, **asked)
    assert knobs.count("cudaMemcpy3DAsync") == 0
    made = generator.generate(prompts, n=3, seed=3, **asked)
    assert [each.token_ids for first in made for each in (first, *first.other_choices)] == want
    assert knobs.count("cudaMemcpy3DAsync") > 3


def test_what_is_no_number_ends_the_start(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_checkpoint(tmp_path / "bert", "bert")
    write_decoder(tmp_path / "llama")
    for name in ("bert", "llama"):
        path = tmp_path / name / "model.safetensors"
        tensors = load_file(path)
        for tensor in tensors.values():
            tensor.fill_(float("nan"))
        save_file(tensors, path, {"format": "pt"})
        runner: Any = make_runner("cuda", load_card(str(tmp_path / name), 30, max_output_tokens=20), 4, 64)
        with pytest.raises(ModelError, match="not finite"):
            runner.warm_up()


def test_too_little_memory(tmp_path: Path, knobs: Knobs, monkeypatch: pytest.MonkeyPatch) -> None:
    write_decoder(tmp_path)
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    needed = 1 << 20
    try:
        knobs.set("memory_bytes", 1000)
        with pytest.raises(ModelError, match=r"its weights take .* and cuda:0 has .* free") as caught:
            make_runner("cuda", card, 4, 64)
        assert caught.value.exit_code == 4
        knobs.set("memory_bytes", needed)
        with pytest.raises(ConfigError, match=r"--max-running 5000: .*--lanes") as refused:
            make_runner("cuda", card, 5000, 5064)
        assert refused.value.exit_code == 2
        runner: Any = make_runner("cuda", card, 4, 64)
        knobs.set("memory_bytes", 1000)
        lanes = runner.make_stream(), runner.for_another_lane()
        with pytest.raises(ConfigError, match=r"--max-running 4: the KV cache of one lane"):
            lanes[1].make_stream()
    finally:
        knobs.set("memory_bytes", 64 * GIB)

    def full(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(cuda_lane.GraphLane, "capture", full)
    with pytest.raises(ConfigError, match=r"--max-batch-tokens 64: .*Tried to allocate 20 GiB"):
        make_runner("cuda", card, 4, 64).warm_up()


FAULT = """
import sys
from fastqps._core import CudaError
from fastqps.devices import make_runner
from fastqps.models import load_card
from fastqps.runners.pack_items import pack_items
card = load_card(sys.argv[1], 60)
runner = make_runner("cuda:1", card, 4, 100)
shape = pack_items(card, [([3, 4, 5], 3)], runner.buffers())
for step in range(4):
    try:
        runner.run(*shape)
        print(step, "ran")
    except CudaError as error:
        print(step, error)
"""


def test_a_fault_stays(tmp_path: Path) -> None:
    """What CUDA says once, each later step of the lane says too; the process has to go."""
    write_checkpoint(tmp_path, "bert")
    found = subprocess.run(
        [sys.executable, "-c", FAULT, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **environment(fail_graph=3)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert found[:2] == ["0 ran", "1 ran"]
    assert all("illegal memory access" in line for line in found[2:]) and len(found) == 4


def test_debug_mode_holds_steps_to_their_four_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path), 60)
    monkeypatch.setattr(cuda_steps, "DEBUG", True)
    runner: Any = make_runner("cuda", card, 4, 100)
    runner.warm_up()
    runner.settle()
    shape = pack_items(card, pairs(items(2, card.vocab_size, 9)), runner.buffers())
    for _ in range(3):
        runner.run(*shape)
    backend = runner.lane.backend
    backend.api.synchronize()
    with pytest.raises(RuntimeError, match="asked for more than steps: cudaDeviceSynchronize"):
        runner.run(*shape)
    backend.api.mark()
    runner.run(*shape)
    backend.api.free(backend.api.malloc(64))
    with pytest.raises(RuntimeError, match="device memory was allocated or freed"):
        runner.run(*shape)


def test_the_kernels_themselves_interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny encoder and a tiny decoder through Triton's interpreter, called by the streams' threads."""
    monkeypatch.setattr(FakeCuda, "interprets", True)
    write_checkpoint(tmp_path / "modern", "modernbert", num_hidden_layers=1)
    card = load_card(str(tmp_path / "modern"), 12)
    batch = pairs(items(2, card.vocab_size, 9))
    rows = []
    for device in ("cpu", "cuda"):
        runner = make_runner(device, card, 2, 20, dtype="float32")
        runner.run(*pack_items(card, batch, runner.buffers()))
        rows.append(runner.buffers().output[:2].copy())
        start, end = runner.buffers().stamps
        assert device == "cpu" or 0 < start <= end
    np.testing.assert_allclose(rows[1], rows[0], rtol=0, atol=2e-5)

    write_decoder(tmp_path / "qwen", "qwen3", num_hidden_layers=1)
    card = replace(load_card(str(tmp_path / "qwen"), 6, max_output_tokens=2), prefix_ids=(3, 4, 5))
    prompts, made = items(2, VOCAB, 6), []
    for device in ("cpu", "cuda"):
        generator = Generator(card, device=device, dtype="float32", max_running=2, max_step_tokens=8)
        made.append([each.token_ids for each in generator.generate(prompts, temperature=0.7, top_k=9, seed=4)])
        generator.close()
    assert made[0] == made[1]


@pytest.mark.parametrize("options", [{"quantization": "fp8"}, {"dtype": "bfloat16"}])
def test_settings_without_effect_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    static_models.model2vec(tmp_path / "m")
    with pytest.raises(DeviceError, match="has no effect on m, a static model"):
        make_runner("cuda", load_card(str(tmp_path / "m")), 16, 300, **options)
