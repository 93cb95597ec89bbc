"""Which products are quantised."""

from __future__ import annotations

import pytest

from fastqps.devices.cpu.transformer import choose_precision
from fastqps.devices.place import Place
from fastqps.host import machine
from fastqps.ops.interface import Site, SiteKind
from fastqps.ops.precision import Precision

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
        (Site("logits"), False),
    ],
)
def test_only_inner_layers_are_quantised_unless_the_checkpoint_is(site: Site, inner: bool) -> None:
    assert quiet("fp8").quantises(64, 64, site) is inner
    assert quiet("fp8").quantises(64, 64, site, held=True)
    assert not quiet("none").quantises(64, 64, site)


def test_int8_takes_all_products_but_the_head_of_an_encoder() -> None:
    lines: list[str] = []
    precision = Precision("int8", log=lines.append)
    assert precision.int8 and not quiet("fp8").int8
    kinds: tuple[SiteKind, ...] = ("qkv", "out", "up", "down", "logits")
    for kind in kinds:
        assert precision.quantises(64, 64, Site(kind, 1, 4)) and precision.quantises(2, 33, Site(kind, 0, 4), held=True)
    assert not precision.quantises(64, 64, Site("head", 1, 4))
    assert not precision.quantises(64, (1 << 16) + 16, INNER), "its sums would overflow"
    assert precision.quantises(64, 1 << 16, INNER)
    precision.conclude()
    assert lines == ["quantization int8: 11 of 13 matrix products in int8"]


@pytest.mark.parametrize(
    ("outputs", "inputs", "kind", "fp8"),
    [
        (2304, 768, "qkv", True),
        (768, 3072, "down", True),
        (767 // 16 * 16, 3072, "down", False),  # the side of a small model
        (9728, 752, "up", False),
        (2048, 2048, "out", False),  # a kernel more, to quantise its rows
        (4096, 4096, "out", True),
        (1024, 4096, "out", True),
        (4096, 4096, "head", False),
    ],
)
def test_auto_takes_fp8_for_large_products(outputs: int, inputs: int, kind: SiteKind, fp8: bool) -> None:
    for held in (False, True):
        inner, first = (quiet("auto").quantises(outputs, inputs, Site(kind, n, 4), held=held) for n in (1, 0))
        assert inner is (fp8 or (held and kind == "head")) and first is (held and inner)


@pytest.mark.parametrize(
    ("flags", "chosen"), [("", "none"), ("asimd", "none"), ("avx2", "int8"), ("avx2 avx512_vnni amx_int8", "int8")]
)
def test_auto_on_a_cpu_goes_by_its_instructions(
    flags: str, chosen: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(flags.split()))
    assert choose_precision(Place("cpu", quantization="auto")).quantization == chosen
    assert capsys.readouterr().err.count("quantization auto: none, since ") == (chosen == "none")


@pytest.mark.parametrize(("outputs", "inputs"), [(40, 64), (64, 40), (2, 64), (64, 8)])
def test_shapes_that_do_not_fit(outputs: int, inputs: int) -> None:
    for quantization in ("none", "fp8", "auto"):
        precision = quiet(quantization)
        assert not precision.quantises(outputs, inputs, INNER)
        assert not precision.quantises(outputs, inputs, INNER, held=True)


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="'int4' is not one of none, fp8, int8, auto"):
        Precision("int4")
