"""``DecodeOps`` on a GPU."""

from __future__ import annotations

import torch

from fastqps.kernels.layers import Attention, LogitChanges
from fastqps.ops.cuda.ops import CudaOps
from fastqps.ops.decode_step import DecodeState, DecodeStep


class CudaDecodeOps(CudaOps):
    """Keeps nothing of a sequence: that is in the ``DecodeState``."""

    def embed(
        self,
        table: torch.Tensor,
        step: DecodeStep,
        state: DecodeState,
        places: torch.Tensor | None = None,
        scale: float = 1.0,
    ) -> torch.Tensor:
        return self._kernels.embed_tokens(
            table,
            step.token_ids,
            step.kv_slots,
            state.last_token,
            counts_of(step),
            admitted=step.admitted,
            params=state.params,
            positions=step.positions,
            history=state.history,
            places=places,
            scale=scale,
            stamps=step.stamps,
        )

    def attend(
        self,
        qkv: torch.Tensor,
        attention: Attention,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        a, where, run = attention, (step.positions, step.kv_slots, counts_of(step)), self._kernels
        queries = run.rope_kv(qkv, cache, a, *where, prefix_len=prefix.shape[2])
        return run.slot_attention(
            queries,
            cache,
            prefix,
            step.starts,
            *where,
            last_rows=last_rows,
            window=a.window or None,
            cap=a.cap or None,
        )

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return self._kernels.last_rows(x, step.starts, counts_of(step))

    def cap(self, logits: torch.Tensor, cap: float) -> torch.Tensor:
        return (logits.float() / cap).tanh_().mul_(cap).to(logits.dtype)

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """The first part of ``sample``, in the place of ``logits``."""
        rules = state.rules
        changes = LogitChanges(
            step.starts,
            step.kv_slots,
            step.positions,
            step.made,
            state.params,
            state.biases,
            state.history,
            state.eos_ids,
            rules.table,
            rules.ids,
            counts_of(step),
            rules.n_forced,
            rules.longest,
            targets_of(step),
            step.masks.rows if step.masks else None,
        )
        self._kernels.logit_options(logits, changes)
        return logits

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        self._kernels.sample(
            self.change_logits(logits, step, state),
            step.starts,
            step.kv_slots,
            step.made,
            state.params,
            state.eos_ids,
            counts_of(step),
            tokens=step.tokens,
            logprobs=step.logprobs,
            finish=step.finish,
            last_token=state.last_token,
            top=step.top,
            targets=targets_of(step),
            stamps=step.stamps,
        )


def counts_of(step: DecodeStep) -> torch.Tensor:
    assert step.counts is not None, "a GPU's step has its counts"
    return step.counts


def targets_of(step: DecodeStep) -> torch.Tensor | None:
    return step.targets.rows if step.targets else None
