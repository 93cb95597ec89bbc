"""Encoders on a GPU: equal to the CPU's, graphs as eager, alone as batched, two lanes at once as one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from device_checks import CHANCE, MODELS, check_model, items, pairs, rows
from paths import ROOT

from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from fastqps.devices import make_runner
from fastqps.errors import ConfigError
from fastqps.models import load_card
from fastqps.runners.lane import make_lanes
from fastqps.runners.pack_items import pack_items

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
COSINE_MIN = {"bfloat16": 0.999, "float16": 0.9999}


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.einsum("ij,ij->i", one, other) / lengths


@pytest.mark.parametrize("name", MODELS)
def test_every_model_equals_the_cpu(tmp_path: Path, name: str) -> None:
    check_model(tmp_path / "model", name, close=1e-4)


@pytest.mark.parametrize("dtype", COSINE_MIN)
def test_minilms_shape_in_16_bits(dtype: str) -> None:
    """Six layers of width 384, from one token to 8,192, against the CPU in fp32."""
    card = load_card(str(checkpoint(SHAPES["minilm-l6"])), 256)
    cpu = make_runner("cpu", card, 512, 16_384, dtype="float32")
    gpu: Any = make_runner("cuda", card, 512, 16_384, dtype=dtype)
    gpu.warm_up()
    worst = 1.0
    for count, longest in ((1, 1), (1, 256), (7, 20), (64, 32), (256, 32), (64, 256)):
        batch = pairs(items(count, card.vocab_size, longest))
        worst = min(worst, float(cosines(rows(gpu, batch), rows(cpu, batch)).min()))
    print(f"{dtype}: worst cosine {worst:.6f}")
    assert worst >= COSINE_MIN[dtype]


def test_graphs_equal_eager_and_lanes_at_once_equal_one() -> None:
    """Bit by bit: the same kernels over the same padded sizes, whatever else runs beside them."""
    card = load_card(str(checkpoint(SHAPES["minilm-l6"])), 128)
    lanes = make_lanes(make_runner("cuda", card, 64, 2048), 2, 2)
    for lane in lanes:
        lane.warm_up()
    places = [(lane, step) for lane in lanes for step in (0, 1)]
    batches = [pairs(items(int(CHANCE.integers(1, 65)), card.vocab_size, 30)) for _ in range(24)]
    expected = []
    for batch in batches:
        runner: Any = lanes[0].runners[0]
        shape = pack_items(card, batch, runner.buffers())
        runner.run(*shape)
        graph = runner.buffers().output[: len(batch)].copy()
        runner.buffers().output[:] = 0
        runner.run_eagerly(*shape)
        assert np.array_equal(runner.buffers().output[: len(batch)], graph)
        expected.append(graph)
    for _ in range(10):
        order = CHANCE.permutation(len(batches))
        for first in range(0, len(batches), len(places)):
            flying = list(zip(order[first : first + len(places)], places, strict=True))
            for i, (lane, step) in flying:
                lane.launch(step, *pack_items(card, batches[i], lane.runners[step].buffers()))
            for i, (lane, step) in flying:
                lane.wait(step)
                b = lane.runners[step].buffers()
                assert np.array_equal(b.output[: len(batches[i])], expected[i])
                assert 0 < b.stamps[0] < b.stamps[1]


FAULT = """
import sys
from fastqps._core import CudaError
from fastqps.devices import make_runner
from fastqps.models import load_card
from fastqps.runners.pack_items import pack_items
card = load_card(sys.argv[1], 60)
runner = make_runner("cuda", card, 4, 100)
good = pack_items(card, [([3, 4, 5], 3)], runner.buffers())
runner.run(*good)
bad = pack_items(card, [([3] * 60, 60)], runner.buffers())
runner.buffers().input_ids[:60] = 2**31 - 1  # pack_items refuses them
for shape in (bad, good):
    try:
        runner.run(*shape)
        print("ran")
    except CudaError as error:
        print(error)
"""


def test_a_fault_is_told_and_stays(tmp_path: Path) -> None:
    """A token id far outside of the table, which no front door lets through, reads where there is no memory."""
    write_checkpoint(tmp_path, "bert")
    found = subprocess.run(
        [sys.executable, "-c", FAULT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = found.stdout.splitlines()
    assert len(lines) == 2 and all("illegal memory access" in line for line in lines), (lines, found.stderr[-2000:])


def test_steps_that_do_not_fit(tmp_path: Path) -> None:
    """Too little memory left for the activations: one line that says which limit to lower."""
    card = load_card(str(checkpoint(SHAPES["minilm-l6"])), 128)
    runner: Any = make_runner("cuda", card, 64, 1 << 20)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - (256 << 20), dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(ConfigError, match=r"--max-batch-tokens 1048576: "):
            runner.warm_up()
    finally:
        del hog
        torch.cuda.empty_cache()
