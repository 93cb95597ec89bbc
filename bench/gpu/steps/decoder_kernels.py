"""The kernels of a decoder's step: half of its rows are prompts of 50, half go on with one token at place 75."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu.models.shapes import Shape
from bench.gpu.stand import Stand
from bench.gpu.steps.encoder_kernels import rows, tokens_on
from bench.gpu.steps.kernels import Make, Timed
from fastqps._core import (
    ADMITTED_WORDS,
    PARAM_FLAGS,
    PARAM_LOGIT_OPTIONS,
    PARAM_NO_REPEAT_NGRAM_SIZE,
    PARAM_REPETITION_PENALTY,
    RULE_WORDS,
)
from fastqps.kernels.activate import activate
from fastqps.kernels.add_norm import add_norm
from fastqps.kernels.embed_tokens import embed_tokens
from fastqps.kernels.logit_options import logit_options
from fastqps.kernels.quantise_rows import quantise_rows
from fastqps.kernels.rope_kv import rope_kv
from fastqps.kernels.sampling.sample import sample
from fastqps.kernels.slot_attention import slot_attention

PROMPT, PLACE, MAX_LEN = 50, 75, 128


class _Step:
    """One packed step over one layer's cache, all on the device."""

    def __init__(self, stand: Stand, shape: Shape) -> None:
        prompts = 20 if stand.cuda else 1
        singles = prompts * PROMPT if stand.cuda else 3
        lengths = [PROMPT] * prompts + [1] * singles
        places = [*range(PROMPT)] * prompts + [PLACE] * singles
        self.runs, self.rows = len(lengths), len(places)
        whole: dict[str, Any] = {"dtype": torch.int32, "device": stand.device}
        self.starts = torch.tensor([0, *lengths], **whole).cumsum(0, dtype=torch.int32)
        self.positions = torch.tensor(places, **whole)
        self.kv_slots = torch.repeat_interleave(torch.arange(self.runs, **whole), torch.tensor(lengths, **whole))
        self.counts = torch.tensor([self.rows, self.runs, prompts], **whole)
        self.ids = torch.randint(0, shape.vocab, (self.rows,), **whole)
        self.per_run = torch.zeros(self.runs + 1, **whole)  # last tokens, lengths: whatever is kept for each
        self.params = torch.zeros(self.runs + 1, ADMITTED_WORDS, **whole)
        self.heads = int(shape.sizes["num_attention_heads"])
        size, kv_heads = shape.head_dim, shape.kv_heads
        self.qkv = rows(stand, self.rows, (self.heads + 2 * kv_heads) * size)
        self.cache = rows(stand, 2 * (self.runs + 1) * kv_heads * MAX_LEN, size).view(2, -1, kv_heads, MAX_LEN, size)
        self.rotary = torch.rand(MAX_LEN, 2, size // 2, device=stand.device)
        self.seen = prompts * PROMPT + singles * (PLACE + 1)  # places of the cache that are read at least
        self.seen_by_rows = prompts * PROMPT * (PROMPT + 1) / 2 + singles * (PLACE + 1)


def _norm(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x, residual = (rows(stand, tokens_on(stand), shape.hidden) for _ in range(2))
    weight = torch.ones(shape.hidden, device=stand.device)

    def work(fp8: bool = False) -> object:
        return add_norm(
            x, weight, None, 1e-6, "rms", residual=residual, want_sum=True, want_values=not fp8, want_fp8=fp8
        )

    yield Timed(f"add_norm of {len(x)} rows", work, 4.0 * x.nbytes)
    if stand.cuda:
        yield Timed(f"add_norm of {len(x)} rows, to FP8", lambda: work(True), 3.5 * x.nbytes)
        yield Timed(f"quantise_rows of {len(x)} rows", lambda: quantise_rows(x), 1.5 * x.nbytes)


def _activate(stand: Stand, shape: Shape) -> Iterator[Timed]:
    x = rows(stand, tokens_on(stand), 2 * int(shape.sizes["intermediate_size"]))

    def work(fp8: bool = False) -> object:
        return activate(x, "silu", gated=True, fp8=fp8)

    yield Timed(f"activate of {len(x)} rows, silu, gated", work, 1.5 * x.nbytes)
    if stand.cuda:
        yield Timed(f"activate of {len(x)} rows, silu, gated, to FP8", lambda: work(True), 1.25 * x.nbytes)


def _embed(stand: Stand, shape: Shape) -> Iterator[Timed]:
    step, table = _Step(stand, shape), rows(stand, shape.vocab, shape.hidden)

    def work() -> object:
        return embed_tokens(table, step.ids, step.kv_slots, step.per_run, step.counts)

    yield Timed(f"embed_tokens of {step.rows} rows", work, 2.0 * step.rows * shape.hidden * table.element_size())


def _keep(stand: Stand, shape: Shape) -> Iterator[Timed]:
    step = _Step(stand, shape)

    def work() -> object:
        return rope_kv(
            step.qkv, step.cache, step.rotary, None, None, 1e-6, step.positions, step.kv_slots, step.counts,
            prefix_len=0,
        )  # fmt: skip

    yield Timed(f"rope_kv of {step.rows} rows", work, 2.0 * step.qkv.nbytes)


def _attend(stand: Stand, shape: Shape) -> Iterator[Timed]:
    step = _Step(stand, shape)
    prefix = step.cache.new_empty(2, shape.kv_heads, 0, shape.head_dim)
    queries = rows(stand, step.rows, step.heads * shape.head_dim)

    def work() -> object:
        return slot_attention(
            queries, step.cache, prefix, step.starts, step.positions, step.kv_slots, step.counts, last_rows=False
        )

    per_place = 2 * shape.kv_heads * shape.head_dim * step.qkv.element_size()
    flops = 4.0 * step.heads * shape.head_dim * step.seen_by_rows
    name = f"slot_attention of {step.rows} rows in {step.runs} runs"
    yield Timed(name, work, float(step.seen * per_place + 2 * queries.nbytes), flops)


def _sample(stand: Stand, shape: Shape) -> Iterator[Timed]:
    step = _Step(stand, shape)
    logits = rows(stand, step.runs, shape.vocab)
    eos = torch.zeros(1, dtype=torch.int32, device=stand.device)
    made = [torch.zeros_like(step.per_run[:-1]) for _ in range(3)]
    logprobs = torch.zeros(step.runs, device=stand.device)

    def draw(params: torch.Tensor) -> None:
        sample(
            logits, step.starts, step.kv_slots, made[0], params, eos, step.counts,
            tokens=made[1], logprobs=logprobs, finish=made[2], last_token=step.per_run,
        )  # fmt: skip

    yield Timed(f"sample of {step.runs} runs, greedy", lambda: draw(step.params), float(logits.nbytes))
    for name, top_p in (("from all", 1.0), ("top_p 0.9", 0.9)):
        params = step.params.clone()
        params[:, 3:5] = torch.tensor([1.0, top_p]).view(torch.int32).to(stand.device)  # temperature, top_p
        yield Timed(f"sample of {step.runs} runs, {name}", partial(draw, params), float(logits.nbytes))


def _change(stand: Stand, shape: Shape) -> Iterator[Timed]:
    step = _Step(stand, shape)
    logits = rows(stand, step.runs, shape.vocab)
    history = torch.randint(0, shape.vocab, (step.runs + 1, MAX_LEN), dtype=torch.int32, device=stand.device)
    none = torch.zeros(0, dtype=torch.int32, device=stand.device)
    asking = step.params.clone()
    asking[:, PARAM_FLAGS] = PARAM_LOGIT_OPTIONS
    asking[:, PARAM_REPETITION_PENALTY] = int(torch.tensor(1.0001).view(torch.int32))
    asking[:, PARAM_NO_REPEAT_NGRAM_SIZE] = 3

    def work(params: torch.Tensor) -> None:
        logit_options(
            logits, step.starts, step.kv_slots, step.positions, step.per_run[:-1], params, history, none,
            none.view(0, RULE_WORDS), none, step.counts, n_forced=0, longest=0,
        )  # fmt: skip

    yield Timed(f"logit_options of {step.runs} runs without any", partial(work, step.params), 8.0 * step.runs)
    moved = float(step.seen * (2 * 4 + 4 * logits.element_size()))
    yield Timed(f"logit_options of {step.runs} runs, penalty and n-grams", partial(work, asking), moved)


KERNELS: dict[str, Make] = {
    "add_norm": _norm,
    "activate": _activate,
    "embed_tokens": _embed,
    "rope_kv": _keep,
    "slot_attention": _attend,
    "logit_options": _change,
    "sample": _sample,
}
