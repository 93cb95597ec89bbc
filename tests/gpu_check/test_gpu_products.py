"""The probe of cuBLASLt on a fake one that computes: what is asked of it, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import sizeof
from typing import Any

import fake_cublaslt
import pytest
import torch

from bench.gpu import cublaslt
from bench.gpu.cublaslt import Heuristic, Library, LtError, Product, Shape
from bench.gpu.models.shapes import SHAPES
from bench.gpu.stand import CpuStand
from bench.gpu.steps import products
from bench.gpu.steps.products import WORKSPACE, Matrices
from fastqps.ops.cuda.products import CudaLinear
from fastqps.ops.interface import Rows

pytestmark = pytest.mark.compute
SHAPE = Shape(5, 16, 24)


@pytest.fixture
def library() -> Iterator[Library]:
    """At the end, all that was created is destroyed."""
    found = Library(fake_cublaslt.library())
    yield found
    found.close()
    assert found._library.fakeOpen() == 0


def test_structures_are_those_of_the_header() -> None:
    assert sizeof(cublaslt.Algorithm) == 64
    assert sizeof(Heuristic) == 96
    fields = {name: getattr(Heuristic, name).offset for name in ("algorithm", "workspace", "state", "waves", "_")}
    assert fields == {"algorithm": 0, "workspace": 64, "state": 72, "waves": 76, "_": 80}


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("epilogue", ["", "bias", "gelu"])
def test_a_product_is_that_of_torch(library: Library, epilogue: str, adds: bool) -> None:
    shape = Shape(SHAPE.rows, SHAPE.inputs, SHAPE.outputs, epilogue, adds)
    made = Matrices(CpuStand(), shape)
    x, weight, bias, out = made.x[1].float(), made.weight[1].float(), made.bias.float(), made.out[1].normal_()
    expected = x @ weight.t() + (bias if epilogue else 0) + (out.float() if adds else 0)
    expected = torch.nn.functional.gelu(expected, approximate="tanh") if epilogue == "gelu" else expected
    with Product(library, shape, made.bias.data_ptr() if epilogue else 0) as product:
        for choice in product.choices(WORKSPACE):
            before = out.clone()
            made.direct(product, choice, 1)
            torch.testing.assert_close(out.float(), expected, rtol=0.01, atol=0.01)
            out.copy_(before)


@pytest.mark.parametrize(("epilogue", "adds"), [("", False), ("bias", False), ("gelu", False), ("", True)])
def test_torch_is_called_as_the_product_does(epilogue: str, adds: bool) -> None:
    shape = Shape(SHAPE.rows, SHAPE.inputs, SHAPE.outputs, epilogue, adds)
    made = Matrices(CpuStand(), shape)
    linear, x = CudaLinear(made.weight[0], made.bias if epilogue else None), Rows(made.x[0])
    residual = made.out[0].normal_().clone()
    expected = linear.gelu(x) if epilogue == "gelu" else linear.plus(x, residual) if adds else linear(x)
    made.torchs(0)
    assert torch.equal(made.out[0], expected)


def test_algorithms_without_room_or_that_fail_are_not_proposed(library: Library) -> None:
    with Product(library, SHAPE) as product:
        found = product.choices(WORKSPACE)
        assert [each.config["id"] for each in found] == [66, 67]
        assert found[0].config == {"id": 66, "tile": 23, "split_k": 1, "stages": 36, "cluster": 1}
        assert [each.workspace for each in found] == [0, 4 << 20]
        assert [each.config["id"] for each in product.choices(0)] == [66]
        assert [each.config["id"] for each in product.choices(WORKSPACE, 1)] == [66]


def test_a_refusal_says_why(library: Library) -> None:
    made = Matrices(CpuStand(), SHAPE)
    with Product(library, SHAPE) as product:
        other = product.choices(WORKSPACE)[1]
        with pytest.raises(LtError, match=r"cublasLtMatmul: invalid value \(7\)"):
            product.run(other, made.x[0].data_ptr(), made.weight[0].data_ptr(), made.out[0].data_ptr(), (0, 0), 0)


def test_it_is_the_library_that_torch_has_loaded(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    found = fake_cublaslt.library()
    text = "7f00-7f01 r-xp 0000 08:01 12   {}\n7f00-7f01 r-xp 0000 00:00 0\n"
    for path in ("/a/b/libcublasLt.so.13", "/a/nvidia/cu13/lib/libcublasLt.so.12"):
        monkeypatch.setattr(cublaslt.Path, "read_text", lambda self, path=path: text.format(path))
        assert cublaslt.loaded_path() == path
    monkeypatch.setattr(cublaslt.Path, "read_text", lambda self: text.format(found))
    with pytest.raises(LtError, match="has loaded no libcublasLt"):
        cublaslt.loaded_path()


def measured(run: Any) -> dict[str, Any]:
    products.measure(run)
    found: dict[str, Any] = run.results.read()
    return found


def test_every_product_has_a_row_and_every_step_a_sum(dry: Any) -> None:
    found = measured(dry("products"))
    names = [row["name"] for row in found["table"]]
    assert [name.partition(":")[2].partition(",")[0] for name in names] == [
        " product qkv", " product out", " product up", " product down",
        " product qkv", " product out", " product up", " product down", " product head",
        " all products of a step", " all products of a step",
    ]  # fmt: skip
    one = found["raw"]["products"]["minilm-l6: product up, 8 rows"]
    assert {each["id"] for each in one["tried"]} == {66, 67}
    assert one["best"]["id"] in (66, 67) and min(one["torch_us"], one["best_us"], one["without_workspace_us"]) > 0
    assert found["raw"]["products"]["cuBLASLt"]["version"] == 130100


def test_epilogues_are_those_of_the_layers(dry: Any) -> None:
    cases = {(case.model, case.name): case for case in products._cases(dry("products"))}
    assert {name: case.shape.epilogue for (model, name), case in cases.items() if model == "minilm-l6"} == {
        "qkv": "bias", "out": "bias", "up": "gelu", "down": "bias"
    }  # fmt: skip
    decoder = {name: case for (model, name), case in cases.items() if model == "smollm2-135m"}
    assert {name: case.shape.adds for name, case in decoder.items()} == {
        "qkv": False, "out": True, "up": False, "down": True, "head": False
    }  # fmt: skip
    assert {case.shape.epilogue for case in decoder.values()} == {""}
    assert (decoder["head"].times, decoder["up"].times) == (1, SHAPES["smollm2-135m"].tiny().layers)


def test_an_error_of_one_product_hides_no_other(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = Product.choices
    asked: list[int] = []

    def refused_once(self: Product, *words: int) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise LtError("cublasLtMatmulAlgoGetHeuristic: not supported (15)")
        return choices(self, *words)

    monkeypatch.setattr(Product, "choices", refused_once)
    run = dry("products")
    with pytest.raises(RuntimeError, match=r"minilm-l6: product qkv, 8 rows: LtError: .*not supported"):
        products.measure(run)
    names = [row["name"] for row in run.results.read()["table"]]
    assert sum("product " in name for name in names) == 8
    assert [name for name in names if "all products" in name] == [
        "smollm2-135m: all products of a step, 8 rows: torch's time over the best ones'"
    ]


def test_a_wrong_result_is_no_figure(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = Matrices.direct

    def wrong(self: Matrices, product: Product, choice: Any, copy: int) -> None:
        direct(self, product, choice, copy)
        self.out[copy][0] += 1

    monkeypatch.setattr(Matrices, "direct", wrong)
    run = dry("products")
    with pytest.raises(RuntimeError, match="is off by"):
        products.measure(run)
    assert not run.results.read()["table"]


def test_without_time_products_are_left_out_by_name(dry: Any) -> None:
    found = measured(dry("products", limit_s=0.0))
    assert [row["name"].partition(",")[0] for row in found["table"]] == ["minilm-l6: product qkv"]
    assert len(found["steps"]["products"]["left_out"]) == 8


def test_copies_are_more_than_a_cache_holds() -> None:
    class Stand(CpuStand):
        cuda = True  # type: ignore[assignment]

    for shape in (Shape(1024, 576, 576), Shape(1024, 576, 49152)):
        made = Matrices(Stand(), shape)
        bytes_ = sum(each.nbytes for each in (*made.x, *made.weight, *made.out))
        assert bytes_ > 120e6 and made.copies > 1
