"""Profiles by kernel: their steps against measured ones, the shapes that they state, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gpu.models.shapes import SHAPES
from fastqps._core import SimDevice
from fastqps.devices import DeviceError
from fastqps.devices.profile import Profile
from fastqps.devices.profile_file import load_profile, shipped
from fastqps.errors import ConfigError

ALONE, TWO_LANES = 0.05, 0.07  # deviation from what was measured, at most
HEAD = 'name = "k"\nstatus = "estimated"\nsource = "a test"\ntask = "embed"\n'
PEAKS = "[peaks]\ntflop_per_s = 100\ntb_per_s = 2\n"

# Steps alone: tokens, items, µs. bench/results/h200-2026-11-26.json; of Qwen2.5-0.5B and Llama-1B by rates of servers.
STEPS = [
    ("h200-minilm-l6", 5632, 176, 430),
    ("h200-minilm-l6", 8192, 256, 593),
    ("h200-minilm-l6", 16384, 512, 1084),
    ("h200-minilm-l6", 32768, 1024, 2096),
    ("h200-smollm2-135m", 1024, 1024, 1856),
    ("h200-smollm2-135m", 1012, 522, 1516),
    ("h200-qwen2.5-0.5b", 1987, 1004, 4079),
]
# The time from step to step where two lanes share the device.
STEPS_OF_TWO = [
    ("h200-minilm-l6", 5632, 176, 398),
    ("h200-minilm-l6", 16384, 512, 1014),
    ("h200-smollm2-135m", 1012, 522, 1285),
    ("h200-llama-1b", 994, 502, 4339),
    ("h200-llama-1b-fp8", 994, 502, 3275),
]
# Requests per second of a server of SmolLM2-135M, 50 tokens in and 50 out, twice as many in flight as run.
RATES_H100 = [(1, 1024, 7980), (1, 2048, 8850), (2, 512, 7428), (2, 1024, 8996)]


def period_us(profile: Profile, tokens: int, items: int, lanes: int) -> float:
    """From step to step of a device that never waits."""
    return profile.step_us(tokens, items) - (profile.overlap * profile.latency_us if lanes > 1 else 0)


@pytest.mark.parametrize(("name", "tokens", "items", "us"), STEPS)
def test_steps_take_what_was_measured(name: str, tokens: int, items: int, us: float) -> None:
    assert load_profile(name).step_us(tokens, items) == pytest.approx(us, rel=ALONE)


@pytest.mark.parametrize(("name", "tokens", "items", "us"), STEPS_OF_TWO)
def test_a_second_lane_hides_what_was_measured(name: str, tokens: int, items: int, us: float) -> None:
    assert period_us(load_profile(name), tokens, items, 2) == pytest.approx(us, rel=TWO_LANES)


@pytest.mark.parametrize(("lanes", "running", "rate"), RATES_H100)
def test_another_gpu_by_its_peaks(lanes: int, running: int, rate: float) -> None:
    """A sequence has 50 steps, and its place is empty in one more; the prompt is 50 rows in the first of them."""
    runs = running * 50 / 51
    us = period_us(load_profile("h100-smollm2-135m"), round(runs * 99 / 50), round(runs), lanes)
    assert runs / 50 / us * 1e6 == pytest.approx(rate, rel=TWO_LANES)


@pytest.mark.parametrize("name", shipped())
def test_products_are_those_of_the_model(name: str) -> None:
    """FLOPs and weights of each launch, in whatever number format."""
    shape = SHAPES[name.partition("-")[2].removesuffix("-fp8")]
    kernels = {kernel.name: kernel for kernel in load_profile(name).kernels}
    for product, k, n in shape.products():
        parts = [kernels[key] for key in (product, f"{product}_fp8") if key in kernels]
        assert sum(kernel.launches for kernel in parts) == shape.layers
        assert parts[0].flops_per_token == parts[0].bytes == 2 * k * n
        assert all(kernel.flops_per_token == k * n for kernel in parts[1:])
    if shape.kind == "decoder":
        assert kernels["head"].flops_per_item == kernels["head"].bytes == 2 * shape.hidden * shape.vocab
        cached = kernels["slot_attention"].bytes_per_item * kernels["slot_attention"].launches
        assert cached == 75 * shape.kv_bytes


@pytest.mark.parametrize("name", shipped())
def test_the_device_keeps_to_the_profile(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    device = native(profile)
    for tokens in (0, 1, 50, 203, 204, 241, 257, 1000, 16384, 30000):
        for items in (0, 1, 199, 200, 229, 1024):
            assert device.step_ns(tokens, items) == pytest.approx(profile.step_us(tokens, items) * 1000, abs=3)


def native(profile: Profile) -> SimDevice:
    """As sim.py opens it."""
    return SimDevice(
        fixed_ns=profile.latency_us * 1000,
        overlap=profile.overlap,
        tokens=[(tokens, us * 1000) for tokens, us in profile.token_points()],
        items=[(items, us * 1000) for items, us in profile.item_points()],
    )


def test_costs_of_the_step_and_of_kernels_add_up(tmp_path: Path) -> None:
    """Two launches of 3 µs, whose 2 MB take 1 µs, or their FLOPs longer from 50 tokens on; then stores of 0.01 µs."""
    step = "[step]\nfixed_us = 7\nper_item_us = 5\noverlap = 0.5\ntable = [[10, 20], [20, 40]]\n"
    kernel = "[kernels.a]\nlaunches = 2\nfixed_us = 3\nflops_per_token = 2e6\nbytes = 1e6\ntb_share = 0.5\n"
    (tmp_path / "k.toml").write_text(HEAD + PEAKS + step + kernel + "stored_bytes_per_token = 1e4\n")
    profile = load_profile(str(tmp_path / "k.toml"))
    assert profile.latency_us == 13
    for tokens, items, us in ((0, 0, 13 + 20 + 2), (10, 1, 13 + 20 + 5 + 2 * 1.1), (100, 0, 13 + 200 + 2 * 3)):
        assert profile.step_us(tokens, items) == pytest.approx(us)
        assert native(profile).step_ns(tokens, items) == pytest.approx(us * 1000)


def test_a_profile_that_changes_another_one(tmp_path: Path) -> None:
    """Only what differs is written, also where the base has a base, and neither name nor source is taken over."""
    own = 'status = "estimated"\nsource = "a test"\n'
    (tmp_path / "one.toml").write_text(
        f'name = "one"\nbase = "h100-smollm2-135m"\n{own}[kernels.add_norm]\nlaunches = 1'
    )
    (tmp_path / "two.toml").write_text(f'name = "two"\nbase = "./one.toml"\n{own}[peaks]\ntflop_per_s = 345')
    one, two, base = (
        load_profile(name) for name in (str(tmp_path / "one.toml"), str(tmp_path / "two.toml"), "h100-smollm2-135m")
    )
    assert (one.name, one.source, one.model, one.task) == ("one", "a test", base.model, base.task)
    norm = 60 * (1.4 + 4 * 576 * 1000 / 3.0e6)
    assert base.step_us(1000, 1000) - one.step_us(1000, 1000) == pytest.approx(norm)
    assert two.peaks.tflop_per_s == 345 and two.peaks.tb_per_s == 3 and two.latency_us == one.latency_us
    (tmp_path / "bare.toml").write_text('base = "h100-smollm2-135m"\nname = "bare"\nstatus = "estimated"\n')
    with pytest.raises(ConfigError, match="the key 'source' is missing"):
        load_profile(str(tmp_path / "bare.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kernels.a]\nlaunches = 1\nbytes = 5\n", "the key 'peaks.tflop_per_s' is missing"),
        (
            "[peaks]\ntflop_per_s = 0\ntb_per_s = 1\n[kernels.a]\nlaunches = 1\n",
            "peaks.tflop_per_s: must be more than 0",
        ),
        (PEAKS + "[step]\nfixed_us = 1\nper_token_us = 1\n", "unknown key 'peaks.tflop_per_s'"),
        (PEAKS + "[kernels.a]\nbytes = 5\n", "the key 'kernels.a.launches' is missing"),
        (PEAKS + "[kernels.a]\nlaunches = 1.5\n", "kernels.a.launches: 1.5 is not a whole number within 0 to 65536"),
        (PEAKS + "[kernels.a]\nlaunches = 1\ntb_share = 0\n", "kernels.a.tb_share: must be more than 0"),
        (PEAKS + "[kernels.a]\nlaunches = 1\nflop_per_token = 1\n", "did you mean 'kernels.a.flops_per_token'?"),
        (
            PEAKS + "[kernels.a]\nlaunches = 1\nflops_per_token = 1\nbytes_per_item = 1\n",
            "kernels.a: FLOPs and bytes of one kernel must both be per token or both per item",
        ),
        (PEAKS + "[kernels.a]\nlaunches = 1\n", "step: all costs are 0"),
        ("kernels = 5\n", "kernels: must be a table"),
        ("[kernels]\na = 5\n", "kernels.a: must be a table"),
        ("base = 5\n", "base: must name a profile"),
        ('base = "./bad.toml"\n', "at most 4 may be based on each other"),
    ],
)
def test_bad_kernels(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.toml").write_text(HEAD + text)
    with pytest.raises(ConfigError) as caught:
        load_profile(str(tmp_path / "bad.toml"))
    assert message in str(caught.value) and str(tmp_path / "bad.toml") in str(caught.value)


def test_a_base_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "lost.toml").write_text('base = "h200-minilm"\n')
    with pytest.raises(DeviceError, match="did you mean h200-minilm-l6"):
        load_profile(str(tmp_path / "lost.toml"))
