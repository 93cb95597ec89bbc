"""Which products are quantised: by rule, or by times that a table gives."""

from __future__ import annotations

import pytest

from fastqps.ops.interface import Site
from fastqps.ops.precision import Kind, Precision, Product, Timed

pytestmark = pytest.mark.compute

INNER = Site("up", 1, 4)


def quiet(quantization: str) -> Precision:
    return Precision(quantization, log=lambda line: None)


def test_none_is_none() -> None:
    lines: list[str] = []
    precision = Precision("none", log=lines.append)
    assert not precision.quantises(64, 64, INNER)
    precision.conclude()
    assert lines == []
    assert not precision.quantises(64, 64, INNER, held=True)
    precision.conclude()
    dequantised = "are FP8 in the checkpoint and dequantised; --quantization fp8 keeps them"
    assert lines == [f"quantization none: 1 of 2 matrix products {dequantised}"]


@pytest.mark.parametrize(
    ("site", "inner"),
    [
        (Site("qkv", 0, 4), False),
        (Site("qkv", 1, 4), True),
        (Site("out", 2, 4), False),  # attention cannot quantise its rows as it writes them
        (Site("down", 2, 4), True),
        (Site("down", 3, 4), False),
        (Site("up", 0, 1), False),
        (Site("up", 1, 2), False),
        (Site("head"), False),
        (Site("head", 1, 4), False),
    ],
)
def test_only_inner_layers_are_quantised_unless_the_checkpoint_is(site: Site, inner: bool) -> None:
    assert quiet("fp8").quantises(64, 64, site) is inner
    assert quiet("fp8").quantises(64, 64, site, held=True)
    assert not quiet("none").quantises(64, 64, site)


def test_int8_takes_attentions_output_too_and_no_layer_for_a_checkpoint_in_fp8() -> None:
    lines: list[str] = []
    precision = Precision("int8", log=lines.append)
    assert precision.format == "int8"
    for kind in ("qkv", "out", "up", "down"):
        assert precision.quantises(64, 64, Site(kind, 1, 4))  # type: ignore[arg-type]
        assert not precision.quantises(64, 64, Site(kind, 0, 4), held=True)  # type: ignore[arg-type]
    assert not precision.quantises(64, 64, Site("head", 1, 4))
    assert not precision.quantises(64, (1 << 16) + 16, INNER), "its sums would overflow"
    assert precision.quantises(64, 1 << 16, INNER)
    precision.conclude()
    assert lines == ["quantization int8: 5 of 11 matrix products in int8"]


def test_auto_weighs_the_devices_own_format() -> None:
    lines: list[str] = []
    precision = Precision("auto", (64,), Stopwatch(), auto_format="int8", log=lines.append)
    assert precision.quantises(1152, 384, INNER) and precision.format == "int8"
    assert not precision.quantises(384, 384, Site("qkv", 0, 4), held=True)
    precision.conclude()
    assert lines[0] == "quantization auto: measuring products; --quantization none or int8 skips that"
    assert lines[1] == "quantization auto: 1152 × 384 at 64 rows: 5.0 µs, int8 with quantising its rows 4.0 µs: int8"
    assert lines[-1] == "quantization auto: 1 of 2 matrix products in int8"


@pytest.mark.parametrize(("outputs", "inputs"), [(40, 64), (64, 40), (2, 64), (64, 8)])
def test_shapes_that_do_not_fit(outputs: int, inputs: int) -> None:
    for quantization in ("none", "fp8", "int8", "auto"):
        precision = Precision(quantization, (8,), lambda product, fp8: -fp8, log=lambda line: None)
        assert not precision.quantises(outputs, inputs, INNER)
        assert not precision.quantises(outputs, inputs, INNER, held=True)


# µs of a product with 64 and with 512 rows, plain and in FP8.
TIMES = {
    (1536, 384): ((3.0, 6.0), (3.5, 5.0)),  # slower when small, faster in all
    (384, 1536): ((3.0, 6.0), (2.5, 7.0)),  # the other way round
    (384, 384): ((2.0, 2.0), (2.0, 1.96)),  # too small a gain
    (1152, 384): ((5.0, 9.0), (4.0, 5.0)),
}


class Stopwatch:
    def __init__(self) -> None:
        self.measured: list[tuple[Product, bool]] = []

    def __call__(self, product: Product, fp8: bool) -> float:
        self.measured.append((product, fp8))
        return TIMES[product.kind.outputs, product.kind.inputs][fp8][product.rows == 512]


def test_auto_keeps_what_is_faster_for_each_shape_and_says_so() -> None:
    lines: list[str] = []
    watch = Stopwatch()
    precision = Precision("auto", (64, 512), watch, fused=("qkv", "up"), log=lines.append)
    chosen = {}
    for layer in range(4):
        for kind, shape in (("qkv", (1152, 384)), ("out", (384, 384)), ("up", (1536, 384)), ("down", (384, 1536))):
            chosen[layer, kind] = precision.quantises(*shape, Site(kind, layer, 4))  # type: ignore[arg-type]
    assert {key for key, fp8 in chosen.items() if fp8} == {(1, "qkv"), (1, "up"), (2, "qkv"), (2, "up")}
    # Each shape once: two sizes, both ways.
    assert len(watch.measured) == 4 * 2 * 2
    assert {(p.kind.outputs, p.kind.fused) for p, _ in watch.measured} == {(1152, True), (384, False), (1536, True)}
    assert {p.weights for p, _ in watch.measured} == {4}
    precision.conclude()
    assert lines == [
        "quantization auto: measuring products; --quantization none or fp8 skips that",
        "quantization auto: 1152 × 384 at 64/512 rows: 5.0 / 9.0 µs, FP8 4.0 / 5.0 µs: FP8",
        "quantization auto: 384 × 384 at 64/512 rows: 2.0 / 2.0 µs, FP8 with quantising its rows 2.0 / 2.0 µs: no FP8",
        "quantization auto: 1536 × 384 at 64/512 rows: 3.0 / 6.0 µs, FP8 3.5 / 5.0 µs: FP8",
        "quantization auto: 384 × 1536 at 64/512 rows: 3.0 / 6.0 µs, FP8 with quantising its rows 2.5 / 7.0 µs: no FP8",
        "quantization auto: 4 of 16 matrix products in FP8",
    ]


def test_one_shape_at_two_kinds_of_sites_is_two() -> None:
    watch = Stopwatch()
    precision = Precision("auto", (64,), watch, fused=("up",), log=lambda line: None)
    for kind in ("out", "up", "out"):
        precision.quantises(384, 384, Site(kind, 1, 4))
    found = [(p.kind.fused, fp8) for p, fp8 in watch.measured]
    assert found == [(False, False), (False, True), (True, False), (True, True)]


def test_what_a_checkpoint_holds_is_measured_too() -> None:
    precision = Precision("auto", (512,), Stopwatch(), log=lambda line: None)
    assert precision.quantises(1152, 384, Site("qkv", 0, 4), held=True)
    assert not precision.quantises(384, 384, Site("out", 0, 4), held=True)


def test_what_a_product_does_with_its_result_is_measured_with_it() -> None:
    lines: list[str] = []
    watch = Stopwatch()
    precision = Precision("auto", (64, 512), watch, fused=("qkv", "up", "down"), log=lines.append)
    assert precision.quantises(1152, 384, Site("qkv", 1, 4))
    assert precision.quantises(1152, 384, Site("down", 1, 4), epilogue="residual")
    assert [p.kind for p, _ in watch.measured[::4]] == [Kind(1152, 384, True), Kind(1152, 384, True, "residual")]
    assert lines[2].startswith("quantization auto: 1152 × 384 with its residual at 64/512 rows: ")


def test_down_stays_where_up_writes_gelu_itself() -> None:
    """FP8 rows for ``down`` would cost ``up`` its gelu, and the step one launch more."""
    slow, fast = (384, 384), (1152, 384)
    for up, fp8 in ((slow, False), (fast, True)):
        precision = Precision("auto", (512,), Stopwatch(), fused=("up", "down"), log=lambda line: None)
        assert precision.quantises(*up, Site("up", 1, 4), epilogue="gelu") is fp8
        assert precision.quantises(*fast, Site("down", 1, 4)) is fp8
        assert precision.quantises(*fast, Site("down", 2, 4)), "another layer's"
    without = Precision("auto", (512,), Stopwatch(), fused=("up", "down"), log=lambda line: None)
    assert not without.quantises(*slow, Site("up", 1, 4))
    assert without.quantises(*fast, Site("down", 1, 4)), "a gated activation is a kernel of its own either way"


def test_what_is_recalled_is_not_measured() -> None:
    lines: list[str] = []
    first = Precision("auto", (64, 512), Stopwatch(), log=lambda line: None)
    assert first.quantises(1152, 384, INNER) and not first.quantises(384, 384, INNER)
    assert first.measured and [timed.quantised for timed in first.timed] == [True, False]
    watch = Stopwatch()
    second = Precision("auto", (64, 512), watch, log=lines.append)
    second.recall([*first.timed, Timed(48, 48, False, us=(1.0, 1.0), quantised_us=(9.0, 9.0), quantised=True)])
    assert second.quantises(1152, 384, INNER) and not second.quantises(384, 384, INNER)
    assert second.quantises(48, 48, INNER), "what was chosen holds, whatever its times"
    assert not second.measured and watch.measured == [] and lines == []
    assert second.quantises(1536, 384, INNER)
    assert second.measured and len(second.timed) == 4


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="'int4' is not one of none, fp8, int8, auto"):
        Precision("int4")
    with pytest.raises(ValueError, match="auto needs"):
        Precision("auto")
