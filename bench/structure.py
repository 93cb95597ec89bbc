"""Texts with a JSON schema, against texts without, by a random Llama of 10 million parameters.

No text is complete before its limit, so that all have as many tokens. A small model with a small vocabulary: its steps
are short, and leave the masks little time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers as tk
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.load import PATIENCE_S, Load
from bench.peers.generators import SPECIAL
from bench.peers.llamas import SIZES
from bench.runner import Bench, Claim, Subject
from fastqps.v1 import predict_pb2 as pb

PROMPT = OUTPUT = 32  # tokens
RUNNING, PROMPTS = 64, 256
LEAST = 0.8
_ENTRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "count": {"type": "integer"},
        "kind": {"enum": ["new", "used"]},
        "place": {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}},
    },
    "required": ["name", "count", "kind", "place"],
    "additionalProperties": False,
}
_NONE, _ONE, _EIGHT, _HALF = "without a schema", "one schema", "eight schemas", "half of them with a schema"
CLAIMS = (
    Claim(
        "texts without a schema", "requests/s", _NONE,
        note=f"Llama of 10M, {PROMPT} tokens in, {OUTPUT} out, {RUNNING} in flight, server and load on the same cores",
    ),
    Claim("with one schema over without", "×", _ONE, _NONE, LEAST),
    Claim("with eight schemas over without", "×", _EIGHT, _NONE, LEAST),
    Claim("half of them with a schema over without", "×", _HALF, _NONE, LEAST),
    Claim("CPU time with one schema over without", "×", _ONE, _NONE, figure="cpu_us"),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """One server takes all of them in turn."""
    model = _write(bench.folder / "llama", Path(__file__).parents[1] / "docs")
    server = bench.server(
        *("--model", str(model), "--device", "cpu", "--dtype", "bfloat16", "--frontdoors", "1", "--dispatchers", "1"),
        *("--max-running", str(RUNNING), "--max-input-tokens", str(PROMPT), "--max-output-tokens", str(OUTPUT)),
        cpus=(),
    )
    schemas = [json.dumps({"type": "array", "minItems": 64, "items": _ENTRY, "title": f"{i}"}) for i in range(8)]
    drawn: dict[str, list[str]] = {_NONE: [""], _ONE: schemas[:1], _EIGHT: schemas, _HALF: ["", schemas[0]]}
    load = Load(8, RUNNING // 8, deadline_s=PATIENCE_S)
    bench.measure(
        [
            Subject(name, bench.grpc(server.address, bench.write(_requests(some)), load, cpu=None), server.pid)
            for name, some in drawn.items()
        ],
        CLAIMS,
    )


def _requests(schemas: list[str]) -> Iterable[pb.PredictRequest]:
    prompts = np.random.default_rng(1).integers(SPECIAL, SIZES["10M"]["vocab_size"], (PROMPTS, PROMPT)).tolist()
    for i, prompt in enumerate(prompts):
        options = pb.GenerateOptions(max_tokens=OUTPUT, ignore_eos=True, temperature=1.0, seed=i)
        if schema := schemas[i % len(schemas)]:
            options.structure, options.structure_text = pb.STRUCTURE_JSON_SCHEMA, schema
        yield pb.PredictRequest(token_ids=pb.TokenIds(ids=prompt), generate=options)


def _write(path: Path, texts: Path) -> Path:
    """A Llama whose tokens are the pieces of these texts."""
    torch.manual_seed(1)
    config = LlamaConfig(**SIZES["10M"], max_position_embeddings=256, bos_token_id=0, eos_token_id=1)
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer = tk.Tokenizer(tk.models.BPE())
    tokenizer.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=["<bos>", "<eos>"],
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(each) for each in sorted(texts.glob("*.md"))], trainer)
    tokenizer.save(str(path / "tokenizer.json"))
    return path
