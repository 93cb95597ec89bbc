"""Llamas of random weights, with prompts and what transformers generates for them in fp32."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.peers.generators import PROMPT, RUNNING, SPECIAL

_ENDS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SIZES: dict[str, dict[str, Any]] = {
    "10M": {
        "vocab_size": 4096, "hidden_size": 320, "num_hidden_layers": 6, "num_attention_heads": 5,
        "intermediate_size": 864,
    },
    "135M": {  # SmolLM2's
        "vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "tie_word_embeddings": True,
    },
}  # fmt: skip
_FIRST = 8  # tokens of each answer that are known, and that no order of fp32 sums changes


@dataclass(frozen=True)
class Llama:
    """``path``: a checkpoint in fp32, and with it prompts and the tokens that transformers has made of them."""

    path: Path

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return int(json.loads((self.path / "config.json").read_text())["vocab_size"])

    def prompts(self) -> list[list[int]]:
        """``RUNNING`` of ``PROMPT`` tokens."""
        prompts: list[list[int]] = json.loads((self.path / "prompts.json").read_text())
        return prompts

    def check_exact(self, answers: np.ndarray[Any, Any]) -> None:
        """Raises ``ValueError`` where the answers of a runtime in fp32 to the first prompts do not begin as those of
        transformers do."""
        equal = (answers[:, :_FIRST] == self._expected()[: len(answers)]).all(1)
        if not equal.all():
            raise ValueError(
                f"{self.path.name}: {np.sum(~equal)} of {len(equal)} answers begin otherwise than transformers'"
            )

    def first_equal(self, answers: np.ndarray[Any, Any]) -> float:
        """The share of answers that begin with the same token as transformers' in fp32."""
        return float((answers[:, 0] == self._expected()[: len(answers), 0]).mean())

    def _expected(self) -> np.ndarray[Any, Any]:
        expected: np.ndarray[Any, Any] = np.load(self.path / "expected.npy")
        return expected


def write_llama(name: str, folder: Path) -> Llama:
    """One of ``SIZES``, in ``folder`` from the first call on."""
    llama = Llama(folder / f"llama-{name}")
    if not llama.path.is_dir():
        unfinished = llama.path.with_suffix(".part")
        torch.manual_seed(1)
        config = LlamaConfig(max_position_embeddings=256, **SIZES[name], **_ENDS)
        model = LlamaForCausalLM(config).float().eval()
        model.save_pretrained(unfinished)
        prompts = torch.randint(SPECIAL, config.vocab_size, (RUNNING, PROMPT))
        ones = torch.ones_like(prompts)
        made: Any = model.generate(prompts, attention_mask=ones, max_new_tokens=_FIRST, do_sample=False, pad_token_id=0)
        (unfinished / "prompts.json").write_text(json.dumps(prompts.tolist()))
        np.save(unfinished / "expected.npy", made[:, PROMPT:].numpy())
        unfinished.rename(llama.path)
    return llama
