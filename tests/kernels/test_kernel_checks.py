"""The check of a kernel before its use: it passes the kernels as they are, and sees each result that is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from kernel_calls import calls, moved
from kernel_rows import DEVICE
from torch.utils._python_dispatch import TorchDispatchMode
from tries import until_in_time

from fastqps._core import PARAM_WORDS, TOP_LOGPROBS_MAX
from fastqps.devices.cuda.buckets import encoder_buckets
from fastqps.kernels import torch_ops
from fastqps.kernels.checks import INPUTS, arguments_of, check, compare, shape_of
from fastqps.kernels.checks.inputs import Random
from fastqps.kernels.checks.sample_inputs import LIKELY, RUNS
from fastqps.kernels.journal import KERNELS
from fastqps.kernels.layers import Attention, Tables
from fastqps.kernels.shapes import ROWS_TOGETHER_FROM
from fastqps.kernels.torch_ops.sample import uniform
from fastqps.ops.cuda.operations import launcher

pytestmark = [
    pytest.mark.usefixtures("round_as_a_gpu_does"),
    pytest.mark.compute,
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered"),  # numpy's, interpreting
]
TYPES = (torch.float32, torch.float16, torch.bfloat16)
CALLS = [(name, arguments) for name, arguments in calls(torch.float32)]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(CALLS)]


def full(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    found = arguments_of(getattr(torch_ops, name), (), arguments)
    return {key: moved(value, DEVICE) for key, value in found.items()}


def is_dear(name: str, arguments: dict[str, Any]) -> bool:
    """Of thousands of programs: by day test_kernels_encoder.py and test_kernels_rows.py run the same code in few."""
    rows = [len(x) for x in arguments.values() if isinstance(x, torch.Tensor)]
    return max(rows) >= ROWS_TOGETHER_FROM or (
        name == "pool" and not {"cls", 3} & {arguments["mode"], arguments.get("skipped")}
    )


EACH_CALL = [
    pytest.param(*call, id=name, marks=[pytest.mark.nightly] if is_dear(*call) else [])
    for call, name in zip(CALLS, IDS, strict=True)
]


@pytest.mark.parametrize(("name", "arguments"), EACH_CALL)
def test_the_kernels_pass(name: str, arguments: dict[str, Any]) -> None:
    found = check(name, launcher(name), getattr(torch_ops, name), full(name, arguments))
    assert found is None, str(found)


def spoiled(
    plain: Callable[..., Any], result: str, row: int, change: Callable[[torch.Tensor], object], **arguments: Any
) -> Any:
    """What ``plain`` returns and writes, but for one row of one result."""
    returned = plain(**arguments)
    if result == "top, as floats":
        target = arguments["top"][:, TOP_LOGPROBS_MAX:].view(torch.float32)
    elif result in arguments and isinstance(arguments[result], torch.Tensor):
        target = arguments[result]
    elif isinstance(returned, torch.Tensor):
        target = returned
    elif hasattr(returned, "_asdict"):
        target = returned._asdict()[result]
    else:
        target = returned[("fp8", "scale").index(result)]
    change(target[row])
    return returned


def results_of(name: str, arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
    case = INPUTS[name](Random(arguments), arguments)
    return case.run(getattr(torch_ops, name))


WRONG = [(name, arguments, result) for name, arguments in CALLS for result in results_of(name, full(name, arguments))]


@pytest.mark.parametrize(
    ("name", "arguments", "result"), WRONG, ids=[f"{n}-{i}-{r}" for i, (n, _, r) in enumerate(WRONG)]
)
def test_each_result_that_is_wrong_is_seen(name: str, arguments: dict[str, Any], result: str) -> None:
    """In its first or last row alone; by a third, to nothing, or to what is no number."""
    plain, arguments = getattr(torch_ops, name), full(name, arguments)
    right = results_of(name, arguments)[result]

    def worse(row: torch.Tensor) -> None:
        row.copy_((row.float() * (4 / 3) + (0 if row.is_floating_point() else 1)).to(row.dtype))

    changes: list[Callable[[torch.Tensor], object]] = [worse]
    if right.is_floating_point():
        changes += [lambda row: row.copy_(torch.full_like(row, torch.nan, dtype=torch.float32).to(row.dtype))]
    rows = [i for i in (0, len(right) - 1) if right[i].float().any() or not right.is_floating_point()]
    assert rows, "a result of zeros shows little"
    for row in rows:
        for change in changes:
            wrong = partial(spoiled, plain, result, row, change)
            found = check(name, wrong, plain, arguments)
            assert found is not None, (row, change)
            assert name in KERNELS and "largest error" in str(found)


def test_every_kernel_but_the_clock_has_a_result_to_compare() -> None:
    assert {name for name, _, _ in WRONG} == set(KERNELS) - {"end_step"}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_small_error_everywhere_is_seen(dtype: torch.dtype) -> None:
    """An error of one part in fifty of all numbers, which no single number would show in 16 bits."""
    wanted = torch.randn(200, 64).to(dtype)
    assert compare("values", wanted.clone(), wanted) is None
    assert compare("values", (wanted.float() * 1.02).to(dtype), wanted) is not None
    rounded = (wanted.float() + torch.finfo(dtype).eps / 2 * wanted.float() * torch.randn(200, 64)).to(dtype)
    assert compare("values", rounded, wanted) is None


def test_what_has_another_type_is_no_result() -> None:
    with pytest.raises(ValueError, match=r"values is torch.float32 \[2, 3\], not torch.float16 \[2, 3\]"):
        compare("values", torch.zeros(2, 3), torch.zeros(2, 3).half())


def test_draws_from_all_are_far_from_edges() -> None:
    """So that no rounding decides them, whatever the vocabulary and the type."""
    drawn = [run for run in RUNS if run.from_all]
    assert len(drawn) == 4
    for run in drawn:
        low, high = torch.tensor(run.params(0, -1))[PARAM_WORDS["seed"] :][:2].split(1)
        u = float(uniform(low, high, torch.tensor([5])))
        edges = (torch.tensor(LIKELY).double() / run.temperature).softmax(0).cumsum(0)
        assert float((edges - u).abs().min()) > 1e-3, run


def test_a_shape_is_what_code_depends_on() -> None:
    x, weight = torch.zeros(5, 48), torch.ones(48)

    def shape(**changes: Any) -> str:
        how = {"x": x, "weight": weight, "bias": None, "eps": 1e-6, "kind": "rms"} | changes
        return shape_of("add_norm", arguments_of(torch_ops.add_norm, (), how))

    assert shape() == "x=float32[:,48]/1 weight=float32[:] eps=1e-06 kind=rms return_values=True"
    assert shape(x=torch.zeros(9, 48)) == shape() == shape(x=torch.zeros(2049, 48))
    others = [
        {"x": x.half()}, {"x": torch.zeros(5, 64)}, {"x": torch.zeros(2048, 48)},
        {"bias": weight}, {"eps": 1e-5}, {"kind": "layer"}, {"residual": x},
        {"return_fp8": True}, {"return_values": False}, {"count": torch.zeros(1, dtype=torch.int32)},
    ]  # fmt: skip
    assert len({shape(), *(shape(**other) for other in others)}) == 1 + len(others)
    calls_of = {name: [full(name, a) for n, a in CALLS if n == name] for name in ("embed_norm", "sample")}
    for name, each in calls_of.items():
        assert len({shape_of(name, arguments) for arguments in each}) == len(each)


class Counting(TorchDispatchMode):
    """How many operations torch runs: on a GPU about as many launches."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def minilm_calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of MiniLM in bfloat16, each shape once: steps of up to 16,384 tokens and 1,024 items, on an H200."""
    bf16, width, rows = torch.bfloat16, 384, 64
    x, weight, ids = torch.zeros(rows, width, dtype=bf16), torch.ones(width), torch.zeros(rows, dtype=torch.int32)
    words, places, kinds = (torch.randn(n, width).to(bf16) for n in (30522, 512, 2))
    embed = {"types": ids, "counts": ids[:16], "stamps": torch.zeros(2, dtype=torch.int64)}
    embed |= {"tables": Tables(words, places, kinds, weight, weight, 1e-12)}
    for tokens in encoder_buckets(16384, width, 132):
        marks, all_ids = (torch.zeros(n, dtype=torch.int32) for n in (min(tokens, 1024) + 1, tokens))
        yield "embed_norm", embed | {"ids": all_ids, "types": all_ids, "cu_seqlens": marks}
        h = torch.zeros(tokens, width, dtype=bf16)
        yield "add_norm", {"x": h, "weight": weight, "bias": weight, "eps": 1e-12, "kind": "layer", "residual": h}
    attended = {"qkv": x.repeat(1, 3), "row_start": ids, "row_end": ids, "longest": 256}
    yield "tile_attention", attended | {"attention": Attention(12, 12)}
    yield "pool", {"hidden": x, "cu_seqlens": ids[:9], "counts": ids[:16], "mode": "mean", "out": torch.zeros(8, width)}


def test_the_checks_of_minilm_are_few_and_short() -> None:
    """What docs/kernels.md estimates their time by: 10 checks of some hundred operations, under 3 s even on a CPU."""
    shapes = {shape_of(n, full(n, a)): (n, full(n, a)) for n, a in minilm_calls()}
    assert len(shapes) == 10

    def check_all() -> str:
        began_s = time.monotonic()
        with Counting() as counting:
            for name, arguments in shapes.values():
                plain = getattr(torch_ops, name)
                assert check(name, plain, plain, arguments) is None
        print(f"{counting.count} operations in {time.monotonic() - began_s:.2f} s")
        assert counting.count < 2000
        took_s = time.monotonic() - began_s
        return "" if took_s < 3 else f"{took_s} s"

    until_in_time(check_all)
