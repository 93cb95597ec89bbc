"""What the decoder's kernels have to compute, in plain torch: the reference for each device's own."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from fastqps import _core
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.decode_step import DecodeState, DecodeStep
from fastqps.ops.interface import Heads

MASK32 = 0xFFFFFFFF


class PlainDecodeOps(CpuOps):
    """``DecodeOps`` in torch, run by run."""

    def embed(self, table: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        state.params[step.admitted[:, 0].long()] = step.admitted
        ids, slots = step.token_ids.long(), step.kv_slots.long().clamp(max=len(state.last_token) - 1)
        ids = torch.where(ids < 0, state.last_token[slots].long(), ids)
        state.history[slots, step.positions.long()] = ids.int()
        return table[ids]

    def attend(
        self,
        qkv: torch.Tensor,
        heads: Heads,
        cache: torch.Tensor,
        prefix: torch.Tensor,
        step: DecodeStep,
        last_rows: bool,
    ) -> torch.Tensor:
        rows, group = qkv.view(step.n_tokens, -1, heads.head_dim).float(), heads.heads // heads.kv_heads
        prefix_len = prefix.shape[2]
        q, k, v = rows.split([heads.heads, heads.kv_heads, heads.kv_heads], 1)
        if heads.q_norm is not None and heads.k_norm is not None:
            q, k = _rms_norm(q, heads.q_norm, heads.eps), _rms_norm(k, heads.k_norm, heads.eps)
        turns = heads.rotary[step.positions.long()]
        q, k = _turn(q, turns), _turn(k, turns)
        outputs = []
        for first, end in zip(step.starts[:-1].tolist(), step.starts[1:].tolist(), strict=True):
            slot, at = int(step.kv_slots[first]), int(step.positions[first]) - prefix_len
            own = slice(at, at + end - first)
            cache[0, slot, :, own], cache[1, slot, :, own] = (t[first:end].transpose(0, 1).to(cache) for t in (k, v))
            seen = [
                torch.cat([shared, part[slot, :, : own.stop]], 1).float().repeat_interleave(group, 0)
                for shared, part in zip(prefix, cache, strict=True)
            ]
            query = q[first:end].transpose(0, 1)
            mask = torch.ones(end - first, seen[0].shape[1]).tril(prefix_len + at).bool()
            found = F.scaled_dot_product_attention(query, *seen, attn_mask=mask)
            found = found.transpose(0, 1).reshape(end - first, -1)
            outputs.append(found[-1:] if last_rows else found)
        return torch.cat(outputs).to(qkv.dtype)

    def last_rows(self, x: torch.Tensor, step: DecodeStep) -> torch.Tensor:
        return x[step.starts[1:].long() - 1]

    def change_logits(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> torch.Tensor:
        changed = logits.float().clone()
        for run, row in enumerate(changed):
            last = int(step.starts[run + 1]) - 1
            slot = int(step.kv_slots[last])
            tokens = state.history[slot, : int(step.positions[last]) + 1].tolist()
            constrain(row, tokens, int(step.made[run]), state.params[slot], state)
        return changed

    def sample(self, logits: torch.Tensor, step: DecodeStep, state: DecodeState) -> None:
        for run, row in enumerate(logits.float()):
            slot = int(step.kv_slots[step.starts[run + 1] - 1])
            params, made = state.params[slot], int(step.made[run])
            token = choose(row, params, made)
            seen = set(params[8:16].tolist()) | (set() if int(params[7]) & 1 else set(state.eos_ids.tolist()))
            step.tokens[run] = token
            step.logprobs[run] = row.log_softmax(-1)[token] if int(params[7]) & 2 else 0.0
            step.finish[run] = 1 if token in seen else 2 if made + 1 >= int(params[6]) else 0
            state.last_token[slot] = token


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _turn(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """x [T, heads, head_dim], turns [T, 2, head_dim / 2]: the two halves of each head are a pair."""
    cos, sin = turns[:, None, 0], turns[:, None, 1]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def constrain(x: torch.Tensor, tokens: list[int], made: int, params: torch.Tensor, state: DecodeState) -> None:
    """Changes float32 [vocabulary], of a sequence with these ``tokens``, as its options and the rules say."""
    own = int(params[_core.PARAM_FLAGS]) & _core.PARAM_LOGIT_OPTIONS
    rules = state.rules.table.tolist()
    forced = [token for kind, token, _, _ in rules if kind == _core.RULE_FORCED]
    forced = forced if made + 1 == int(params[_core.PARAM_MAX_TOKENS]) else []
    if not own and not rules:
        return
    never: set[int] = set()
    if forced:
        x[:] = -torch.inf
        x[forced] = 0.0
    elif own:
        penalty = params[_core.PARAM_REPETITION_PENALTY].view(torch.float32)
        for token in set(tokens):
            x[token] = x[token] * penalty if x[token] < 0 else x[token] / penalty
        if n := int(params[_core.PARAM_NO_REPEAT_NGRAM_SIZE]):
            runs = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
            never |= {run[-1] for run in runs if run[:-1] == tokens[len(tokens) - n + 1 :]}
        if made < int(params[_core.PARAM_MIN_TOKENS]):
            never |= set(state.eos_ids.tolist())
    for kind, token, before, begin in rules:
        want = state.rules.ids[begin : begin + before].tolist()
        follows = not forced and tokens[len(tokens) - before :] == want
        if follows if kind == _core.RULE_FORBIDDEN else kind == _core.RULE_NOT_FIRST and made == 0:
            never.add(token)
    if own:
        never |= set(params[_core.PARAM_SUPPRESS_IDS :].tolist())
    x[[token for token in never if 0 <= token < len(x)]] = -torch.inf
    if bool((x == -torch.inf).all()):
        x[0] = 0.0


def choose(logits: torch.Tensor, params: torch.Tensor, made: int) -> int:
    """The token that a sequence with ``params`` draws from float32 [vocabulary] as its ``made``-th."""
    temperature, top_p = params[3:5].view(torch.float32).tolist()
    top_k = int(params[5])
    if temperature == 0:
        return int(logits.argmax())
    scaled, ids = logits.double() / temperature, torch.arange(len(logits))
    if top_k or top_p < 1:
        ids = scaled.sort(descending=True, stable=True).indices[: top_k or len(ids)]
    cumulative = scaled[ids].softmax(-1).cumsum(-1)
    kept = int((cumulative < top_p).sum()) + 1 if top_p < 1 else len(ids)
    cumulative = cumulative[:kept]
    seed = (int(params[1]) & MASK32) | (int(params[2]) & MASK32) << 32
    uniform = (philox(seed, made) >> 8) * 2.0**-24
    return int(ids[min(int((cumulative <= uniform * cumulative[-1]).sum()), len(cumulative) - 1)])


def philox(seed: int, counter: int) -> int:
    """The first word of Philox4x32-10 with key ``seed`` and counter (counter, 0, 0, 0). Salmon et al., SC 2011."""
    x, key = [counter & MASK32, 0, 0, 0], [seed & MASK32, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ key[0], b & MASK32, (a >> 32) ^ x[3] ^ key[1], a & MASK32]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return x[0]
