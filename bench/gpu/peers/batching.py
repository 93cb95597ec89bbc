"""transformers' continuous batching in this process: prompts to tokens, as fast as it can with what is installed.

Fair-peer rules: the model's type is ours, answers are greedy and end at their limit, blocks of short prompts are not
shared, the cache holds all that run twice, asynchronous steps and CUDA graphs are asked for by name.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig
from transformers.utils import is_flash_attn_2_available

from bench.gpu.peers.varlen import plain_kernel, torch_kernel, use_sdpa, use_varlen
from fastqps.bench.results.result import BenchError

ASYNCHRONOUS = {"use_async_batching": True, "use_cuda_graph": True}
PLAIN = {"use_async_batching": False, "use_cuda_graph": False}
PATIENCE_S = 20.0  # for one answer more
TIE = 2.0**-4  # of the larger logit: what roundings to bf16 in all layers may turn. A wrong mask is off by all of it
Ids = list[list[int]]
Answers = list[list[int]]


class Batching:
    """One model, opened with different settings. ``running`` prompts at a time, ``limit`` tokens for each."""

    def __init__(self, path: Path, device: torch.device, dtype: torch.dtype, running: int, limit: int) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
        self._model = model.to(device).eval()
        self.running, self._limit, self._cuda = running, limit, device.type == "cuda"
        self.attention = "sdpa"

    def attend(self) -> None:
        """Takes attention of variable length: flash-attn's where it is installed, else torch's own; on a CPU a loop.

        ``ImportError`` where there is none.
        """
        if self._cuda and is_flash_attn_2_available():
            self.attention = "flash_attention_2"
            self._model.set_attn_implementation(self.attention)
        else:
            self.attention = "torch's varlen_attn" if self._cuda else "a loop over sequences"
            use_varlen(self._model, torch_kernel() if self._cuda else plain_kernel)

    def attend_plainly(self) -> None:
        """Takes torch's attention under a mask."""
        self.attention = "sdpa"
        use_sdpa(self._model)

    @contextmanager
    def open(self, variant: Mapping[str, Any], running: int = 0) -> Iterator[Session]:
        """It serves until the end. ``BenchError`` where the installed transformers does not know a setting."""
        wanted, config = _config(variant, running or self.running, self._cuda)
        generation = GenerationConfig(max_new_tokens=self._limit, do_sample=False, eos_token_id=-1, pad_token_id=0)
        try:
            with self._model.continuous_batching_context_manager(
                generation_config=generation, continuous_batching_config=config
            ) as manager:
                taken = str(getattr(manager, "continuous_batching_config", config))
                facts = {"asked": wanted, "taken": taken, "attention": self.attention}
                yield Session(manager, self._limit, facts | {"transformers": transformers.__version__})
        finally:
            gc.collect()  # graphs and caches
            if self._cuda:
                torch.cuda.empty_cache()

    @torch.no_grad()
    def part(self, prompt: list[int], one: list[int], other: list[int]) -> str:
        """Where two answers to a prompt part; "" where they do not, or do so at a tie.

        At a tie, the logits of both tokens differ by no more than roundings, in one pass without a cache.
        """
        at = next((at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
        if at is None:
            return ""
        ids = torch.tensor([prompt + one[:at]], device=self._model.device)
        config = self._model.config
        before, config._attn_implementation = config._attn_implementation, "sdpa"  # the other needs a paged cache
        try:
            logits = self._model(input_ids=ids, use_cache=False).logits[0, -1].float()
        finally:
            config._attn_implementation = before
        a, b = float(logits[one[at]]), float(logits[other[at]])
        tie = abs(a - b) <= TIE * max(abs(a), abs(b))
        return "" if tie else f"token {at}: {one[at]} (logit {a:.3f}) or {other[at]} ({b:.3f})"


class Session:
    """It serves. ``config``: the settings as they were asked for and as they were taken, and the attention."""

    def __init__(self, manager: Any, limit: int, config: dict[str, Any]) -> None:
        self._manager, self._limit, self.config = manager, limit, config

    def rate(self, prompts: Ids) -> float:
        """Prompts per second, from the first one's arrival to the last one's answer."""
        began = time.perf_counter()
        self.answers(prompts)
        return len(prompts) / (time.perf_counter() - began)

    def answers(self, prompts: Ids) -> Answers:
        """The answers in the prompts' order. ``BenchError`` where one is missing or short."""
        names = self._manager.add_requests(inputs=prompts, max_new_tokens=self._limit)
        answers: dict[str, list[int]] = {}
        while len(answers) < len(prompts):
            result = self._manager.get_result(timeout=PATIENCE_S)
            if result is None or result.error:
                raise BenchError(f"transformers: {result.error if result else f'no answer for {PATIENCE_S:g} s'}")
            if result.is_finished():
                answers[result.request_id] = list(result.generated_tokens)
        if short := [len(tokens) for tokens in answers.values() if len(tokens) != self._limit]:
            raise BenchError(f"transformers: {short[0]} tokens instead of {self._limit}")
        return [answers[name] for name in names]


def _config(variant: Mapping[str, Any], running: int, cuda: bool) -> tuple[dict[str, Any], Any]:
    """The settings as they are asked for, and as the installed transformers takes them."""
    wanted: dict[str, Any] = {"max_requests_per_batch": running, "num_blocks": 2 * running, "max_batch_tokens": 8192}
    wanted |= {"allow_block_sharing": False, "auto_switch_to_flash": False, **variant}
    if not cuda:  # there are no graphs and streams on a CPU
        wanted |= {**PLAIN, "max_batch_tokens": 64, "num_blocks": 64}
    known = {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}
    if unknown := sorted(set(variant) - known):  # without them it would be another variant than its name says
        raise BenchError(f"transformers {transformers.__version__} has no {', '.join(unknown)}")
    return wanted, ContinuousBatchingConfig(**{key: value for key, value in wanted.items() if key in known})
