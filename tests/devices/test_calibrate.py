"""From measured steps to a profile: fits with literal tables, and a modelled device that comes back out of its own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from decoders import write_decoder
from profiles import write_profile

from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.modes import calibrate
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result
from fastqps.bench.steps import fit
from fastqps.bench.steps.step_costs import Cost, DecoderSteps, EncoderSteps, Steps, period_us
from fastqps.bench.steps.step_costs import _once as once
from fastqps.cli import main
from fastqps.config import Config
from fastqps.devices import make_runner
from fastqps.devices.profile import Profile
from fastqps.devices.profile_file import load_profile
from fastqps.devices.profile_file import write_profile as save
from fastqps.errors import ConfigError
from fastqps.models import load_card

SHAPES = [(8, 1), (32, 1), (128, 4), (512, 16), (2048, 64), (4096, 32)]


@pytest.mark.parametrize(
    "costs",
    [(700, 3, 20), (0, 3, 20), (700, 0, 0), (700, 3, 0), (0, 0, 5)],
)
def test_straight_lines_are_found_again(costs: tuple[float, float, float]) -> None:
    fixed, per_token, per_item = costs
    steps = [Cost(t, s, fixed + per_token * t + per_item * s, 0) for t, s in SHAPES]
    assert fit.straight(steps) == pytest.approx(costs, rel=1e-6, abs=1e-6)


def test_no_cost_is_negative() -> None:
    steps = [Cost(t, s, max(50.0, 10 * t - 1000), 0) for t, s in SHAPES]  # a straight line would begin below 0
    assert min(fit.straight(steps)) >= 0
    assert fit.deviation(steps, [fit.straight(steps)[0]] * len(steps)) > 0.5


def test_a_table_where_no_straight_line_does() -> None:
    steps = [Cost(8, 1, 300, 0), Cost(64, 1, 310, 0), Cost(64, 4, 340, 0), Cost(64, 8, 370, 0), Cost(512, 1, 2010, 0)]
    steps.append(Cost(600, 1, 1500, 0))  # faster with more tokens: an accident
    assert fit.table(steps, fixed=100, per_item=10) == ((8, 190), (64, 200), (512, 1900), (600, 1900))


@pytest.mark.parametrize(
    ("alone", "together", "fixed", "expected"),
    [
        (1000, 2000, 400, 0.0),  # one behind the other
        (1000, 1600, 400, 0.5),
        (1000, 1200, 400, 1.0),
        (1000, 1000, 400, 1.0),  # more than the model can say
        (1000, 2500, 400, 0.0),
        (1000, 1500, 0, 0.0),
    ],
)
def test_overlap(alone: float, together: float, fixed: float, expected: float) -> None:
    assert fit.overlap(alone, together, fixed) == pytest.approx(expected)


@pytest.mark.parametrize("table", [(), ((1.0, 20.0), (512.0, 1000.5))])
def test_a_written_profile_is_read_again(tmp_path: Path, table: Any) -> None:
    per_token = 0.0 if table else 0.0451
    profile = Profile(
        "a.b-c", "measured", 'a "source"', "gpu µ", "m@1", "embed", 12.25, per_token, 0.06, 0.33, table, 3.5
    )
    save(profile, tmp_path / "a.toml")
    assert load_profile(str(tmp_path / "a.toml")) == profile
    with pytest.raises(ConfigError, match="cannot write the profile"):
        save(profile, tmp_path / "none" / "a.toml")


COSTS = {"fixed_us": 300, "per_token_us": 2, "per_item_us": 15}


def steps_on(tmp_path: Path, task: str) -> Steps:
    device = f"sim:{write_profile(tmp_path / 'known.toml', COSTS, task=task)}"
    if task == "embed":
        return EncoderSteps(make_runner(device, load_card("minilm"), 16, 1024))
    write_decoder(tmp_path / "model")
    card = load_card(str(tmp_path / "model"), 40, max_output_tokens=24)
    return DecoderSteps(make_runner(device, card, 6, 100))


@pytest.mark.parametrize(
    ("task", "shapes"),
    [
        ("embed", [(1, 8), (1, 32), (4, 8), (1, 128), (16, 8), (4, 32), (4, 128), (16, 32), (8, 128)]),
        ("generate", [(1, 1), (2, 1), (4, 1), (6, 1), (1, 32), (2, 32), (3, 32)]),
    ],
)
def test_steps_of_every_shape_are_what_they_say(tmp_path: Path, task: str, shapes: list[tuple[int, int]]) -> None:
    steps = steps_on(tmp_path, task)
    assert sorted(steps.shapes()) == sorted(shapes)
    for shape in steps.shapes():
        for _ in range(30 if shape == (6, 1) else 2):  # longer than any sequence lives
            cost = once(steps, shape)
            assert (cost.items, cost.tokens) == (shape[0], shape[0] * shape[1])
            assert cost.us == pytest.approx(300 + 2 * cost.tokens + 15 * cost.items, abs=0.01)
    assert period_us(steps, shapes[0], 0, 0.05) >= 300


def test_a_modelled_device_comes_back(tmp_path: Path) -> None:
    device = f"sim:{write_profile(tmp_path / 'known.toml', COSTS, {'launch_us': 100})}"
    flags = ["--device", device, "--set", "max-batch-items=8", "--set", "max-batch-tokens=600", "--no-check"]
    out, folder = tmp_path / "found.toml", tmp_path / "files"
    assert main(["bench", "calibrate", *flags, "-o", str(out), "--output", str(folder)]) == 0
    found = load_profile(str(out))
    assert (found.name, found.status, found.task) == ("found", "measured", "embed")
    assert found.fixed_us == pytest.approx(300, abs=0.1)
    assert found.per_token_us == pytest.approx(2, abs=0.001) and found.per_item_us == pytest.approx(15, abs=0.1)
    assert 100 <= found.launch_us < 500
    notes = json.loads((folder / "report.json").read_text())["notes"]  # launches are no small part of these steps
    assert any("the overlap says as much about the host as about the device" in note for note in notes)


def test_what_takes_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "calibrate", "--device", "null", "--output", str(tmp_path)]) == 2
    assert "one device that takes time" in capsys.readouterr().err


@pytest.mark.parametrize(("late", "verdict"), [("cpu", "INVALID"), ("sim:profile.toml", "INVALID"), ("", "VALID")])
def test_a_check_by_a_generator_that_was_the_limit_says_nothing(late: str, verdict: str, tmp_path: Path) -> None:
    """Both rates would be its own, and the profile would seem to be right."""
    result = Result("calibrate", extra={"calibration": {}})
    served: Any = SimpleNamespace(task="embed")
    loaded = SimpleNamespace(config=Config(device="null"))
    context: Any = SimpleNamespace(
        options=SimpleNamespace(in_flight=4),
        load=LoadSpec(in_flight=1),
        target=SimpleNamespace(base={}, loaded=lambda settings: loaded, model=lambda server: served),
        server=lambda: None,
        result=result,
        note=result.notes.append,
        measure=lambda settings, load, *, name: Point(
            name, rate=100.0, verdict="INVALID" if name == late else "VALID", status={"OK": 1000}
        ),
    )
    calibrate._check(context, "cpu", tmp_path / "profile.toml")
    assert result.verdict == verdict
    assert ("the generator was the limit at" in " ".join(result.notes)) == (verdict == "INVALID")
