"""Labels that are tokens, against generating one token of the same ids at the same server, by random Llamas.

An input is a template's fixed beginning and a text. Its end is the text's: what a template ends with is computed for
every request, as the text is. Generating reads the whole prompt, and the projection to the vocabulary is the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import tokenizers as tk
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.load import PATIENCE_S, Load
from bench.peers.generators import SPECIAL
from bench.peers.llamas import SIZES
from bench.runner import Bench, Claim, Subject
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

OPENING = 60  # tokens of the beginning: about those of Qwen3-Reranker's template in front of a query
TEXTS = (16, 32, 96)  # tokens of a text
PROMPTS = 256
LEAST = (
    3.0  # times the CPU time, where a text has a quarter of the opening's tokens: other programs' load changes rates
)
# A step of the 135M in fp32 takes longer than a run: a window of time has none or one of them.
MODELS = (("10M", 49152, ("int8", "fp32")), ("10M", 151936, ("int8",)), ("135M", 49152, ("int8",)))
KINDS = {"int8": ("--quantization", "int8"), "fp32": ("--dtype", "float32")}
_FLAGS = ("--device", "cpu", "--frontdoors", "1", "--dispatchers", "1", "--max-input-tokens", "256")
_WRITER_FLAGS = ("--max-output-tokens", "8", "--max-running", "16")
_LOAD = Load(2, 8, deadline_s=PATIENCE_S)
_LABELS = ("yes", "no")


def measure(bench: Bench) -> None:
    """Every model and kind has a server with both."""
    for size, vocab, kinds in MODELS:
        scorer, writer, template = _write(bench.folder, size, vocab)
        for kind in kinds:
            with ExitStack() as stack:
                alone = replace(bench, stack=stack)
                models = ("--model", f"scorer={scorer}", "--model", f"writer={writer}")
                labels = ("--labels", f"scorer={','.join(_LABELS)}", "--template", f"scorer={template}")
                server = alone.server(*models, *labels, *KINDS[kind], *_FLAGS, *_WRITER_FLAGS, cpus=())
                what = f"Llama of {size}, vocabulary {vocab:,}, {kind}"
                alone.measure(_subjects(alone, server, what, vocab), _claims(what))


def _subjects(bench: Bench, server: ServerProcess, what: str, vocab: int) -> Iterator[Subject]:
    draw = np.random.default_rng(1)
    for tokens in TEXTS:
        texts = draw.integers(SPECIAL + OPENING, vocab, (PROMPTS, tokens)).tolist()
        for model, name in (("scorer", "labels"), ("writer", "one token")):
            payloads = bench.write(_request(model, text) for text in texts)
            load = bench.grpc(server.address, payloads, _LOAD, cpu=None)
            yield Subject(f"{what}, {tokens}, {name}", load, server.pid)


def _claims(what: str) -> Iterator[Claim]:
    for tokens in TEXTS:
        labels, token = (f"{what}, {tokens}, {name}" for name in ("labels", "one token"))
        asked = LEAST if tokens == TEXTS[0] else None
        bound = f"{(OPENING + tokens) / tokens:.3g} × fewer tokens are computed"
        name = f"{what}, {OPENING} + {tokens} tokens: labels"
        yield Claim(f"{name} over one token", "×", labels, token, note=bound)
        yield Claim(f"{name}, CPU time of one token over that of them", "×", token, labels, asked, figure="cpu_us")


def _opening() -> range:
    return range(SPECIAL, SPECIAL + OPENING)


def _request(model: str, text: list[int]) -> pb.PredictRequest:
    ids = pb.TokenIds(ids=[*_opening(), *text])
    generate = pb.GenerateOptions(max_tokens=1, ignore_eos=True) if model == "writer" else None
    return pb.PredictRequest(model=model, token_ids=ids, generate=generate)


def _write(folder: Path, size: str, vocab: int) -> tuple[Path, Path, Path]:
    """A Llama with a tokenizer of words, the same without one, and a template."""
    scorer, writer = (folder / f"{name}-{size}-{vocab}" for name in ("scorer", "writer"))
    torch.manual_seed(1)
    shape = SIZES[size] | {"vocab_size": vocab, "tie_word_embeddings": True}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    LlamaForCausalLM(LlamaConfig(max_position_embeddings=512, **shape, **ends)).save_pretrained(writer)
    scorer.mkdir()
    for file in ("config.json", "model.safetensors"):
        os.link(writer / file, scorer / file)
    words = {"[UNK]": 0, **{name: i for i, name in enumerate(_LABELS, 1)}, **{f"w{i}": i for i in _opening()}}
    tokenizer = tk.Tokenizer(tk.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tk.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(scorer / "tokenizer.json"))
    (scorer / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    template = folder / "template.jinja"
    template.write_text(" ".join(f"w{i}" for i in _opening()) + " {{ text }}")
    return scorer, writer, template
