"""``DecodeOps`` in plain torch, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastqps.kernels.torch_ops.logit_options import logit_options
from fastqps.kernels.torch_ops.sample import sampled
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.interface import Heads
from reference_ops.ops import ReferenceOps, turned

_QUERIES = 64  # rows whose cache slots are gathered at once


@dataclass(frozen=True)
class Runs:
    """What of a step is no padding, and where padding may write: the last cache slot. int64 but for ``row_used``."""

    slots: torch.Tensor  # [T]: cache slot of each row
    last: torch.Tensor  # [S]: last row of each run; 0 behind the step's runs
    run_slots: torch.Tensor  # [S]
    row_used: torch.Tensor  # bool [T]
    counts: torch.Tensor  # rows, runs, new sequences

    @classmethod
    def of(cls, step: DecodeStep, padding: int) -> Runs:
        counts, device = step.counts, step.starts.device
        if counts is None:
            counts = torch.tensor([step.n_tokens, step.n_runs, len(step.admitted)], device=device)
        row_used = torch.arange(step.n_tokens, device=device) < counts[0]
        run_used = torch.arange(step.n_runs, device=device) < counts[1]
        slots = torch.where(row_used, step.kv_slots, padding).long()
        last = torch.where(run_used, step.starts[1:] - 1, 0).long()
        return cls(slots, last, torch.where(run_used, slots[last], padding), row_used, counts)


class ReferenceDecodeOps(ReferenceOps):
    """Keeps nothing of a sequence: that is in the ``DecodeState``."""

    def embed(self, table: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        padding = len(state.last_token) - 1
        runs = Runs.of(step, padding)
        new = torch.arange(len(step.admitted), device=table.device) < runs.counts[2]
        state.params[torch.where(new, step.admitted[:, 0], padding)] = step.admitted
        ids = torch.where(step.token_ids < 0, state.last_token[runs.slots], step.token_ids)
        state.history[runs.slots, torch.where(runs.row_used, step.positions, 0).long()] = ids.int()
        return table[torch.where(runs.row_used, ids, 0)]

    def attend(
        self,
        qkv: torch.Tensor,
        heads: Heads,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        runs, prefix_len = Runs.of(step, cache.shape[1] - 1), prefix.shape[2]
        rows, keys_end = qkv.float().view(step.n_tokens, -1, heads.head_dim), heads.heads + heads.kv_heads
        q, k, v = rows[:, : heads.heads], rows[:, heads.heads : keys_end], rows[:, keys_end:]
        if heads.q_norm is not None and heads.k_norm is not None:
            q, k = _normed(q, heads.q_norm, heads.eps), _normed(k, heads.k_norm, heads.eps)
        positions = torch.where(runs.row_used, step.positions, prefix_len).long()
        turns, at = heads.rotary[positions][:, None], positions - prefix_len
        q, k = turned(q, turns), turned(k, turns)
        for part, new in zip(cache, (k, v), strict=True):
            part.transpose(1, 2)[runs.slots, at] = new.to(cache.dtype)
        if last_rows:
            q, at, slots = q[runs.last], at[runs.last], runs.run_slots
        else:
            slots = runs.slots
        blocks = [slice(first, first + _QUERIES) for first in range(0, len(q), _QUERIES)]
        return torch.cat([_attended(q[b], at[b], slots[b], cache, prefix) for b in blocks]).to(qkv.dtype)

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return x[Runs.of(step, 0).last]

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        x = logits.float()
        logit_options(
            x,
            step.starts,
            step.kv_slots,
            step.positions,
            step.made,
            state.params,
            state.history,
            state.eos_ids,
            state.rules.table,
            state.rules.ids,
            Runs.of(step, 0).counts,
            n_forced=state.rules.n_forced,
            longest=state.rules.longest,
        )
        return x

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        slots = Runs.of(step, len(state.last_token) - 1).run_slots
        tokens, logprobs, finish = sampled(logits, state.params[slots], step.made, state.eos_ids)
        step.tokens.copy_(tokens)
        step.logprobs.copy_(logprobs)
        step.finish.copy_(finish)
        state.last_token[slots] = tokens.int()


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _attended(
    q: torch.Tensor, at: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor, prefix: torch.Tensor
) -> torch.Tensor:
    """q [rows, heads, size] of positions ``at`` behind the prefix, int64 [rows] → [rows, heads · size]."""
    own_k, own_v = cache[:, slots].float()  # [rows, kv_heads, max_len, size]
    seen = (torch.arange(own_k.shape[2], device=q.device) <= at[:, None])[:, None, :, None]
    own_k, own_v = torch.where(seen, own_k, 0.0), torch.where(seen, own_v, 0.0)  # nobody has written the others yet
    shared_k, shared_v = prefix.float()  # [kv_heads, prefix_len, size]
    q = q.view(len(q), own_k.shape[1], -1, q.shape[2]) / q.shape[2] ** 0.5
    shared = torch.einsum("rkgd,kld->rkgl", q, shared_k)
    own = torch.where(seen.transpose(2, 3), torch.einsum("rkgd,rkld->rkgl", q, own_k), -torch.inf)
    weights = torch.cat((shared, own), -1).softmax(-1)
    shared, own = weights[..., : shared.shape[3]], weights[..., shared.shape[3] :]
    return (torch.einsum("rkgl,kld->rkgd", shared, shared_v) + torch.einsum("rkgl,rkld->rkgd", own, own_v)).flatten(1)
