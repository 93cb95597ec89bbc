"""A step on the CPU is one program, recorded when a model is loaded: its memory, and the calls of torch in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import FEW_TASKS, write_checkpoint
from decoders import write_decoder
from model_runs import random_items, run

from fastqps._core import ITEMS, TOKENS, Program, trim_memory
from fastqps.architectures.packed import PackedModel
from fastqps.architectures.weights import Weights
from fastqps.devices.cpu.transformer import make_decoder, make_encoder, say_torch_calls
from fastqps.devices.place import Place
from fastqps.models import load_card
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.matrix import multiplies
from fastqps.ops.cpu.tape import Arena, Tape
from fastqps.ops.precision import Precision, Quantization
from fastqps.ops.step import address
from fastqps.runners.decoder import DecoderRunner
from fastqps.runners.encoder import EncoderRunner

pytestmark = pytest.mark.compute
FLOAT32 = torch.float32


class Counted(Arena):
    """Counts the bytes that it has taken from the system."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []

    def take(self, size: int) -> torch.Tensor:
        before = len(self._free)
        block = super().take(size)
        if len(self._free) == before:
            self.taken.append(size)
        return block


def runner(folder: Path, layers: int, arena: Arena) -> EncoderRunner:
    write_checkpoint(folder, "bert", num_hidden_layers=layers)
    return EncoderRunner(PackedModel(load_card(str(folder)), CpuEncoderOps(FLOAT32)), 8, 256, arena)


def anonymous_bytes() -> int:
    """The memory of this process that is no file's."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(fields["Anonymous"].split()[0]) << 10


def test_a_loaded_model_leaves_no_memory_unused(tmp_path: Path) -> None:
    """Its weights were float32 for a while: malloc would keep that memory."""
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8, "num_key_value_heads": 8}
    weights = write_decoder(tmp_path, num_hidden_layers=6, **sizes).num_parameters() * 2
    card = load_card(str(tmp_path), 16, max_output_tokens=4)
    kept = make_decoder(card, 2, 16, Place("cpu", dtype="bfloat16"))
    loaded = anonymous_bytes()
    trim_memory()
    assert kept and loaded - anonymous_bytes() < weights // 20


@pytest.mark.parametrize("family", ["decoder", *sorted({family for family, _ in FEW_TASKS})])
def test_a_loaded_model_maps_no_file(tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of it keeps the ``Weights``: a dispatcher collects no garbage."""
    kept: list[Weights] = []
    close = Weights.close

    def keep(self: Weights) -> None:
        kept.append(self)
        close(self)

    monkeypatch.setattr(Weights, "close", keep)
    if family == "decoder":
        write_decoder(tmp_path, "llama")
        make_decoder(load_card(str(tmp_path), 16, max_output_tokens=4), 2, 16, Place("cpu"))
    else:
        write_checkpoint(tmp_path, family, "embed" if family == "t5" else "classify")
        make_encoder(load_card(str(tmp_path)), 2, 64, Place("cpu"))
    assert kept and str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_layers_share_memory_and_so_do_the_steps_of_a_lane(tmp_path: Path) -> None:
    few, many = Counted(), Counted()
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    runner(tmp_path / "few", 2, few)
    first = runner(tmp_path / "many", 6, many)
    assert 0 < sum(many.taken) == sum(few.taken)
    before = len(many.taken)
    second, other_lane = first.for_another_step(), first.for_another_lane()
    assert len(many.taken) == before
    rng = np.random.default_rng(0)
    for _ in range(2):
        items = random_items(rng, 7, 30)
        for each in (second, other_lane):
            assert np.array_equal(run(each, items), run(first, items))


@pytest.mark.parametrize("dtype", [FLOAT32, torch.bfloat16])
@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_threads_of_our_own_change_no_answer(tmp_path: Path, quantization: Quantization, dtype: torch.dtype) -> None:
    """Where no operation is torch's."""
    if quantization == "none" and not multiplies():
        pytest.skip("products are torch's on this CPU")
    write_checkpoint(tmp_path, "bert", hidden_size=96, intermediate_size=192, num_hidden_layers=4)
    ops = CpuEncoderOps(dtype, Precision(quantization))
    made = EncoderRunner(PackedModel(load_card(str(tmp_path)), ops), 32, 1024)
    assert not ops.tape.torch_calls
    items, before, found = random_items(np.random.default_rng(0), 32, 33), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            found.append(run(made, items))
    finally:
        torch.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.skipif(not multiplies(), reason="products are torch's on this CPU")
@pytest.mark.parametrize("dtype", [FLOAT32, torch.bfloat16])
def test_a_step_of_a_decoder_calls_no_torch(
    tmp_path: Path, dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    write_decoder(tmp_path, "llama", 3)
    ops = CpuDecodeOps(dtype)
    DecoderRunner.load(load_card(str(tmp_path)), ops, 2, 512)
    assert not ops.tape.torch_calls
    capfd.readouterr()
    say_torch_calls(ops.tape)
    assert capfd.readouterr().err == ""


def test_memory_is_kept_as_long_as_a_view_of_it() -> None:
    tape = Tape()
    with tape.record(Arena()):
        rows = tape.empty(TOKENS, 6, 4, FLOAT32)
        tape.call_torch("copies", lambda x: [x], [rows], rows)
        first, view = address(rows), rows[:, 2:]
        del rows
        beside = tape.empty(TOKENS, 6, 4, FLOAT32)
        assert address(beside) != first and view.shape == (6, 2)
        del view
        assert address(tape.empty(TOKENS, 6, 4, FLOAT32)) == first, "and the call keeps none of it"


def test_a_call_of_torch_sees_the_rows_of_the_step(capfd: pytest.CaptureFixture[str]) -> None:
    tape, out = Tape(), torch.full((4, 2), torch.nan)
    with tape.record(Arena()) as program:
        tokens, items = tape.empty(TOKENS, 6, 2, FLOAT32), tape.empty(ITEMS, 4, 2, FLOAT32)
        for x in (tokens, items):
            doubled = tape.beside(x, 2)
            tape.call_torch("doubles", lambda x: [2 * x], [doubled], x)
            tape.call_torch("copies", lambda x: [out[: len(x)].copy_(x)], [doubled], doubled)
        items[:] = torch.arange(8).view(4, 2)
    assert tape.torch_calls == {"doubles": 2, "copies": 2} and len(program) == 4
    say_torch_calls(tape)
    assert capfd.readouterr().err.endswith("each step calls torch 4 times: 2 copies, 2 doubles\n")
    program.run(3, 2, 0, 1)
    assert torch.equal(out[:2], torch.tensor([[0.0, 2.0], [4.0, 6.0]]))
    program.call(lambda tokens, items: [][items])
    with pytest.raises(IndexError, match="list index out of range"):
        program.run(3, 2, 0, 1)


def test_a_tensor_that_no_operation_made_cannot_be_recorded() -> None:
    """It would be the same in all steps."""
    ops = CpuEncoderOps(FLOAT32)
    norm = ops.norm(torch.ones(16), None, 1e-5, "rms")
    x = torch.randn(3, 16)
    norm(x, None)
    with pytest.raises(KeyError), ops.tape.record(Arena()):
        norm(x, None)
    assert isinstance(norm(x, None).tensor, torch.Tensor), "and nothing is recorded after it"
    assert len(Program()) == 0
