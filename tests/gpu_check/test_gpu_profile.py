"""A step's profile: which kernel is what, and what it has to move."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch.autograd import DeviceType
from torch.autograd.profiler_util import Interval

from bench.gpu.lanes import DecodeMix, Made, open_lane
from bench.gpu.models.checkpoints import checkpoint
from bench.gpu.models.shapes import SHAPES
from bench.gpu.profile.bounds import DecoderStep, Peaks, Work, decoder_work, encoder_work
from bench.gpu.profile.timeline import Gaps, Kernel, gaps_of, kinds_of, sort_of, steps_of
from bench.gpu.steps import profile

pytestmark = pytest.mark.compute
PEAKS = Peaks(flops=500e12, bytes_per_s=4e12)


@pytest.mark.parametrize(
    ("name", "sort", "kind"),
    [
        ("tile_attention_kernel", "own", "tile_attention"),
        ("_sample_chunks", "own", "sample_chunks"),
        ("_sample", "own", "sample"),
        ("activate_fp8_kernel", "own", "activate"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", "cuBLAS", "products"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "cuBLAS", "products"),
        ("void cutlass::device_kernel<...>(...)", "cuBLAS", "products"),
        ("Memcpy HtoD (Pinned -> Device)", "copy", "copies"),
        ("void at::native::add_kernel<4, ...>(int)", "other", "void at::native::add_kernel"),
    ],
)  # fmt: skip
def test_kernels_are_told_apart_by_name(name: str, sort: str, kind: str) -> None:
    assert sort_of(name) == (sort, kind)


def test_work_is_that_of_the_shape() -> None:
    shape = SHAPES["minilm-l6"]
    work = encoder_work(shape, 512, 32, 2)
    assert sum(w.launches for w in work.values()) == 44, "the nodes of its graph"
    products = sum(w.flops for name, w in work.items() if name.startswith("product "))
    assert products == 2 * shape.body_parameters * 16_384
    assert work["tile_attention"].bytes == 6 * 4 * 16_384 * 384 * 2
    assert work["product qkv"].bound_us(PEAKS) == pytest.approx(6 * 2 * 16_384 * 384 * 1152 / 500e12 * 1e6)


def test_work_of_a_decoder() -> None:
    shape = SHAPES["smollm2-135m"]
    step = DecoderStep(running=512, prompts=10, length=50, place=70)
    assert (step.rows, step.runs, step.read) == (1012, 522, 512 * 71 + 500)
    work = decoder_work(shape, step, 2)
    assert sum(w.launches for w in work.values()) == 277, "the nodes of its graph"
    head = work["product head"]
    assert (head.flops, head.bound_us(PEAKS) > 0) == (2 * 522 * 576 * 49152, True)
    products = sum(w.flops for name, w in work.items() if name.startswith("product ")) - head.flops
    assert products == 2 * shape.body_parameters * 1012
    cached = work["slot_attention"].bytes / shape.layers
    assert cached == step.read * 2 * 3 * 64 * 2 + 2 * 1012 * 9 * 64 * 2
    fp8 = decoder_work(shape, step, 2, fp8=True)
    assert fp8["product up"].bound_us(PEAKS) < work["product up"].bound_us(PEAKS)
    assert fp8["quantise_rows"].launches == 30 and "quantise_rows" not in work


def test_prompts_join_a_step_of_running_sequences(cache: Path) -> None:
    """Each step has as many rows as the one before, and a prompt's place is free again behind it."""
    settings = {"model": str(checkpoint(SHAPES["smollm2-135m"].tiny(), cache)), "device": "cpu", "dispatchers": 1}
    lane = open_lane({**settings, "max-running": 4, "max-input-tokens": 64, "max-output-tokens": 64})
    ran: list[Made] = []

    def run(made: Made) -> float:
        ran.append(made)
        lane.launch(0, *made)
        lane.wait(0)
        return 0.0

    for running, prompts, length, rows in ((2, 2, 50, (4, 102)), (4, 0, 50, (4, 4)), (2, 1, 7, (3, 9))):
        mix = DecodeMix(lane, running, prompts, length, run)
        for _ in range(3):
            mix.once()
            assert ran[-1][:2] == rows
        mix.close()
    lane.close()


def layer(us: float) -> list[Kernel]:
    """Of an encoder, in the order in which it runs."""
    norm = "add_norm_kernel"
    names = "gemm qkv", "tile_attention_kernel", "gemm out", norm, "gemm up", "gemm down", norm
    return [Kernel(name, us * (1 + place)) for place, name in enumerate(names)]


def test_products_are_told_apart_by_their_order() -> None:
    work = {"product qkv": Work(2, 0, 500e6), "add_norm": Work(4, 4e6)}
    step = [Kernel("embed_norm_kernel", 5.0), *layer(1.0), *layer(1.0), Kernel("pool_kernel", 3.0)]
    found = {kind.name: kind for kind in kinds_of([*step, *step], 2, work, 2, PEAKS)}
    assert {name: (kind.us, kind.launches) for name, kind in found.items()} == {
        "embed_norm": (5, 1), "product qkv": (2, 2), "tile_attention": (4, 2), "product out": (6, 2),
        "add_norm": (22, 4), "product up": (10, 2), "product down": (12, 2), "pool": (3, 1),
    }  # fmt: skip
    assert found["product qkv"].bound_us == pytest.approx(1.0)  # 500 MFLOP at 500 TFLOP/s
    assert found["add_norm"].bound_us == pytest.approx(1.0)  # 4 MB at 4 TB/s


def test_products_that_are_several_kernels_are_one_kind() -> None:
    step = [*layer(1.0), Kernel("splitKreduce_kernel", 1.0)]
    work = {"product qkv": Work(1, 0, 500e6), "product out": Work(1, 0, 250e6)}
    found = {kind.name: kind for kind in kinds_of(step, 1, work, 1, PEAKS)}
    assert (found["products"].us, found["products"].launches) == (1 + 3 + 5 + 6 + 1, 5)
    assert found["products"].bound_us == pytest.approx(1.5)


def test_products_of_steps_that_differ_are_one_kind() -> None:
    """Their order says nothing then: one kernel more in the first step shifts all others."""
    steps = [Kernel("Memset", 1.0), *layer(1.0), *layer(1.0), Kernel("Memset", 1.0)]
    found = {kind.name: kind for kind in kinds_of(steps, 2, {}, 1, PEAKS)}
    assert (found["products"].us, found["products"].launches) == (1 + 3 + 5 + 6, 4)


# ---- the timeline


def timeline(*kernels: tuple[str, float, float]) -> list[Kernel]:
    """(name, start, end)."""
    return [Kernel(name, end - start, start) for name, start, end in kernels]


def one_step(at: float, wait: float) -> list[Kernel]:
    """A copy, three kernels with a fill between them, and a copy; ``wait`` in front of the last kernel."""
    return timeline(
        ("Memcpy HtoD", at, at + 2), ("embed_norm_kernel", at + 12, at + 20), ("Memset (Device)", at + 21, at + 22),
        ("nvjet_tst_128x256", at + 22.5, at + 30), ("pool_kernel", at + 30 + wait, at + 40),
        ("Memcpy DtoH", at + 45, at + 46),
    )  # fmt: skip


def test_gaps_are_those_of_the_timeline_within_a_step() -> None:
    """The host's time between two steps, and in front of a copy, is no gap between kernels."""
    steps = steps_of([*one_step(0.0, 1.0), *one_step(1000.0, 2.0), *one_step(5000.0, 6.0)], 3)
    assert [len(step) for step in steps] == [6, 6, 6]
    found = gaps_of(steps)
    assert found == Gaps(
        span_us=28.0,  # of the first kernel's start to the last one's end
        sum_us=3.5,  # 1 + 0.5 + wait: 2.5, 3.5, 7.5
        median_us=1.0,  # of 1, 0.5, 1, 1, 0.5, 2, 1, 0.5, 6
        largest_us=6.0,
        after="nvjet_tst_128x256",
        copies_us=15.0,  # 10 in front, 5 behind
    )


def test_kernels_that_overlap_leave_no_gap() -> None:
    """As dependent launches do: the second one ends before the first."""
    step = timeline(("gemm", 0, 10), ("add_norm_kernel", 8, 9), ("gemm", 9.5, 20), ("pool_kernel", 21, 22))
    found = gaps_of([step])
    assert found and (found.sum_us, found.largest_us, found.after, found.span_us) == (1.0, 1.0, "gemm", 22.0)


def test_steps_that_differ_have_no_gaps() -> None:
    one = one_step(0.0, 1.0)
    assert steps_of([Kernel("Memset", 1.0), *one, *one_step(100.0, 1.0)], 2) == [], "not as many in each"
    assert steps_of([*one, *reversed(one)], 2) == [], "not in one order"
    assert steps_of([], 2) == [] and gaps_of([]) is None
    assert gaps_of([timeline(("Memcpy HtoD", 0, 1), ("Memset", 2, 3))]) is None, "no kernel"


def test_products_keep_the_names_of_their_kernels() -> None:
    one, two = ([Kernel(f"nvjet_{tile}", 1.0) for tile in ("a", "b", "c", "d")] for _ in range(2))
    two[2] = Kernel("nvjet_e", 1.0)  # up of the second layer has another kernel
    found = {kind.name: kind.names for kind in kinds_of(3 * [*one, *two], 3, {}, 2, PEAKS)}
    assert found["product qkv"] == pytest.approx({"nvjet_a": 2})
    assert found["product up"] == pytest.approx({"nvjet_c": 1, "nvjet_e": 1})


@dataclass
class Event:
    """As torch's profiler gives them."""

    name: str
    time_range: Interval
    device_type: DeviceType
    cpu_parent: object = None


def test_a_step_is_told_with_gaps_and_kernels(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded step: its host's events are not the device's, and events come in any order."""
    recorded = [Event(k.name, Interval(k.start_us, k.end_us), DeviceType.CUDA) for k in one_step(7.0, 1.0)]
    recorded += [Event(k.name, Interval(k.start_us, k.end_us), DeviceType.CUDA) for k in one_step(907.0, 1.0)]
    host = Event("cudaGraphLaunch", Interval(0.0, 900.0), DeviceType.CPU)

    class Profile(ExitStack):
        def events(self) -> list[Event]:
            return [host, *reversed(recorded)]

    monkeypatch.setattr(profile, "profile", lambda activities: Profile())
    monkeypatch.setattr(profile, "STEPS", 2)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    run = dry("profile:minilm-l6")
    run.dry = False
    case = profile.Case("MiniLM", lambda: 25.0, {"embed_norm": Work(1, 4e6)}, 1)
    profile._case(run, PEAKS, case)
    found = run.results.read()
    rows = {row["name"]: row for row in found["table"]}
    assert rows["MiniLM: step"]["measured"] == 25.0, "by its own stamps"
    assert rows["MiniLM: gaps between its kernels"]["measured"] == 2.5
    assert rows["MiniLM: gaps between its kernels"]["bound_by"] == (
        "of 28 µs under the profiler; median 1.00 µs, largest 1.00 µs behind nvjet_tst_128x256; beside copies 15.0 µs"
    )
    assert rows["MiniLM: products"]["bound_by"] == "1 launches, at least 0 µs; 1 × nvjet_tst_128x256"
    assert "gaps 8.9 %" in rows["MiniLM: step"]["bound_by"]
    assert found["raw"]["profile:minilm-l6"]["MiniLM"]["gaps"]["sum_us"] == 2.5
