"""Decoders on a GPU: in fp32 the CPU's tokens, in bf16 as near to fp32's as transformers'."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from decoders import DECODERS, VOCAB, write_decoder
from device_checks import STRUCTURED, check_decoder, check_structures, items
from generators import write_generator
from schemas import random_schema

from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from fastqps.api.request import GenerateOptions
from fastqps.devices import make_runner
from fastqps.engine.generator import Generator
from fastqps.errors import ConfigError
from fastqps.models import load_card
from fastqps.runners.first_steps import fill_rows
from fastqps.runners.lane import make_lanes

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]


@pytest.mark.parametrize("kind", DECODERS)
def test_every_decoder_equals_the_cpu(tmp_path: Path, kind: str) -> None:
    check_decoder(tmp_path, kind, prefix=5, close=1e-3)


@pytest.mark.parametrize("steps_in_flight", [1, 2])
def test_texts_with_a_structure_equal_the_cpus(tmp_path: Path, steps_in_flight: int) -> None:
    """The GPU reads their masks from the host's memory, and samples in a graph of its own."""
    pytest.importorskip("llguidance")  # which a GPU's machine may lack
    checkpoint = write_generator(tmp_path / "tiny", num_hidden_layers=2)
    schemas = [{"json_schema": random_schema(random.Random(seed)), "max_tokens": 24} for seed in range(40)]
    check_structures(checkpoint, STRUCTURED + schemas, close=1e-3, steps_in_flight=steps_in_flight, max_running=24)


def test_graphs_equal_eager(tmp_path: Path) -> None:
    write_decoder(tmp_path, "qwen2")
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    asked, made = items(6, VOCAB, 20), []
    for eagerly in (False, True):
        runner: Any = make_runner("cuda", card, 4, 96)
        if eagerly:
            runner.launch = runner.run_eagerly
        made.append(Generator(card, runner=runner, steps_in_flight=1).generate(asked, logprobs=True))
    for graph, eager in zip(*made, strict=True):
        assert graph.token_ids == eager.token_ids and graph.logprobs == eager.logprobs


def test_lanes_at_once_equal_one() -> None:
    """Two generators on two lanes, their steps interleaved, against each of them alone: bit by bit."""
    card = load_card(str(checkpoint(SHAPES["smollm2-135m"])), 64, max_output_tokens=32)
    runner: Any = make_runner("cuda", card, 16, 256)
    lanes = [runner, runner.for_another_lane()]
    for lane in lanes:
        lane.warm_up()
    asked = items(48, card.vocab_size, 50)
    sampling = GenerateOptions(max_tokens=32, logprobs=True, ignore_eos=True)
    alone = [
        Generator(card, runner=lane, max_running=16).generate(asked[i::2], **sampling) for i, lane in enumerate(lanes)
    ]
    both = [Generator(card, runner=lane, max_running=16) for lane in lanes]
    numbers = [[each.add(ids, **sampling) for ids in asked[i::2]] for i, each in enumerate(both)]
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    while any(each.busy for each in both):
        for i, each in enumerate(both):
            for token in each.step():
                found.setdefault((i, token.request), []).append((token.id, token.logprob))
    for i, requests in enumerate(numbers):
        for number, answer in zip(requests, alone[i], strict=True):
            assert answer.logprobs is not None
            assert found[i, number] == list(zip(answer.token_ids, answer.logprobs, strict=True))


def test_graphs_captured_between_steps() -> None:
    """While another lane has steps in flight: the same tokens as in the graph of the start, over and over."""
    card = load_card(str(checkpoint(SHAPES["smollm2-135m"])), 64, max_output_tokens=32)
    lanes = make_lanes(make_runner("cuda", card, 64, 1024, dtype="float32"), 2, 2)
    for lane in lanes:
        lane.warm_up()
        assert lane.settle()
    asked = [fill_rows(runner.buffers(), 0, [7] * 30) for lane in lanes for runner in lane.runners]

    def run(lane: Any, beside: Any) -> np.ndarray:
        for step in (0, 1):
            beside.launch(step, *asked[0])
        lane.launch(0, *asked[0])
        lane.wait(0)
        return np.array(lane.runners[0].buffers().tokens[:30])

    def rest(lane: Any) -> None:
        for step in (0, 1):
            lane.wait(step)

    expected = run(*lanes)
    rest(lanes[1])
    before = len(lanes[0].runners[0].lane.native.graphs())
    while not lanes[0].can_refine():
        assert np.array_equal(run(*lanes), expected)
        rest(lanes[1])
    for step in (0, 1):
        lanes[1].launch(step, *asked[0])
    lanes[0].refine()
    rest(lanes[1])
    assert len(lanes[0].runners[0].lane.native.graphs()) == before + 1
    for _ in range(20):
        assert np.array_equal(run(*lanes), expected)
        rest(lanes[1])


def test_bf16_is_as_near_to_fp32_as_transformers() -> None:
    """Of SmolLM2-135M's shape. Random weights amplify what is rounded, so the yardstick is transformers in bf16.

    Both choose tokens behind the same text; fp32 says how much worse than the best one each choice is.
    """
    import transformers as tr

    path = checkpoint(SHAPES["smollm2-135m"])
    card = load_card(str(path), 64, max_output_tokens=50)
    asked = items(64, card.vocab_size, 50)
    answers = Generator(card, device="cuda", max_running=32).generate(asked, max_tokens=50, ignore_eos=True)
    exact, rounded = (
        tr.AutoModelForCausalLM.from_pretrained(path, dtype=dtype).cuda().eval()
        for dtype in (torch.float32, torch.bfloat16)
    )
    ours, theirs = [], []
    for ids, answer in zip(asked, answers, strict=True):
        whole = torch.tensor([[*ids, *answer.token_ids]], device="cuda")
        with torch.inference_mode():
            logits, other = (model(whole).logits[0, len(ids) - 1 : -1].float() for model in (exact, rounded))
        best = logits.max(-1).values
        ours.append(best - logits.gather(1, whole[0, len(ids) :, None])[:, 0])
        theirs.append(best - logits.gather(1, other.argmax(-1)[:, None])[:, 0])
    loss, usual = torch.cat(ours), torch.cat(theirs)
    share, usual_share = (float((gaps > 0).float().mean()) for gaps in (loss, usual))
    print(f"bf16: {share:.1%} of {len(loss)} tokens are not fp32's likeliest, {usual_share:.1%} of transformers'")
    assert share <= 1.5 * usual_share + 0.01
    assert float(loss.mean()) <= 1.5 * float(usual.mean()) + 1e-3


def test_a_cache_that_does_not_fit() -> None:
    card = load_card(str(checkpoint(SHAPES["smollm2-135m"])), 512, max_output_tokens=512)
    with pytest.raises(ConfigError, match=r"--max-running 50000: the KV cache of one lane .*--lanes"):
        make_runner("cuda", card, 50_000, 65_536)
