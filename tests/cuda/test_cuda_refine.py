"""Graphs of a lane on a fake GPU: few at the start, those that fit before serving, and later those wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from decoders import write_decoder
from fake_cuda import VARIABLE, library

from fastqps.devices import make_runner
from fastqps.devices.cuda import lane as cuda_lane
from fastqps.devices.cuda.buckets import Shape, closest_shape, covering_shapes
from fastqps.devices.cuda.demand import STEPS_MIN, Demand
from fastqps.devices.errors import DeviceFault
from fastqps.models import load_card
from fastqps.runners.first_steps import fill_items, fill_rows

pytestmark = pytest.mark.compute

RUNS, ROWS = 64, 640


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, library())
    monkeypatch.setattr(cuda_lane, "FINER_S_MAX", 0.0)
    yield


def decoder(folder: Path, device: str = "cuda") -> Any:
    if not (folder / "config.json").exists():
        write_decoder(folder)
    return make_runner(device, load_card(str(folder), 20, max_output_tokens=20), RUNS, ROWS, dtype="float32")


def graphs(runner: Any) -> dict[Shape, int]:
    """The steps that each graph has run."""
    return {Shape(g.max_tokens, g.max_items): g.steps for g in runner.lane.native.graphs()}


def run(runner: Any, runs: int, length: int) -> np.ndarray:
    """The tokens of a step of prompts of this length."""
    buffers = runner.buffers()
    runner.run(*fill_rows(buffers, 0, [length] * runs))
    return np.array(buffers.tokens[:runs])


def test_a_decoder_starts_with_few_graphs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runner = decoder(tmp_path)
    runner.warm_up()
    runner.warm_up()
    covering = covering_shapes(ROWS, RUNS, 20)
    assert set(graphs(runner)) == set(covering) and len(covering) < 10
    assert capfd.readouterr().err.count(f"cuda:0: {len(covering)} graphs of ") == 1, "the second one finds all there"


def test_before_serving_a_step_has_the_graph_that_fits(tmp_path: Path) -> None:
    """So sizes that are timed at the start are timed as they will run."""
    runner = decoder(tmp_path)
    runner.warm_up()
    before = graphs(runner)
    run(runner, 33, 1)
    fits = closest_shape(33, 33, ROWS, RUNS)
    assert fits not in before and graphs(runner)[fits] == 1


def test_while_serving_only_refine_captures(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, alone = decoder(tmp_path), decoder(tmp_path, "cpu")
    runner.warm_up()
    assert runner.settle()
    first = graphs(runner)
    expected = run(alone, 30, 7)
    for _ in range(STEPS_MIN - 1):
        np.testing.assert_array_equal(run(runner, 30, 7), expected)
        assert not runner.can_refine(), "a size that is not usual"
    runner.refine()
    assert set(graphs(runner)) == set(first)
    run(runner, 30, 7)
    assert runner.can_refine()
    trimmed: list[bool] = []
    monkeypatch.setattr(runner.lane.backend, "trim", lambda: trimmed.append(True))
    runner.refine()
    assert trimmed, "other processes find the memory that the run before the capture took"
    fits = closest_shape(210, 30, ROWS, RUNS)
    assert set(graphs(runner)) == {*first, fits} and graphs(runner)[fits] == 0
    assert "captured while serving: 1, the last in" in capfd.readouterr().err
    for _ in range(2 * STEPS_MIN):
        np.testing.assert_array_equal(run(runner, 30, 7), expected)
    assert graphs(runner)[fits] == 2 * STEPS_MIN and not runner.can_refine()


def test_an_encoders_sizes_that_the_start_left_out(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path), 60)
    runner: Any = make_runner("cuda", card, 16, 300, dtype="float32")
    runner.warm_up()
    assert [shape.tokens for shape in graphs(runner)] == [64, 128, 300]
    assert runner.settle()
    for _ in range(STEPS_MIN):
        runner.run(*fill_items(card, runner.buffers(), 9, 20))
    runner.refine()
    assert [shape.tokens for shape in graphs(runner)] == [64, 128, 192, 300] and not runner.can_refine()


def test_an_encoder_whose_start_had_time_captures_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, "bert")
    monkeypatch.setattr(cuda_lane, "FINER_S_MAX", 1e9)
    runner: Any = make_runner("cuda", load_card(str(tmp_path), 60), 16, 300)
    runner.warm_up()
    assert not runner.settle()


LACKS = [
    ("run", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")),
    ("run", RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")),
    ("capture", RuntimeError("CUDA error: out of memory")),
]


@pytest.mark.parametrize(("call", "error"), LACKS)
def test_without_memory_steps_go_on_in_the_graphs_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], call: str, error: Exception
) -> None:
    runner = decoder(tmp_path)
    runner.warm_up()
    runner.settle()
    for _ in range(STEPS_MIN):
        expected = run(runner, 30, 7)

    def full(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(runner.lane.backend, call, full)
    first = graphs(runner)
    runner.refine()
    assert "no memory for finer graphs: CUDA" in capfd.readouterr().err
    assert not runner.can_refine() and set(graphs(runner)) == set(first)
    np.testing.assert_array_equal(run(runner, 30, 7), expected)


def test_a_failed_device_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is asked of it fails too, and must not hide that: the supervisor restarts by it."""
    runner = decoder(tmp_path)
    runner.warm_up()
    runner.settle()
    for _ in range(STEPS_MIN):
        run(runner, 30, 7)

    def fails(*arguments: Any) -> None:
        raise DeviceFault("the device has failed: illegal memory access")

    def fails_too() -> None:
        raise RuntimeError("CUDA error: illegal memory access")

    monkeypatch.setattr(runner.lane.backend, "run", fails)
    monkeypatch.setattr(runner.lane.backend, "trim", fails_too)
    with pytest.raises(DeviceFault):
        runner.refine()


def test_graphs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before serving and while serving, steps of more sizes run in larger graphs."""
    runner = decoder(tmp_path)
    runner.warm_up()
    most = len(graphs(runner)) + 1
    monkeypatch.setattr(cuda_lane, "GRAPHS_MAX", most)
    run(runner, 33, 1)
    assert len(graphs(runner)) == most
    run(runner, 30, 7)
    assert len(graphs(runner)) == most
    monkeypatch.setattr(cuda_lane, "GRAPHS_MAX", most + 1)
    runner.settle()
    for length in (7, 6):
        for _ in range(STEPS_MIN):
            run(runner, 30, length)
        runner.refine()
    assert len(graphs(runner)) == most + 1 and not runner.can_refine()


def test_the_most_wanted_graph_is_the_one_that_saves_most() -> None:
    demand, there = Demand(), [Shape(1024, 256), Shape(4096, 1024)]
    for _ in range(STEPS_MIN):
        demand.note(Shape(512, 256), Shape(1024, 256))
        demand.note(Shape(1152, 512), Shape(4096, 1024))
        demand.note(Shape(4080, 1024), Shape(4096, 1024))  # not worth a capture
    assert demand.best_shape(there) == Shape(1152, 512)
    assert demand.best_shape([*there, Shape(1152, 512)]) == Shape(512, 256), "what is there saves nothing more"
    assert demand.best_shape([*there, Shape(1152, 512), Shape(512, 256)]) is None


def test_it_searches_only_where_a_size_has_become_more_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, there, searched = Demand(), [Shape(4096, 1024)], []
    monkeypatch.setattr("fastqps.devices.cuda.demand.smallest", lambda *words: searched.append(words) or there[0])
    for _ in range(STEPS_MIN - 1):
        demand.note(Shape(512, 256), there[0])
        assert demand.best_shape(there) is None
    assert not searched
    demand.note(Shape(512, 256), there[0])
    assert demand.best_shape(there) == Shape(512, 256) and len(searched) == 1


def test_old_demand_is_forgotten() -> None:
    demand, there = Demand(), [Shape(4096, 1024)]
    for _ in range(100):
        demand.note(Shape(512, 256), there[0])
    for _ in range(60_000):
        demand.note(Shape(2048, 1024), there[0])
    assert demand.best_shape([*there, Shape(2048, 1024)]) is None
