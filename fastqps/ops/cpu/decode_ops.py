"""``DecodeOps`` on the CPU: the kernels of csrc/step/cpu/cpu_decode.h."""

from __future__ import annotations

import torch

from fastqps import _core
from fastqps.kernels.layers import Attention
from fastqps.ops.cpu.linear import is_bf16
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.step import address


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
        attention: Attention,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        a, size = attention, attention.size(qkv)
        out = qkv.new_empty(step.n_runs if last_rows else step.n_tokens, a.heads * size)
        _core.attend_slots(
            address(out),
            address(qkv),
            address(cache),
            is_bf16(qkv),
            a.heads,
            a.kv_heads,
            size,
            starts=address(step.starts),
            n_runs=step.n_runs,
            positions=address(step.positions),
            kv_slots=address(step.kv_slots),
            n_slots=cache.shape[1],
            max_len=cache.shape[3],
            scale=size**-0.5,
            prefix=address(prefix),
            prefix_len=prefix.shape[2],
            rotary=address(a.rotary),
            q_norm=address(a.q_norm),
            k_norm=address(a.k_norm),
            eps=a.eps,
            last_rows_only=last_rows,
            threads=torch.get_num_threads(),
        )
        return out

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return x[step.starts[1:] - 1] if step.n_runs < step.n_tokens else x

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        rules, runs = state.rules, (address(step.starts), address(step.kv_slots), step.n_runs, address(state.params))
        if not len(rules.table) and not _core.any_logit_options(*runs):
            return logits
        x = logits.float()  # also of bfloat16, in which a small penalty would be lost
        _core.change_logits(
            logits=address(x),
            n_runs=step.n_runs,
            vocab=x.shape[1],
            starts=address(step.starts),
            kv_slots=address(step.kv_slots),
            positions=address(step.positions),
            made=address(step.made),
            params=address(state.params),
            history=address(state.history),
            history_len=state.history.shape[1],
            eos_ids=address(state.eos_ids),
            n_eos=len(state.eos_ids),
            rules=address(rules.table),
            rule_ids=address(rules.ids),
            n_rules=len(rules.table),
            n_forced=rules.n_forced,
            threads=torch.get_num_threads(),
        )
        return x

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        _core.sample(
            tokens=address(step.tokens),
            logprobs=address(step.logprobs),
            finish=address(step.finish),
            last_token=address(state.last_token),
            logits=address(logits),
            bfloat16=is_bf16(logits),
            n_runs=step.n_runs,
            vocab=logits.shape[1],
            starts=address(step.starts),
            kv_slots=address(step.kv_slots),
            made=address(step.made),
            params=address(state.params),
            eos_ids=address(state.eos_ids),
            n_eos=len(state.eos_ids),
            threads=torch.get_num_threads(),
        )
