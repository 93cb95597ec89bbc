"""Generation by a random Llama of 10 million parameters, against transformers: same weights, cores and threads.

Then in process, with one of 135 million, too, against runtimes that take token ids (``generate_peers``).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from bench.generate_peers import measure_peers
from bench.load import Load
from bench.peers.generators import OUTPUT, PROMPT
from bench.peers.llamas import write_llama
from bench.peers.process import GENERATORS_FOLDER
from bench.runner import Bench, Claim, Measure, Run, Subject
from fastqps.api.request import GenerateOptions
from fastqps.bench.results.result import BenchError
from fastqps.engine.generator import Generator
from fastqps.models.cards import load_card
from fastqps.v1 import predict_pb2 as pb

THREADS = 2
IN_FLIGHT, REQUESTS = 64, 192
_SERVE = ["--device", "cpu", "--dtype", "bfloat16", "--frontdoors", "1"]
_SERVE += ["--max-running", str(IN_FLIGHT), "--max-input-tokens", str(PROMPT), "--max-output-tokens", str(OUTPUT)]
Prompts = list[list[int]]


_OURS, _GRPC = "fastqps", "gRPC"
_SHARED = "front door and load on the same cores"
CLAIMS = (
    Claim(
        "Llama of 10M parameters, in-process", "requests/s", _OURS,
        note=f"{THREADS} threads, bf16, {IN_FLIGHT} in flight, {PROMPT} tokens in, {OUTPUT} out",
    ),
    Claim("the same, one step at a time", "requests/s", "fastqps synchronous"),
    Claim("the same over gRPC, 1 dispatcher", "requests/s", "gRPC, 1 dispatcher", note=_SHARED),
    Claim(f"the same over gRPC, {THREADS} dispatchers of 1 thread", "requests/s", _GRPC, note=_SHARED),
    Claim("transformers generate_batch", "requests/s", "generate_batch", note="continuous batching"),
    Claim("transformers generate", "requests/s", "generate", note=f"{IN_FLIGHT} equal prompts at a time"),
    Claim(f"over gRPC, {THREADS} dispatchers, over generate_batch", "×", _GRPC, "generate_batch", 7, 10),
    Claim(f"over gRPC, {THREADS} dispatchers, over generate", "×", _GRPC, "generate", 2, 3),
    Claim("in-process over generate_batch", "×", _OURS, "generate_batch"),
    Claim("in-process over generate", "×", _OURS, "generate"),
)  # fmt: skip


def measure(bench: Bench) -> None:
    """Everyone generates for the same prompts, in turn: all of them in-process, for ``seconds`` over gRPC."""
    disable_progress_bar()
    torch.set_num_threads(THREADS)
    llama = write_llama("10M", GENERATORS_FOLDER)
    path, seed = llama.path, torch.Generator().manual_seed(1)
    prompts: Prompts = torch.randint(1, llama.vocab, (REQUESTS, PROMPT), generator=seed).tolist()
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    payloads = bench.write(map(_request, prompts))
    # As many requests in flight, on connections that share the cores with the server.
    load = Load(8, IN_FLIGHT // 8)
    serve = ("--model", str(path), *_SERVE, "--dispatchers")
    one, many = (bench.server(*serve, str(dispatchers), cpus=()) for dispatchers in (1, THREADS))
    subjects = [
        Subject(_OURS, _ours(path, prompts, steps_in_flight=2)),
        Subject("fastqps synchronous", _ours(path, prompts, steps_in_flight=1)),
        Subject("gRPC, 1 dispatcher", bench.grpc(one.address, payloads, load, cpu=None)),
        Subject(_GRPC, bench.grpc(many.address, payloads, load, cpu=None)),
        Subject("generate", lambda: {"rate": _static(model, prompts)}),
        Subject("generate_batch", lambda: {"rate": _continuous(path, prompts)}),
    ]
    bench.measure(subjects, CLAIMS)
    measure_peers(bench)


def _request(ids: list[int]) -> pb.PredictRequest:
    options = pb.GenerateOptions(max_tokens=OUTPUT, ignore_eos=True)
    return pb.PredictRequest(token_ids=pb.TokenIds(ids=ids), generate=options)


def _ours(path: Path, prompts: Prompts, steps_in_flight: int) -> Measure:
    card = load_card(str(path), PROMPT, max_output_tokens=OUTPUT)
    generator = Generator(
        card, dtype="bfloat16", threads=THREADS, max_running=IN_FLIGHT, steps_in_flight=steps_in_flight
    )
    sampling = GenerateOptions(max_tokens=OUTPUT, ignore_eos=True)
    generator.generate(prompts[:IN_FLIGHT], **sampling)

    def run() -> Run:
        began = time.perf_counter()
        answers = generator.generate(prompts, **sampling)
        took = time.perf_counter() - began
        _check([answer.token_ids for answer in answers])
        return {"rate": REQUESTS / took}

    return run


def _static(model: Any, prompts: Prompts) -> float:
    """IN_FLIGHT equal prompts at a time."""
    config = GenerationConfig(max_new_tokens=OUTPUT, do_sample=False, eos_token_id=None, pad_token_id=0)
    batches = torch.tensor(prompts).view(-1, IN_FLIGHT, PROMPT)
    began = time.perf_counter()
    made = [model.generate(b, attention_mask=torch.ones_like(b), generation_config=config) for b in batches]
    took = time.perf_counter() - began
    _check([row[PROMPT:] for batch in made for row in batch.tolist()])
    return REQUESTS / took


def _continuous(path: Path, prompts: Prompts) -> float:
    """Continuous batching as it is meant to be used for short prompts; a first round is not counted.

    A model of its own: the manager changes the attention of the one that it is given. Two steps in flight need a GPU
    there, so the library decides.
    """
    model: Any = LlamaForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    config = GenerationConfig(max_new_tokens=OUTPUT, do_sample=False, eos_token_id=-1, pad_token_id=0)
    batching = ContinuousBatchingConfig(page_size=32, max_requests_per_batch=IN_FLIGHT, allow_block_sharing=False)
    context = model.continuous_batching_context_manager(generation_config=config, continuous_batching_config=batching)
    with context as manager:

        def rate(some: Prompts) -> float:
            began = time.perf_counter()
            made: Prompts = []
            manager.add_requests(inputs=some, max_new_tokens=OUTPUT)
            while len(made) < len(some):
                result = manager.get_result(timeout=60)
                if result is None:
                    raise BenchError("generate_batch: no answer for a minute")
                if result.is_finished():
                    made.append(result.generated_tokens)
            _check(made)
            return len(some) / (time.perf_counter() - began)

        rate(prompts[:IN_FLIGHT])
        return rate(prompts)


def _check(made: Prompts) -> None:
    if any(len(tokens) != OUTPUT for tokens in made):
        raise BenchError(f"an answer has not {OUTPUT} tokens")
