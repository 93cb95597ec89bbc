"""The modelled device in this process: profiles, steps, waits. The timeline itself: test_sim_timeline.cpp."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoders import write_decoder
from profiles import write_profile
from serving import until
from tries import unmet, until_in_time

from fastqps import Engine
from fastqps._core import Segment, Sizes, create_segment, now_ns
from fastqps.devices import DeviceError, list_devices, make_runner
from fastqps.devices.profile_file import load_profile
from fastqps.engine.generator import Generator
from fastqps.errors import ConfigError
from fastqps.models import load_card
from fastqps.runners.lane import AsyncLane, make_lane

MINILM = load_card("minilm")
STEP = {"fixed_us": 100, "per_token_us": 2, "per_item_us": 3, "overlap": 0.25}


def test_a_profile_says_what_a_step_takes(tmp_path: Path) -> None:
    profile = load_profile(write_profile(tmp_path / "a-1.toml", STEP, {"launch_us": 7}))
    assert (profile.name, profile.status, profile.task) == ("a-1", "estimated", "embed")
    assert (profile.fixed_us, profile.per_token_us, profile.per_item_us, profile.overlap) == (100, 2, 3, 0.25)
    assert profile.launch_us == 7
    assert profile.step_us(10, 4) == 132


@pytest.mark.parametrize(
    ("tokens", "us"), [(1, 150), (16, 150), (64, 150), (96, 250), (128, 350), (256, 750)], ids=lambda n: str(n)
)
def test_a_table_instead_of_a_cost_per_token(tmp_path: Path, tokens: int, us: float) -> None:
    step = {"fixed_us": 50, "table": [[16, 100], [64, 100], [128, 300]]}
    assert load_profile(write_profile(tmp_path / "t.toml", step)).step_us(tokens, 1) == us


@pytest.mark.parametrize(
    ("keys", "step", "host", "message"),
    [
        ({"status": "guessed"}, STEP, {}, "status: 'guessed' is not one of estimated, measured"),
        ({"status": None}, STEP, {}, "the key 'status' is missing"),
        ({"task": "translate"}, STEP, {}, "task: 'translate' is not one of embed, classify, generate, "),
        ({"name": "a b"}, STEP, {}, "name: 'a b' must be at most 60 letters"),
        ({"source": " "}, STEP, {}, "source: must be a text"),
        ({"gpu": 5}, STEP, {}, "gpu: must be a text"),
        ({"colour": "red"}, STEP, {}, "unknown key 'colour'"),
        ({}, {**STEP, "per_tokens_us": 1}, {}, "unknown key 'step.per_tokens_us'; did you mean 'step.per_token_us'?"),
        ({}, {"per_token_us": 1}, {}, "the key 'step.fixed_us' is missing"),
        ({}, {"fixed_us": 1}, {}, "the key 'step.per_token_us' is missing"),
        ({}, {**STEP, "fixed_us": -1}, {}, "step.fixed_us: -1 is not within 0 to 5e+06"),
        ({}, {**STEP, "fixed_us": "1ms"}, {}, "step.fixed_us: '1ms' is not a number"),
        ({}, {**STEP, "fixed_us": True}, {}, "step.fixed_us: True is not a number"),
        ({}, {**STEP, "fixed_us": "nan"}, {}, "step.fixed_us: 'nan' is not a number"),
        ({}, {**STEP, "per_item_us": float("inf")}, {}, "['step']['per_item_us'] is no number that a float holds"),
        ({}, {**STEP, "overlap": 1.5}, {}, "step.overlap: 1.5 is not within 0 to 1"),
        ({}, STEP, {"launch_us": 2e6}, "host.launch_us: 2e+06 is not within 0 to 1e+06"),
        ({}, {"fixed_us": 0, "per_token_us": 0}, {}, "step: all costs are 0"),
        ({}, {**STEP, "table": [[1, 2]]}, {}, "step.per_token_us: has no effect beside step.table"),
        ({}, {"fixed_us": 0, "table": [[2, 3], [2, 4]]}, {}, "step.table: tokens must grow"),
        ({}, {"fixed_us": 0, "table": [[2, 3], [4, 1]]}, {}, "step.table: more tokens must not cost less"),
        ({}, {"fixed_us": 0, "table": [2, 3]}, {}, "step.table: must be a list of [tokens, µs]"),
        ({}, {"fixed_us": 0, "table": [[i, i] for i in range(257)]}, {}, "step.table: has 257 rows; at most 256"),
    ],
)
def test_bad_profiles(
    tmp_path: Path, keys: dict[str, Any], step: dict[str, Any], host: dict[str, Any], message: str
) -> None:
    path = write_profile(tmp_path / "bad.toml", step, host, **keys)
    with pytest.raises(ConfigError) as caught:
        list_devices(f"sim:{path}")
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert caught.value.exit_code == 2


def test_profiles_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        DeviceError, match=r"no such profile; did you mean h200-minilm-l6\?.*h200-qwen2.5-0.5b"
    ) as caught:
        list_devices("sim:h200-minilm")
    assert caught.value.exit_code == 3
    with pytest.raises(DeviceError, match="No such file"):
        list_devices(f"sim:{tmp_path}/none.toml")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
        list_devices(f"sim:{tmp_path}/broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"latin\.toml is not TOML"):
        list_devices(f"sim:{tmp_path}/latin.toml")


def test_devices_have_distinct_labels(tmp_path: Path) -> None:
    own = write_profile(tmp_path / "own.toml", STEP, status="measured", name="mine")
    found = list_devices(f"sim:h100-minilm-l6,sim:{own},sim:h100-minilm-l6,sim:h100-minilm-l6")
    labels = ["sim:h100-minilm-l6", "sim:mine", "sim:h100-minilm-l6#1", "sim:h100-minilm-l6#2"]
    assert [device.label for device in found] == labels
    assert [device.spec for device in found] == [
        "sim:h100-minilm-l6",
        f"sim:{own}",
        "sim:h100-minilm-l6",
        "sim:h100-minilm-l6",
    ]
    assert found[1].description == "sim:mine (measured)" and found[2].description == f"{labels[2]} (estimated)"
    assert list_devices("cpu")[0].description == "cpu"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("cpu,sim:h200-minilm-l6", "only GPUs, or sim:PROFILE devices"),
        ("cpu,cpu", "only GPUs, or sim:PROFILE devices"),
        ("sim", "write sim:PROFILE"),
        ("sim:", "write sim:PROFILE"),
        ("sim:h200-minilm-l6,", "only GPUs, or sim:PROFILE devices"),
        ("null:1", "'null:1' is unknown"),
        ("gpu", "'gpu' is unknown"),
    ],
)
def test_devices_that_make_no_sense(named: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list_devices(named)


def test_a_profile_of_another_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="models steps of the task generate"):
        make_runner("sim:h200-qwen2.5-0.5b", MINILM, 8, 512)


# ---- steps


def lane(tmp_path: Path, step: dict[str, Any], host: dict[str, Any] | None = None, steps: int = 2) -> AsyncLane[Any]:
    device = f"sim:{write_profile(tmp_path / 'lane.toml', step, host)}"
    made = make_lane(make_runner(device, MINILM, 8, 512), steps)
    assert isinstance(made, AsyncLane)
    return made


def test_steps_of_a_lane_run_one_behind_the_other(tmp_path: Path) -> None:
    own = lane(tmp_path, {"fixed_us": 20_000, "per_token_us": 100, "overlap": 1.0})
    own.warm_up()

    def attempt() -> str:
        before = now_ns()
        own.launch(0, 1, 50, 50)
        own.launch(1, 2, 10, 5)
        launched = now_ns()
        due0_s, due1_s, looked = own.due_s(0), own.due_s(1), now_ns()
        (start0, end0), (start1, end1) = (runner.buffers().stamps.tolist() for runner in own.runners)
        assert before <= start0 <= launched and end0 - start0 == 25_000_000
        assert start1 >= end0 and end1 - start1 == 21_000_000
        while due_s := own.due_s(0):  # as a dispatcher sleeps; the rest of it is waited for on the spot
            time.sleep(due_s)
        assert now_ns() >= end0 - 50_000
        own.wait(0)
        assert now_ns() >= end0 and own.due_s(0) == 0
        own.wait(1)
        assert now_ns() >= end1 and own.due_s(1) == 0
        if looked >= end0:
            return "the second was launched behind the end of the first"
        assert start1 == end0 and 0 < due0_s < due1_s
        assert (end1 - looked) / 1e9 - 0.001 <= due1_s <= (end1 - launched) / 1e9  # it wakes a little earlier
        return ""

    until_in_time(attempt)
    own.close()


def test_lanes_of_one_device_contend_for_it(tmp_path: Path) -> None:
    """Two runners on the device of one segment, as two dispatchers have them; a third on another device."""
    device = f"sim:{write_profile(tmp_path / 'shared.toml', {'fixed_us': 5_000_000, 'per_token_us': 0})}"
    segment = Segment(
        create_segment(
            Sizes(doors=1, dispatchers=3, models=1, slots=16, max_tokens=64, answer_bytes=4 * 384, devices=2)
        )
    )
    runners = [make_runner(device, MINILM, 8, 512, segment=segment, index=i) for i in (0, 0, 1)]
    for runner in runners:
        runner.launch(1, 1, 1)  # type: ignore[attr-defined]
    (start0, end0), (start1, _), (start2, _) = (runner.buffers().stamps.tolist() for runner in runners)
    assert start1 == end0
    assert start2 < end0 and start2 > start0


def test_a_launch_costs_cpu_time_and_a_wait_none(tmp_path: Path) -> None:
    own = lane(tmp_path, {"fixed_us": 150_000, "per_token_us": 0}, {"launch_us": 3000})

    def attempt() -> str:
        before = time.thread_time()
        own.launch(0, 1, 1, 1)
        launched = time.thread_time()
        own.wait(0)
        waited = time.thread_time() - launched
        assert launched - before >= 0.003
        return unmet(launch=launched - before < 0.006, wait=waited < 0.05)  # of 0.15 s

    until_in_time(attempt)


def test_a_wait_leaves_the_gil_to_others(tmp_path: Path) -> None:
    own = lane(tmp_path, {"fixed_us": 150_000, "per_token_us": 0})
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    def attempt() -> str:
        own.launch(0, 1, 1, 1)
        before = counted
        own.wait(0)
        return unmet(gil_was_free=counted - before > 10)

    other = threading.Thread(target=count)
    other.start()
    try:
        until(lambda: counted, "the other thread")
        until_in_time(attempt)
    finally:
        stop.set()
        other.join()


def test_the_engine_answers_as_null(tmp_path: Path) -> None:
    device = f"sim:{write_profile(tmp_path / 'e.toml', STEP)}"
    texts = ["a text", "another one"]
    assert np.array_equal(
        Engine("minilm", device=device).predict(texts), Engine("minilm", device="null").predict(texts)
    )


def test_a_generator_takes_its_time_for_each_token(tmp_path: Path) -> None:
    write_decoder(tmp_path / "model")
    card = load_card(str(tmp_path / "model"), 40, max_output_tokens=24)
    device = f"sim:{write_profile(tmp_path / 'g.toml', {'fixed_us': 5000, 'per_token_us': 0}, task='generate')}"
    answers = []
    for steps_in_flight in (1, 2):
        runner = make_runner(device, card, 4, 64)
        generator = Generator(card, runner=runner, steps_in_flight=steps_in_flight)
        start = time.monotonic()
        answers.append([made.token_ids for made in generator.generate([[5, 6], [7]])])
        assert time.monotonic() - start >= 24 * 0.005
        generator.close()
    assert answers[0] == answers[1] and [len(ids) for ids in answers[0]] == [24, 24]
