"""A server honours a checkpoint's options that change logits: the tokens of transformers, in changing company."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import transformers as tr
from generators import EOS, VOCAB, write_generator
from serving import Server

import fastqps

OPTIONS = {
    "repetition_penalty": 1.2,
    "no_repeat_ngram_size": 3,
    "min_new_tokens": 10,
    "suppress_tokens": [7, 8, 9],
    "bad_words_ids": [[i, j] for i in range(VOCAB) for j in range(i % 31, VOCAB, 31)],
    "forced_eos_token_id": EOS,
}


def test_a_server_gives_the_tokens_of_transformers(tmp_path: Path) -> None:
    checkpoint = write_generator(tmp_path / "tiny")
    (checkpoint / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS, **OPTIONS}))
    rng = random.Random(0)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(1, 40))] for _ in range(24)]
    model = tr.AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").float().eval()
    want = []
    for ids in map(torch.tensor, prompts):
        with torch.inference_mode():
            made = model.generate(ids[None], attention_mask=torch.ones_like(ids[None]), max_new_tokens=24)
        want.append(made[0, len(ids) :].tolist())
    flags = ("--device=cpu", "--dtype=float32", "--max-output-tokens=64", "--max-running=6")
    server = Server(*flags, f"--model={checkpoint}", "--dispatchers=2")
    try:
        with fastqps.Client(server.address) as client, ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda ids: client.generate(ids, max_tokens=24).token_ids, prompts))
        server.stop()
    finally:
        server.kill()
    assert found == want
