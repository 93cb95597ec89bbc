"""A generator whose text is its prompt, and that takes as long as it is told: a checkpoint of JSON, and its decoder.

A prompt's ids come back one by one, then the end token; with ``ignore_eos`` they begin again. Ids are bytes, so that a
text comes back as itself. Ids above the end token have no text: PACE + n makes every step last at least n milliseconds
while its sequence runs, that of a gate (gates.py) holds it behind its first token until a test opens the gate, and DIE
ends the dispatcher's process when it is to be made.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
from gates import HOLD, HOLD_MAX, pass_through
from zero_weights import write_zeros

from fastqps._core import IDS_MAX, PARAM_FLAGS, PARAM_IGNORE_EOS, PARAM_SLOT, PARAM_WORDS, TOP_LOGPROBS_MAX
from fastqps.devices import Place, null
from fastqps.models.card import ModelCard

END = 256
DIE = 257
PACE = 300
PACE_MAX = 500
VOCAB = HOLD + HOLD_MAX
CONTEXT = 4096
_TOP, _PLACES = TOP_LOGPROBS_MAX, np.arange(TOP_LOGPROBS_MAX)  # a token's likeliest ones: itself, and those behind it


def write_generator(path: Path) -> None:
    """A byte-level tokenizer without merges beside a configuration; weights that nobody reads."""
    path.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": VOCAB,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "max_position_embeddings": CONTEXT,
        "eos_token_id": END,
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": END, "content": "<|end|>", "special": True, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**end, "single_word": False, "lstrip": False, "rstrip": False}],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {c: b for b, c in enumerate(_alphabet())}, "merges": []},
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_zeros(path)


def _alphabet() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(others)) for b in range(256)]


class EchoDecoder(null.NullDecoder):
    """Prompts and sampling parameters by cache slot, shared by twins."""

    instant = False

    def __init__(
        self,
        card: ModelCard,
        max_runs: int,
        max_tokens: int,
        prompts: dict[int, list[int]] | None = None,
        params: dict[int, list[int]] | None = None,
    ) -> None:
        super().__init__(card, max_runs, max_tokens)
        self._prompts = {} if prompts is None else prompts
        self._params = {} if params is None else params

    def run(self, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        b = self.buffers()
        for row in b.admitted[:n_admitted].tolist():
            self._params[row[PARAM_SLOT]] = row
        for i in range(n_runs):
            rows = slice(int(b.starts[i]), int(b.starts[i + 1]))
            if b.made[i] == 0:
                self._prompts[int(b.kv_slots[rows.start])] = b.input_ids[rows].tolist()
            else:
                assert b.input_ids[rows].tolist() == [-1]
        slots = b.kv_slots[b.starts[:n_runs]].tolist()
        special = {i for slot in slots for i in self._prompts[slot] if i >= PACE}
        paces = [i - PACE for i in special if i <= PACE + PACE_MAX]
        time.sleep(max(paces, default=0) / 1000)
        pass_through(i for slot, made in zip(slots, b.made[:n_runs], strict=True) if made for i in self._prompts[slot])
        for i, slot in enumerate(slots):
            b.tokens[i], b.finish[i] = self._next(slot, int(b.made[i]))
            b.logprobs[i] = np.float32(-0.5 - b.made[i])
            b.top[i, :_TOP] = b.tokens[i] + _PLACES
            b.top[i, _TOP:] = (b.logprobs[i] - _PLACES).astype(np.float32).view(np.int32)

    def _next(self, slot: int, made: int) -> tuple[int, int]:
        params = self._params[slot]
        echo = [i for i in self._prompts[slot] if i < PACE] or [END]
        endless = params[PARAM_FLAGS] & PARAM_IGNORE_EOS
        token = echo[made % len(echo)] if endless or made < len(echo) else END
        if token == DIE:
            os._exit(1)
        stops = PARAM_WORDS["stop_token_ids"]
        if (token == END and not endless) or token in params[stops : stops + IDS_MAX]:
            return token, 1
        return token, 2 if made + 1 >= params[PARAM_WORDS["max_tokens"]] else 0

    def for_another_step(self) -> EchoDecoder:
        b = self.buffers()
        return EchoDecoder(self.card, b.max_runs, b.max_tokens, self._prompts, self._params)

    def for_another_lane(self) -> EchoDecoder:
        buffers = self.buffers()
        return EchoDecoder(self.card, buffers.max_runs, buffers.max_tokens)


def make_decoder(card: ModelCard, slots: int, max_tokens: int, place: Place) -> EchoDecoder:
    return EchoDecoder(card, slots, max_tokens)
