"""``DecodeOps`` on the CPU: the kernels of csrc/step/cpu/cpu_decode.h."""

from __future__ import annotations

import torch

from fastqps.kernels.layers import Attention
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.cpu.rows import is_bf16
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.step import address


class CpuDecodeOps(CpuOps):
    """Keeps nothing of a sequence: that is in the ``DecodeState``."""

    def embed(
        self,
        table: torch.Tensor,
        step: DecodeStep,
        state: DecodeState,
        places: torch.Tensor | None = None,
        scale: float = 1.0,
    ) -> torch.Tensor:
        tape, n_tokens = self.tape, self.tape.tokens(step.token_ids)
        if step.copies:
            layers, parts, n_slots, kv_heads, max_len, head_dim = state.cache.shape
            tape.program.copy_slots(
                address(state.cache),
                is_bf16(state.cache),
                copies=address(step.copies.rows),
                n_copies=address(step.copies.n),
                planes=layers * parts,
                n_slots=n_slots,
                kv_heads=kv_heads,
                max_len=max_len,
                head_dim=head_dim,
                history=address(state.history),
                history_len=state.history.shape[1],
                prefix_len=state.prefix_len,
            )
        tape.program.admit(address(state.params), address(step.admitted), tape.admitted(step.admitted))
        out = tape.empty(n_tokens, step.n_tokens, table.shape[1], table.dtype)
        tape.program.embed_tokens(
            address(out),
            is_bf16(table),
            n_tokens,
            ids=address(step.token_ids),
            kv_slots=address(step.kv_slots),
            last_token=address(state.last_token),
            table=address(table),
            n_rows=table.shape[0],
            width=table.shape[1],
            positions=address(step.positions),
            history=address(state.history),
            history_len=state.history.shape[1],
            places=address(places),
            n_places=0 if places is None else len(places),
            scale=scale,
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
        tape, n_runs = self.tape, self.tape.items(step.starts)
        out = (
            tape.empty(n_runs, step.n_runs, a.heads * size, qkv.dtype)
            if last_rows
            else tape.beside(qkv, a.heads * size)
        )
        tape.program.attend_slots(
            address(out),
            address(qkv),
            address(cache),
            is_bf16(qkv),
            a.heads,
            a.kv_heads,
            size,
            starts=address(step.starts),
            n_runs=n_runs,
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
            window=a.window,
            cap=a.cap,
        )
        return out

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return self.pick(x, "lasttoken", step.starts)

    def cap(self, logits: torch.Tensor, cap: float) -> torch.Tensor:
        tape = self.tape
        tape.program.cap(address(logits), is_bf16(logits), tape.count(logits), logits.shape[1], cap)
        return logits

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        """→ float32 [S, vocabulary]: the rows that options or ``state.rules`` change, in place of float32 ``logits``.

        In bfloat16 a small penalty would be lost.
        """
        tape, rules, vocab = self.tape, state.rules, logits.shape[1]
        changed = tape.beside(logits, vocab, torch.float32) if is_bf16(logits) else logits
        tape.program.change_logits(
            out=address(changed),
            logits=address(logits),
            bfloat16=is_bf16(logits),
            n_runs=tape.items(step.starts),
            vocab=vocab,
            starts=address(step.starts),
            kv_slots=address(step.kv_slots),
            positions=address(step.positions),
            made=address(step.made),
            params=address(state.params),
            biases=address(state.biases),
            history=address(state.history),
            history_len=state.history.shape[1],
            eos_ids=address(state.eos_ids),
            n_eos=len(state.eos_ids),
            rules=address(rules.table),
            rule_ids=address(rules.ids),
            n_rules=len(rules.table),
            n_forced=rules.n_forced,
            masks=address(step.masks.rows if step.masks else None),
            mask_words=step.masks.rows.shape[1] if step.masks else 0,
            masks_state=address(step.masks.state if step.masks else None),
            targets=address(step.targets.rows if step.targets else None),
            targets_there=address(step.targets.there if step.targets else None),
        )
        return changed

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        changed = self.change_logits(logits, step, state)
        self.tape.program.sample(
            tokens=address(step.tokens),
            logprobs=address(step.logprobs),
            finish=address(step.finish),
            last_token=address(state.last_token),
            logits=address(logits),
            bfloat16=is_bf16(logits),
            n_runs=self.tape.items(step.starts),
            vocab=logits.shape[1],
            starts=address(step.starts),
            kv_slots=address(step.kv_slots),
            made=address(step.made),
            params=address(state.params),
            eos_ids=address(state.eos_ids),
            n_eos=len(state.eos_ids),
            changed=address(changed),
            all_changed=len(state.rules.table) > 0,
            top=address(step.top),
            targets=address(step.targets.rows if step.targets else None),
            targets_there=address(step.targets.there if step.targets else None),
        )
