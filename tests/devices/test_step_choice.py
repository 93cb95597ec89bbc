"""The size of steps is chosen once: measured by the first dispatcher, stored, and the same for all others."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkpoints import write_checkpoint
from generators import write_generator
from profiles import write_profile

from fastqps._core import now_ns
from fastqps.config.decide import most_running
from fastqps.devices import make_runner
from fastqps.dispatcher import step_size as module
from fastqps.dispatcher import stored_steps
from fastqps.dispatcher.step_size import StepLimits, step_limits
from fastqps.models import load_card
from fastqps.models.card import ModelCard
from fastqps.process.children import DispatcherSettings
from fastqps.runners.knee import CROWD, Knee, find_knee, items_within
from fastqps.runners.lane import Lane, make_lanes
from fastqps.runners.timed_steps import BLOCK_S, TimedSteps

RATES = ((1, 200.0), (8, 240.0), (16, 245.0))


@dataclass
class Route:
    """A segment of one route, as far as the choice goes."""

    most_items: int = 0
    max_batch_tokens: int = 4096
    dispatchers: int = 0b11
    cache_slots: int = 0

    def route(self, i: int) -> Route:
        return self

    def set_batch_limits(self, i: int, *, items: int, tokens: int, cache_slots: int) -> None:
        self.most_items, self.max_batch_tokens, self.cache_slots = items, tokens, cache_slots


@dataclass
class Measured:
    """Stands for ``find_knee``: finds sizes in order."""

    items: list[int] = field(default_factory=lambda: [16, 32, 8])
    decided: bool = True
    times: int = 0

    def __call__(self, steps: TimedSteps, most: int, crowd_step_s: float) -> Knee:
        time.sleep(0.02)
        self.times += 1
        return Knee(self.items[self.times - 1], RATES, self.decided, 0.3)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fastqps" / "steps"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    found = Measured()
    monkeypatch.setattr(module, "find_knee", found)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model", "bert", num_hidden_layers=1)
    return tmp_path / "model"


def settings(**changes: Any) -> DispatcherSettings:
    usual = {"route": 0, "device": "cpu", "device_make": "a CPU", "dtype": "auto", "quantization": "none"}
    usual |= {"kernels": "auto", "threads": 1, "lanes": 1, "async_steps": True, "choose_items": True}
    usual |= {"max_batch_items": 64, "max_batch_tokens": 4096, "max_step_time_ns": 0}
    return SimpleNamespace(**{**usual, **changes})  # type: ignore[return-value]


def lanes(instant: bool = False) -> list[Lane[Any]]:
    buffers = SimpleNamespace(max_items=64, max_tokens=4096)
    return [SimpleNamespace(runners=[SimpleNamespace(instant=instant, buffers=lambda: buffers)])]  # type: ignore[list-item]


def start(card: ModelCard, route: Route | None = None, **changes: Any) -> int:
    """What a dispatcher chooses, by default as the first one of a server."""
    return limits(card, route, **changes).items


def limits(card: ModelCard, route: Route | None = None, **changes: Any) -> StepLimits:
    found = step_limits(card, settings(**changes), route or Route(), lanes())  # type: ignore[arg-type]
    assert route is None or StepLimits(route.most_items, route.max_batch_tokens) == found
    return found


def test_the_first_start_measures_and_the_next_one_reads(
    model: Path, measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    card = load_card(str(model))
    assert start(card) == 16
    said, chosen, stored = capsys.readouterr().err.splitlines()
    assert said == "max-batch-items auto: measuring steps, for at most 5 s; --max-batch-items N skips that"
    assert chosen == "max-batch-items auto: 16 of at most 64, 245/s of at best 245/s (measured in 0.3 s)"
    [path] = stored_steps.folder_of(model).iterdir()
    assert stored == f"step size: choice stored in {path}"
    assert start(card) == 16 and measured.times == 1
    [read] = capsys.readouterr().err.splitlines()
    assert read.startswith("max-batch-items auto: 16, choice of 20") and read.endswith(f"Z read from {path}")
    assert {path.suffix for path in model.iterdir()} == {".json", ".safetensors"} and load_card(str(model)) == card


def test_the_others_of_a_server_follow_the_first_where_nothing_can_be_stored(
    model: Path, measured: Measured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(model / "config.json"))
    card, route = load_card(str(model)), Route()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(start(card, route))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert start(card, route) == 16
    assert found == [16] * 5 and measured.times == 1
    assert capsys.readouterr().err.count("warning: step size: the choice cannot be stored (") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"device_make": "another CPU"},
        {"dtype": "float32"},
        {"quantization": "fp8"},
        {"kernels": "torch"},
        {"threads": 2},
        {"lanes": 2},
        {"async_steps": False},
        {"max_batch_items": 48},
        {"max_batch_tokens": 2048},
    ],
)
def test_other_circumstances_are_measured_for_themselves(
    changes: dict[str, Any], model: Path, measured: Measured
) -> None:
    card = load_card(str(model))
    assert [start(card), start(card, **changes), start(card)] == [16, 32, 16]
    assert measured.times == 2
    assert start(card, Route(dispatchers=0b111)) == 8


def test_what_is_uncertain_is_not_stored(model: Path, measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    measured.items, measured.decided = [32, 16], False
    card = load_card(str(model))
    assert start(card) == 32
    _, line = capsys.readouterr().err.splitlines()
    assert line.startswith("max-batch-items auto: 32 of at most 64, 245/s of at best 245/s (measured in 0.3 s; ")
    assert line.endswith("; uncertain, so the next start measures again)")
    assert not list(stored_steps.folder_of(model).iterdir())
    measured.decided = True
    assert start(card) == 16


def test_nothing_is_chosen_where_a_size_is_set_or_steps_are_instant(model: Path, measured: Measured) -> None:
    card = load_card(str(model))
    set_by_hand, instant = settings(choose_items=False), settings(max_step_time_ns=1)
    assert step_limits(card, set_by_hand, Route(), lanes()) == StepLimits(64, 4096)  # type: ignore[arg-type]
    assert step_limits(card, instant, Route(), lanes(instant=True)) == StepLimits(64, 4096)  # type: ignore[arg-type]
    assert measured.times == 0 and not list(stored_steps.folder_of(model).iterdir())


MS = 1_000_000


@pytest.mark.parametrize(
    ("changes", "chosen", "lines"),
    [  # by RATES a step of 1 takes 5 ms, of 8 33 ms, of 16 65 ms, and no item more than 1 / 245 s
        ({"max_step_time_ns": 100 * MS}, (16, 24 * 32), ["100 ms: at most 16 items of 16 and 768 tokens of 4096"]),
        ({"max_step_time_ns": 70 * MS}, (16, 17 * 32), ["70 ms: at most 16 items of 16 and 544 tokens of 4096"]),
        ({"max_step_time_ns": 40 * MS}, (9, 9 * 32), ["40 ms: at most 9 items of 16 and 288 tokens of 4096"]),
        ({"max_step_time_ns": 32 * MS}, (6, 6 * 32), ["32 ms: at most 6 items of 16 and 192 tokens of 4096"]),
        ({"max_step_time_ns": 40 * MS, "lanes": 2}, (4, 128), ["40 ms: at most 4 items of 16 and 128 tokens of 4096"]),
        (
            {"max_step_time_ns": 2 * MS + 500_000},
            (1, 32),
            ["2.5 ms: a step of 1 takes 5.0 ms, and none is shorter", "2.5 ms: at most 1 items of 16 and 32 "],
        ),
        (  # a limit that is set does not give way to the knee
            {"max_step_time_ns": 100 * MS, "choose_items": False},
            (24, 24 * 32),
            ["100 ms: at most 24 items of 64 and 768 tokens of 4096"],
        ),
        ({"max_step_time_ns": 60_000 * MS}, (16, 4096), ["60000 ms: at most 16 items of 16 and 4096 tokens of 4096"]),
    ],
)
def test_steps_stay_within_the_time_that_is_set(
    changes: dict[str, Any],
    chosen: tuple[int, int],
    lines: list[str],
    model: Path,
    measured: Measured,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The bound is applied to what was measured, so another one takes no other measurement and reuses no old choice."""
    card, route = load_card(str(model)), Route()
    assert limits(card, route, **changes) == limits(card, route, **changes) == StepLimits(*chosen)
    said = [line.removeprefix("warning: ") for line in capsys.readouterr().err.splitlines()]
    found = [line for line in said if line.startswith("max-step-time: ")]
    assert len(found) == len(lines) and all(line[15:].startswith(text) for line, text in zip(found, lines, strict=True))
    without = {key: value for key, value in changes.items() if key == "lanes"}
    assert limits(card, **without) == StepLimits(16, 4096) and measured.times == 1


def test_sequences_stay_within_the_time_that_is_set(tmp_path: Path, measured: Measured) -> None:
    """The rows of a step must hold a longest prompt beside them, so only their number is bounded."""
    card, route = load_card(str(write_generator(tmp_path / "g")), 16, max_output_tokens=16), Route()
    found = step_limits(card, settings(max_step_time_ns=40 * MS), route, lanes())  # type: ignore[arg-type]
    assert found == StepLimits(9, 4096) and route.cache_slots == 9


def test_the_time_of_a_step_grows_no_faster_than_its_items() -> None:
    rates = ((1, 100.0), (2, 150.0), (4, 200.0))
    assert [items_within(ms / 1e3, rates) for ms in (9, 10, 13, 14, 19, 20, 30, 100)] == [0, 1, 1, 2, 2, 4, 6, 20]
    assert items_within(0.0105, ((1, 100.0), (2, 110.0), (4, 210.0))) == 1


def test_steps_are_timed_through_all_lanes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size as it would be served: usual lengths, full step included, for as long as asked."""
    monkeypatch.setattr("fastqps.runners.timed_steps._LONG_S", 1e9)  # on a busy machine every step is long
    card = load_card(str(model))
    both = make_lanes(make_runner("cpu", card, 20, 256, dtype="float32", threads=1), 2, 2)
    steps = TimedSteps(card, both)
    assert steps.items_max == 8, "of 32 tokens each"
    for size in (1, 8):
        began = now_ns()
        seconds, count = steps(size)
        assert BLOCK_S <= seconds <= (now_ns() - began) / 1e9 and count >= 4
        stamps = [runner.buffers().stamps for lane in both for runner in lane.runners]
        assert all(began < start <= end for start, end in stamps), "all buffers were used"
    for lane in both:
        lane.close()


def test_a_device_that_works_by_itself_tells_its_own_time(model: Path, tmp_path: Path) -> None:
    """However late the host is: the times are the profile's, and the choice is the exact one."""
    profile = write_profile(tmp_path / "p.toml", {"fixed_us": 300, "per_token_us": 0, "per_item_us": 100})
    steps = TimedSteps(
        load_card(str(model)), make_lanes(make_runner(f"sim:{profile}", load_card(str(model)), 512, 16384), 1, 2)
    )
    for size in (1, 8, 64):
        seconds, count = steps(size)
        assert seconds / count == pytest.approx(300e-6 + size * 100e-6, rel=1e-3)
    knee = find_knee(steps, steps.items_max)
    assert knee.decided and knee.items == 64, "300 µs are 5 % of the time of a step of 57 items"


def test_sequences_of_a_generator_are_timed(tmp_path: Path) -> None:
    card = load_card(str(write_generator(tmp_path / "g")), 16, max_output_tokens=16)
    lanes = make_lanes(make_runner("cpu", card, 12, 64, dtype="float32", threads=1), 1, 2)
    steps = TimedSteps(card, lanes)
    assert steps.items_max == 12
    seconds, count = steps(12, 0.0)
    assert seconds > 0 and count == 2
    buffers = lanes[0].runners[1].buffers()
    assert buffers.header[:3].tolist() == [12, 12, 12] and buffers.kv_slots[:12].tolist() == list(range(12))
    lanes[0].close()


def test_sequences_on_a_device_that_works_by_itself_have_prompts_beside_them(tmp_path: Path) -> None:
    """As many rows of prompts as sequences; the cache is read up to the usual position, and filled once."""
    card = load_card(str(write_generator(tmp_path / "g")), 64, max_output_tokens=16)
    device = f"sim:{write_profile(tmp_path / 'p.toml', {'fixed_us': 500, 'per_token_us': 1}, task='generate')}"
    steps = TimedSteps(card, lanes := make_lanes(make_runner(device, card, 128, 256), 1, 2))
    buffers = lanes[0].runners[0].buffers()
    for size, lengths in {1: [1], 2: [2, 1], 100: [32, 32, 32, 4] + [1] * 96, 128: [32] * 4 + [1] * 124}.items():
        rows = sum(lengths)
        seconds, count = steps(size)
        assert seconds / count == pytest.approx(500e-6 + rows * 1e-6, rel=1e-3)
        assert buffers.header[:3].tolist() == [rows, size, size]
        assert (buffers.starts[1 : size + 1] - buffers.starts[:size]).tolist() == lengths
        begins = buffers.starts[:size]
        assert buffers.positions[begins].tolist() == [
            0 if length > 1 or i == 0 else 48 for i, length in enumerate(lengths)
        ]
        assert buffers.kv_slots[begins].tolist() == list(range(size))
        assert buffers.positions[: lengths[0]].tolist() == list(range(lengths[0]))
        assert steps._cached == {lanes[0]: size}


# µs: fixed, per row and per sequence; lanes; the size that is chosen of at most 4,096; the one that takes too long
CHOICES = [
    ((500, 1, 1), 1, 2048, 0),  # 96 % of the rate of 4,096, which steps of one row each would take
    ((1000, 0.2, 0.2), 1, 4096, 0),
    ((3000, 2.5, 2.5), 1, 2048, 4096),  # by its rate 4,096, of 33 ms
    ((3000, 2.5, 2.5), 2, 1024, 2048),  # each lane has its turn in 36 ms
    ((20_000, 20, 20), 1, 1024, 2048),  # up to 1,024, no step is too long
]


@pytest.mark.parametrize(("costs", "lanes", "chosen", "late"), CHOICES)
def test_sequences_up_to_the_time_for_a_token(
    costs: tuple[float, float, float], lanes: int, chosen: int, late: int, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    card = load_card(str(write_generator(tmp_path / "g")), 64, max_output_tokens=64)
    step = dict(zip(("fixed_us", "per_token_us", "per_item_us"), costs, strict=True))
    device = f"sim:{write_profile(tmp_path / 'p.toml', step, task='generate')}"
    sizes = {"device": device, "lanes": lanes, "max_batch_items": 4096, "max_batch_tokens": 16384}
    made = make_lanes(make_runner(device, card, 4096, 16384), lanes, 2)
    assert step_limits(card, settings(**sizes), Route(), made).items == chosen  # type: ignore[arg-type]
    _, said = [line for line in capsys.readouterr().err.splitlines() if "auto: " in line]
    assert said.startswith(f"max-running auto: {chosen} of at most 4096, ")
    assert (f"; {late} would take " in said) == bool(late) and ("for a token, more than 20" in said) == bool(late)


@pytest.mark.parametrize("device", ["cpu", "null"])
def test_the_cpu_has_no_bound(device: str) -> None:
    """Its steps take longer, and it never runs more than 1,024 sequences of its own accord."""
    assert most_running(device) == CROWD == 1024
