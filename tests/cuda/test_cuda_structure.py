"""Texts with a structure on a fake GPU: the CPU's tokens, and steps that wait for masks before they are launched."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from device_checks import STRUCTURED, check_structures
from fake_cuda import VARIABLE, Knobs, library
from generators import write_generator
from nightly import nightly
from schemas import SAMPLED, random_schema

from fastqps._core import HEADER_MASKS
from fastqps.devices import make_runner
from fastqps.devices.cuda.fake import FakeCuda
from fastqps.engine.generator import Generator
from fastqps.engine.text_answer import FAILED, Token
from fastqps.models import load_card
from fastqps.runners.first_steps import fill_rows
from fastqps.runners.lane import make_lanes
from fastqps.structure.masks import Masks

pytestmark = [
    pytest.mark.compute,
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered"),  # numpy's, interpreting
]
PROMPTS = [[5, 17, 200, 31], [9], [40, 41, 42]]


@pytest.fixture(autouse=True)
def knobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Knobs]:
    """Copies read their source late."""
    monkeypatch.setenv(VARIABLE, library())
    found = Knobs()
    found.set("copy_delay_ns", 100_000)
    yield found
    found.set("copy_delay_ns", 0)


@pytest.fixture
def late_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks take longer than steps."""
    compute = Masks._compute

    def slowly(*args: Any) -> None:
        time.sleep(0.005)
        compute(*args)

    monkeypatch.setattr(Masks, "_compute", slowly)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_generator(tmp_path_factory.mktemp("structured"), num_hidden_layers=2)


@pytest.mark.parametrize("steps_in_flight", [1, 2])
@pytest.mark.usefixtures("late_masks")
def test_tokens_equal_the_cpus(checkpoint: Path, steps_in_flight: int) -> None:
    found = check_structures(checkpoint, STRUCTURED, close=1e-4, steps_in_flight=steps_in_flight)
    assert sum(each[-1].finish == 1 for each in found) > len(STRUCTURED) / 3  # they end by their structure


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 20))])
def test_tokens_of_random_schemas_equal_the_cpus(checkpoint: Path, seed: int) -> None:
    chance = random.Random(seed)
    asked = [
        {"json_schema": random_schema(chance), "max_tokens": 24, "temperature": chance.choice([0.0, 1.0]), "seed": i}
        for i in range(20)
    ]
    check_structures(checkpoint, asked, close=1e-4)


def test_the_kernels_themselves_interpreted(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCuda, "interprets", True)
    asked: list[dict[str, Any]] = [{"regex": "ab(x|yz)"}, {}, {"regex": "[0-9]{2}", "min_tokens": 3, **SAMPLED}]
    asked = [{"max_tokens": 4, **each} for each in asked]
    check_structures(checkpoint, asked, close=1e-4, max_running=3, max_step_tokens=40)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_generator_that_is_closed_with_two_steps_in_flight(
    checkpoint: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller was interrupted as it waited for the first: the masks of the second are not computed yet."""
    card = load_card(str(checkpoint), 32, max_output_tokens=48)
    generator = Generator(card, device=device, max_running=2)
    generator.add(PROMPTS[0], regex="a{40}")
    generator.step()

    def interrupted(step: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(generator._lane, "wait", interrupted)
        generator.step()
    assert len(generator._in_flight) == 2
    generator.close()


@pytest.mark.parametrize("steps_in_flight", [1, 2])
@pytest.mark.usefixtures("late_masks")
def test_an_automaton_that_fails_holds_no_step(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, steps_in_flight: int
) -> None:
    """Its text ends with an error while steps are held for masks. Those beside it have the CPU's tokens."""
    monkeypatch.setattr("fastqps.structure.vocabulary._STATES_MAX", 600)
    spent = "(" + "|".join(f".*{letter}.{{30}}" for letter in "abcdefghij") + ")!"
    asked: list[dict[str, Any]] = [{"regex": spent, "temperature": 1.0, "seed": seed} for seed in range(3)]
    asked += [{"regex": "[ab]{40}"}, {"ignore_eos": True}]
    found = []
    for device in ("cpu", "cuda"):
        card = load_card(str(checkpoint), 32, max_output_tokens=40)
        generator = Generator(card, device=device, dtype="float32", max_running=6, steps_in_flight=steps_in_flight)
        made: dict[int, list[Token]] = {generator.add(PROMPTS[0], **options): [] for options in asked}
        while generator.busy:
            for token in generator.step():
                made[token.request].append(token)
        failed = [request for request, tokens in made.items() if tokens[-1].finish == FAILED]
        assert failed and set(failed) <= set(list(made)[:3])
        for request in failed:
            assert "too many states: 600" in generator.failure(request)
        generator.close()
        found.append([[token.id for token in tokens] for tokens in list(made.values())[3:]])
    assert found[0] == found[1] and [len(tokens) for tokens in found[0]] == [40, 40]


def test_a_step_waits_for_its_masks_before_it_samples(checkpoint: Path, knobs: Knobs) -> None:
    """And the one behind it before it runs. Meanwhile another lane goes on."""
    card = load_card(str(checkpoint), 32, max_output_tokens=48)
    lanes = make_lanes(make_runner("cuda", card, 4, 64, dtype="float32"), 2, 2)
    for lane in lanes:
        lane.warm_up()
    held, other = lanes
    shapes = [fill_rows(runner.buffers(), 0, [3, 3]) for lane in lanes for runner in lane.runners]
    first, second = (runner.buffers() for runner in held.runners)
    for masked, unmasked in ((0, 1), (1, 0)):
        buffers = held.runners[masked].buffers()
        buffers.header[HEADER_MASKS] = 1
        held.launch(masked, *shapes[masked])
        held.launch(unmasked, *shapes[unmasked])
        for _ in range(20):
            other.launch(0, *shapes[2])
            other.wait(0)
            assert 0 < held.due_s(masked) < 0.001 and 0 < held.due_s(unmasked) < 0.001
        knobs.mark()
        threading.Timer(0.02, buffers.release_masks).start()
        held.wait(unmasked)
        assert knobs.count("cudaGraphLaunch") == 2, "the rest of the one, and all of the other"
        assert held.due_s(masked) == 0, "steps run in the order of their launch"
        held.wait(masked)
    assert np.array_equal(first.tokens[:2], second.tokens[:2])


def test_graphs_are_captured_in_parts_while_serving(checkpoint: Path, knobs: Knobs) -> None:
    """Until then a step with masks is not launched before they are there."""
    card = load_card(str(checkpoint), 32, max_output_tokens=48)
    (lane,) = make_lanes(make_runner("cuda", card, 4, 64, dtype="float32"), 1, 2)
    lane.warm_up()
    assert lane.settle() and not lane.can_refine()
    buffers, (other, _) = lane.runners[0].buffers(), lane.runners[1:] + lane.runners[:1]
    tokens = []
    for launched in (0, 1):
        shape = fill_rows(buffers, 0, [3, 3])
        behind = fill_rows(other.buffers(), 0, [3])
        buffers.header[HEADER_MASKS] = 1
        lane.launch(1, *behind)
        knobs.mark()
        lane.launch(0, *shape)
        assert knobs.count("cudaGraphLaunch") == launched
        lane.wait(1)
        assert lane.due_s(0) > 0
        buffers.release_masks()
        lane.wait(0)
        assert knobs.count("cudaGraphLaunch") == launched + 1
        tokens.append(buffers.tokens[:2].tolist())
        assert lane.can_refine() == (not launched)
        lane.refine()
    assert tokens[0] == tokens[1]


def test_a_step_without_memory_for_parts_is_launched_as_a_whole(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = load_card(str(checkpoint), 32, max_output_tokens=48)
    (lane,) = make_lanes(make_runner("cuda", card, 4, 64, dtype="float32"), 1, 1)
    lane.warm_up()
    lane.settle()
    buffers = lane.runners[0].buffers()

    def no_memory(*arguments: Any, **named: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(lane.runners[0].lane.backend, "capture", no_memory)
    for asked in (True, False):
        shape = fill_rows(buffers, 0, [3, 3])
        buffers.header[HEADER_MASKS] = 1
        lane.launch(0, *shape)
        assert lane.can_refine() == asked
        buffers.release_masks()
        lane.wait(0)
        lane.refine()


def test_masks_of_a_new_sequence_do_not_wait_for_a_step_without_any(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first step is behind one in flight whose tokens say nothing about them."""
    card = load_card(str(checkpoint), 32, max_output_tokens=48)
    generator = Generator(card, device="cpu", dtype="float32", max_running=2)
    computed, compute = threading.Event(), Masks._compute

    def noted(*args: Any) -> None:
        compute(*args)
        computed.set()

    monkeypatch.setattr(Masks, "_compute", noted)
    generator.add(PROMPTS[0], max_tokens=9)
    assert not generator.step()
    request = generator.add(PROMPTS[1], regex="ab")
    generator._launch(generator._free[0])
    generator._in_flight.append(generator._free.popleft())
    assert computed.wait(20), "no step was waited for"
    made = [token.id for _ in range(9) for token in generator.step() if token.request == request]
    generator.close()
    assert len(made) >= 2
