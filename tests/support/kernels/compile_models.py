"""Compiles the kernels of whole steps of two small models for an H200, in bfloat16 and, in their middle layer, FP8.

The encoder's checkpoint has the output projection of attention in FP8, as no other model has it.
Nothing is computed: tensors have no storage. To be run without TRITON_INTERPRET. Prints a line for each kernel, with
what went wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from checkpoints import write_checkpoint
from compressed import compress
from decoders import write_decoder

from bench.kernels.compile import TARGETS, Case, compile_all
from fastqps._core import ADMITTED_WORDS
from fastqps.architectures.packed import PackedModel
from fastqps.models import load_card
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.encoder_ops import CudaEncoderOps
from fastqps.ops.decode_step import DecodeState, DecodeStep, TokenMasks
from fastqps.ops.parameters import SharedParameters
from fastqps.ops.precision import Precision
from fastqps.ops.step import Step
from fastqps.runners.decode_buffers import mask_words
from fastqps.runners.decoder import load_llama

BF16, META = torch.bfloat16, torch.device("meta")


def ints(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.int32, device=META)


def floats(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device=META)


def stamps() -> torch.Tensor:
    return torch.empty(2, dtype=torch.int64, device=META)


def ops(make: Any) -> Any:
    return make(BF16, SharedParameters.measuring(), Precision("fp8", log=lambda line: None))


def encoder(path: Path) -> Case:
    write_checkpoint(path, "modernbert", "classify", num_hidden_layers=3, hidden_size=64, num_attention_heads=2)
    compress(path, r"model\.layers\.1\.attn\.Wo\.weight")
    card = load_card(str(path))
    model = PackedModel(card, ops(CudaEncoderOps))
    output = floats(32, card.dimensions)
    step = Step(ints(256), ints(256), ints(256), ints(33), ints(16), output=output, stamps=stamps())
    return Case("encoder", lambda: model(step))


def decoder(path: Path) -> Case:
    write_decoder(path, "qwen3", num_hidden_layers=3, vocab_size=4096)
    card = load_card(str(path), 24, max_output_tokens=12)
    model = load_llama(card, ops(CudaDecodeOps))
    sizes = model.config.layers, model.config.kv_heads, model.config.head_dim
    state = DecodeState.allocate(card, 8, *sizes, BF16, META)
    rows, runs = [ints(64) for _ in range(3)], [ints(8), ints(8), floats(8), ints(8)]
    beside = {"masks": TokenMasks(ints(8, mask_words(4096)), ints(1)), "stamps": stamps(), "top": ints(8, 40)}
    step = DecodeStep(*rows, ints(9), *runs, ints(8, ADMITTED_WORDS), ints(16), **beside)

    def launch() -> None:
        with torch.inference_mode():
            model(step, state)

    return Case("decoder", launch)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for build in compile_all([encoder(folder / "encoder"), decoder(folder / "decoder")], TARGETS["90"]):
        print(build.case, build.kernel or "-", build.error.replace("\n", " "))
