"""One sequence's sampling parameters, by the words of csrc/step/decode/decode_layout.h."""

from __future__ import annotations

import triton
import triton.language as tl

from fastqps import _core

RECORD = tl.constexpr(_core.ADMITTED_WORDS)
FLAGS = tl.constexpr(_core.PARAM_FLAGS)
IGNORE_EOS = tl.constexpr(_core.PARAM_IGNORE_EOS)
LOGPROBS = tl.constexpr(_core.PARAM_LOGPROBS)
SEED = tl.constexpr(_core.PARAM_WORDS["seed"])
TEMPERATURE = tl.constexpr(_core.PARAM_WORDS["temperature"])
TOP_P = tl.constexpr(_core.PARAM_WORDS["top_p"])
TOP_K = tl.constexpr(_core.PARAM_WORDS["top_k"])
MIN_P = tl.constexpr(_core.PARAM_WORDS["min_p"])
TYPICAL_P = tl.constexpr(_core.PARAM_WORDS["typical_p"])
MAX_TOKENS = tl.constexpr(_core.PARAM_WORDS["max_tokens"])
STOP_IDS = tl.constexpr(_core.PARAM_WORDS["stop_token_ids"])
TOP_LOGPROBS = tl.constexpr(_core.PARAM_WORDS["top_logprobs"])
TOP_MAX = tl.constexpr(_core.TOP_LOGPROBS_MAX)
HEADER_TARGETS = tl.constexpr(_core.HEADER_TARGETS)
TARGET_WORDS = tl.constexpr(_core.TARGET_WORDS)
IDS_MAX = tl.constexpr(_core.IDS_MAX)
CANDIDATES = tl.constexpr(_core.TOP_K_MAX)  # the likeliest, sorted


@triton.jit
def targets_of(targets, counts, run):
    """How many targets the run has; none without ``targets`` [S, TARGET_WORDS]."""
    n = 0
    if targets is not None:
        if tl.load(counts + HEADER_TARGETS) != 0:
            n = tl.load(targets + run * TARGET_WORDS)
    return n


@triton.jit
def draws_from_all(record):
    """Whether the sequence's tokens are drawn from the whole vocabulary."""
    temperature = tl.load(record + TEMPERATURE).to(tl.float32, bitcast=True)
    top_p = tl.load(record + TOP_P).to(tl.float32, bitcast=True)
    min_p = tl.load(record + MIN_P).to(tl.float32, bitcast=True)
    typical_p = tl.load(record + TYPICAL_P).to(tl.float32, bitcast=True)
    unlimited = (top_p >= 1.0) & (tl.load(record + TOP_K) == 0) & (min_p == 0.0) & (typical_p >= 1.0)
    return (temperature > 0.0) & unlimited


@triton.jit
def needs_whole(record):
    """Whether a draw needs the likelihood of the whole vocabulary."""
    temperature = tl.load(record + TEMPERATURE).to(tl.float32, bitcast=True)
    return (temperature > 0.0) & (tl.load(record + TOP_K) == 0)


@triton.jit
def floor_of(record, top, temperature):
    """float64: the logit from which on a token's likelihood is at least min_p; ``top`` is the largest one."""
    min_p = tl.load(record + MIN_P).to(tl.float32, bitcast=True).to(tl.float64)
    floor = top.to(tl.float64) + temperature.to(tl.float64) * tl.log(tl.where(min_p > 0.0, min_p, 1.0))
    return tl.where(min_p > 0.0, floor, float("-inf"))


@triton.jit
def rate_of(temperature):
    """The factor that turns logits into exponents of two. It is finite at any temperature."""
    return tl.minimum(1.4426950408889634 / temperature, 1e38)


@triton.jit
def likelihood(x, top, rate):
    """2^((x - top) · rate) of ``x`` ≤ ``top``; nothing for what is not a number."""
    z = (x - top) * rate
    return tl.where(z == z, tl.exp2(z), 0.0)
