"""A step's profile: which kernel is what, what it has to move, and what a change of it could gain."""

from __future__ import annotations

import pytest

from bench.gpu.models.shapes import SHAPES
from bench.gpu.profile.bounds import Peaks
from bench.gpu.profile.changes import GAPS, changes_of, ranked
from bench.gpu.profile.step_work import DecoderStep, Work, decoder_work, encoder_work
from bench.gpu.profile.timeline import Kernel, Kind, kinds_of, sort_of

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


def layer(us: float) -> list[Kernel]:
    """Of an encoder, in the order in which it runs."""
    names = (
        "gemm qkv",
        "tile_attention_kernel",
        "gemm out",
        "add_norm_kernel",
        "gemm up",
        "gemm down",
        "add_norm_kernel",
    )
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


def test_changes_are_those_that_gain_most() -> None:
    kinds = [
        Kind("product up", "cuBLAS", us=50, launches=10, bound_us=40),
        Kind("add_norm", "own", us=20, launches=10, bytes=8e6, bound_us=2),
        Kind("tile_attention", "own", us=10, launches=10, bound_us=9.9),
        Kind("copies", "copy", us=30, launches=2),
    ]
    found = changes_of(kinds, 110.0)  # 30 µs of it are gaps between 30 kernels
    assert [(change.what.split(" (")[0].split(":")[0], round(change.gain_us)) for change in found] == [
        (GAPS.split(" (")[0], 30),
        ("compute residual sum and norm in the epilogue of the product in front", 30),
        ("product up", 10),
    ]
    assert str(found[2]) == (
        "product up: less fixed time and exposed stores, other tiles or FP8: at most 10 of 110 µs (9 %); "
        "50 µs in 10 launches, bound 40 µs (80 % of it)"
    )


def test_changes_are_ranked_over_all_steps() -> None:
    one = changes_of([Kind("activate", "own", us=40, launches=1), Kind("pool", "own", us=30, launches=1)], 100.0)
    two = changes_of([Kind("activate", "own", us=10, launches=1)], 100.0)
    found = ranked({"a": [c.as_json() for c in one], "b": [c.as_json() for c in two]})
    assert [(what.split(" (")[0], round(mean, 3)) for what, mean, _ in found] == [
        ("compute the activation in the epilogue of the up product", 0.775),  # 40 + 15 of 100, and 10 + 90
        (GAPS.split(" (")[0], 0.6),
        ("remove pool", 0.15),
    ]
    assert found[0][2].startswith("most in b: ")
