"""``DecodeOps`` on the CPU: the kernels of csrc/step/cpu/cpu_decode.h, the long ones spread over threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch

from fastqps import _core
from fastqps.ops.cpu.ops import CpuOps, is_bf16, threads
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.interface import Heads
from fastqps.ops.step import address

_RUNS_PER_THREAD_MIN = 24  # below that, handing work to a thread costs more than it saves
_ROWS_OF_A_RUN = 5  # rows of a prompt that take about as long as a running sequence's: they share its keys


class CpuDecodeOps(CpuOps):
    """Keeps nothing of a sequence: that is in the ``DecodeState``."""

    def embed(self, table: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        _core.admit(address(state.params), address(step.admitted), len(step.admitted))
        out = table.new_empty(step.n_tokens, table.shape[1])
        _core.embed_tokens(
            address(out),
            is_bf16(table),
            step.n_tokens,
            ids=address(step.token_ids),
            kv_slots=address(step.kv_slots),
            last_token=address(state.last_token),
            table=address(table),
            n_rows=table.shape[0],
            width=table.shape[1],
            positions=address(step.positions),
            history=address(state.history),
            history_len=state.history.shape[1],
        )
        return out

    def attend(
        self,
        qkv: torch.Tensor,
        heads: Heads,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        width = heads.heads * heads.head_dim
        out = qkv.new_empty(step.n_runs if last_rows else step.n_tokens, width)
        starts, run_bytes = address(step.starts), width * out.element_size() if last_rows else 0

        def run(first: int, last: int) -> None:
            _core.attend_slots(
                address(out) + first * run_bytes,
                address(qkv),
                address(cache),
                is_bf16(qkv),
                heads.heads,
                heads.kv_heads,
                heads.head_dim,
                starts=starts + 4 * first,
                n_runs=last - first,
                positions=address(step.positions),
                kv_slots=address(step.kv_slots),
                n_slots=cache.shape[1],
                max_len=cache.shape[3],
                scale=heads.head_dim**-0.5,
                prefix=address(prefix),
                prefix_len=prefix.shape[2],
                rotary=address(heads.rotary),
                q_norm=address(heads.q_norm),
                k_norm=address(heads.k_norm),
                eps=heads.eps,
                last_rows_only=last_rows,
            )

        _spread(run, step)
        return out

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return x[step.starts[1:] - 1] if step.n_runs < step.n_tokens else x

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        rules, runs = state.rules, (address(step.starts), address(step.kv_slots), step.n_runs, address(state.params))
        if not len(rules.table) and not _core.any_logit_options(*runs):
            return logits
        x = logits.float()  # also of bfloat16, in which a small penalty would be lost

        def run(first: int, last: int) -> None:
            _core.change_logits(
                logits=address(x) + 4 * x.shape[1] * first,
                n_runs=last - first,
                vocab=x.shape[1],
                starts=address(step.starts) + 4 * first,
                kv_slots=address(step.kv_slots),
                positions=address(step.positions),
                made=address(step.made) + 4 * first,
                params=address(state.params),
                history=address(state.history),
                history_len=state.history.shape[1],
                eos_ids=address(state.eos_ids),
                n_eos=len(state.eos_ids),
                rules=address(rules.table),
                rule_ids=address(rules.ids),
                n_rules=len(rules.table),
                n_forced=rules.n_forced,
            )

        _spread(run, step)
        return x

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        vocab, row_bytes = logits.shape[1], logits.shape[1] * logits.element_size()

        def run(first: int, last: int) -> None:
            _core.sample(
                tokens=address(step.tokens) + 4 * first,
                logprobs=address(step.logprobs) + 4 * first,
                finish=address(step.finish) + 4 * first,
                last_token=address(state.last_token),
                logits=address(logits) + row_bytes * first,
                bfloat16=is_bf16(logits),
                n_runs=last - first,
                vocab=vocab,
                starts=address(step.starts) + 4 * first,
                kv_slots=address(step.kv_slots),
                made=address(step.made) + 4 * first,
                params=address(state.params),
                eos_ids=address(state.eos_ids),
                n_eos=len(state.eos_ids),
            )

        _spread(run, step)


def _spread(run: Callable[[int, int], None], step: DecodeStep) -> None:
    """``run(first, last)`` for ranges of the step's runs that take about as long each, on as many threads."""
    count = min(torch.get_num_threads(), (step.n_runs + step.n_tokens // _ROWS_OF_A_RUN) // _RUNS_PER_THREAD_MIN)
    if count < 2:
        run(0, step.n_runs)
        return
    own, *others = _shares(step, count)
    jobs = [threads(count - 1).submit(run, *share) for share in others]
    run(*own)
    for job in jobs:
        job.result()


def _shares(step: DecodeStep, count: int) -> Iterator[tuple[int, int]]:
    """(first run, end) of each range."""
    costs = step.starts + _ROWS_OF_A_RUN * torch.arange(step.n_runs + 1)
    marks = torch.arange(1, count) * (int(costs[-1]) / count)
    cuts = [0, *torch.searchsorted(costs, marks).tolist(), step.n_runs]
    for first, last in pairwise(cuts):
        if last > first:
            yield first, last
