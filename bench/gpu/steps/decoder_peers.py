"""transformers' continuous batching on the same GPU: the same weights, prompts and number in flight, in turn with ours.

Fair-peer rules: bf16 against bf16, greedy, nobody ends early, blocks of short prompts are not shared, warm-up does not
count, the best attention that it has here, asynchronous steps and CUDA graphs asked for by name, one variant compiled.
"""

from __future__ import annotations

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, ContinuousBatchingConfig, GenerationConfig

from bench.gpu.models.payloads import decoder_payloads
from bench.gpu.run import Run
from bench.gpu.servers.modelled import open_server
from bench.gpu.servers.served import Served, answered, bound_by, brief
from bench.gpu.steps.decoder import prompts, settings_of, tokens_out
from fastqps import Client
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError

MODELS = ("qwen2.5-0.5b", "smollm2-135m")
IN_FLIGHT = 1024
VARIANTS: dict[str, dict[str, Any]] = {  # in the order in which they matter: the time may not suffice for all
    "asynchronous": {"use_async_batching": True, "use_cuda_graph": True},
    "synchronous": {"use_async_batching": False, "use_cuda_graph": True},
    "asynchronous, compiled": {"use_async_batching": True, "use_cuda_graph": True, "default_compile_level": 1},
}
ASYNCHRONOUS = ("asynchronous", "asynchronous, compiled")
MEASURE_S = 4.0
VARIANT_S, MODEL_S = 35.0, 75.0  # about what another one takes
Ids = list[list[int]]
Answers = dict[tuple[int, ...], list[int]]  # prompt -> generated tokens
Rate = Callable[..., float]  # of prompts; their answers too, where asked for


def measure(run: Run) -> None:
    """Of each model the best asynchronous variant so far; the target is the smaller of the models' ratios."""
    ratios: dict[str, tuple[float, str]] = {}

    def told(model: str, ratio: float, note: str) -> None:
        ratios[model] = ratio, note
        run.target("peer", *min(ratios.values()))

    for model in MODELS[:1] if run.dry else MODELS:
        if not ratios or run.enough(MODEL_S, model):
            run.attempt(model, partial(_model, run, model, partial(told, model)))
    run.finish()


def _model(run: Run, model: str, told: Callable[[float, str], None]) -> None:
    running = 8 if run.dry else IN_FLIGHT
    path, asked = run.checkpoint(model), prompts(run, model)
    ids: Ids = AutoTokenizer.from_pretrained(path)(asked)["input_ids"]
    found: dict[str, tuple[float, float]] = {}
    configs: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        payloads = decoder_payloads(Path(folder) / "prompts", asked, tokens_out(run))
        with open_server(run, settings_of(run, model, running), payloads, slow=True) as served:
            point = answered(served.measure({}, running))
            run.raw(f"{model}, ours", brief(point))
            for name, variant in list(VARIANTS.items())[: 1 if run.dry else None]:  # dry, all are alike
                if found and not run.enough(VARIANT_S, f"{model}, {name}"):
                    continue
                try:
                    found[name] = _variant(run, served, model, name, variant, running, ids, configs)
                except Exception as error:  # a variant that does not run here is said, not hidden
                    configs[name] = f"{type(error).__name__}: {str(error)[:300]}"
                    run.leave_out(f"{model}, transformers {name}: {configs[name]}")
                    continue
                finally:
                    run.raw(f"{model}, configurations", configs)
                told(*_ratio(model, running, found, configs, point))
    if not found:
        raise BenchError(f"no variant of transformers' continuous batching ran: {configs}")


def _variant(
    run: Run, served: Served, model: str, name: str, variant: dict[str, Any], running: int, ids: Ids,
    configs: dict[str, Any],
) -> tuple[float, float]:  # fmt: skip
    """Ours and theirs, requests per second."""
    with _peer(run, run.checkpoint(model), variant, running) as (rate, config):
        configs[name] = config
        rate(ids[:running])  # warm-up
        mine, theirs = _in_turn(run, served, running, rate, ids)
        found = statistics.median(mine), statistics.median(theirs)
        run.figure(
            f"{model}: over transformers' continuous batching, {name}", found[0] / found[1], "×",
            f"{found[0]:,.0f}/s against {found[1]:,.0f}/s, medians of {len(mine)} turns",
        )  # fmt: skip
        run.say(f"{model}: ours {found[0]:,.0f}/s, transformers {name} {found[1]:,.0f}/s")
        answers: Answers = {}
        rate(ids[:16], answers)
        same = agreement(served.address, ids[:16], answers) if served.address else None
        run.raw(f"{model}, {name}", {"ours": mine, "theirs": theirs, "same_tokens": same})
    return found


def _ratio(
    model: str, running: int, found: dict[str, tuple[float, float]], configs: dict[str, Any], point: Point
) -> tuple[float, str]:
    """Ours over the best of its asynchronous variants, or of all where none of those ran; and what to say."""
    usable = [name for name in ASYNCHRONOUS if name in found] or list(found)
    best = max(usable, key=lambda name: found[name][1])
    ours, other = found[best]
    note = f"{model}, {running} in flight, 50 in / 50 out: ours over gRPC {ours:,.0f}/s, transformers {best} "
    note += f"{other:,.0f}/s ({configs[best]['attention']}); ours bound by {bound_by(point)}"
    if best not in ASYNCHRONOUS:
        note = f"its asynchronous variants did not run: {note}"
    return ours / other, note


def _in_turn(run: Run, served: Served, running: int, rate: Rate, ids: Ids) -> tuple[list[float], list[float]]:
    first = rate(ids[:running])
    # In whole rounds: at the end of a part of one its GPU would be half empty, which ours over gRPC never is.
    rounds = max(2, round(first * (0.1 if run.dry else MEASURE_S) / running))
    count = min(rounds, len(ids) // running) * running
    ours, theirs = [], []
    for _ in run.rounds(2.5 * MEASURE_S):
        theirs.append(rate(ids[:count]))
        ours.append(answered(served.measure({}, running)).rate)
    return ours, theirs


@contextmanager
def _peer(run: Run, path: Path, variant: dict[str, Any], running: int) -> Iterator[tuple[Rate, dict[str, Any]]]:
    """A function from prompts to requests per second, and the configuration as it was taken."""
    dtype = torch.float32 if run.dry else torch.bfloat16
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=_attention(run))
    model = model.to(torch.device("cpu" if run.dry else "cuda:0")).eval()
    limit = tokens_out(run)
    generation = GenerationConfig(max_new_tokens=limit, do_sample=False, eos_token_id=-1, pad_token_id=0)
    wanted = {"max_requests_per_batch": running, "allow_block_sharing": False, "max_memory_percent": 0.4, **variant}
    if run.dry:  # there are no graphs and streams on a CPU
        wanted |= {"use_cuda_graph": False, "use_async_batching": False, "num_blocks": 64, "default_compile_level": 0}
        wanted |= {"max_batch_tokens": 64, "page_size": 32}
    known = {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}
    if unknown := sorted(set(variant) - known):  # without them it would be another variant than its name says
        raise BenchError(f"transformers {transformers.__version__} has no {', '.join(unknown)}")
    batching = ContinuousBatchingConfig(**{key: value for key, value in wanted.items() if key in known})
    told = {"asked": wanted, "unknown here": sorted(set(wanted) - known)}
    context = model.continuous_batching_context_manager(
        generation_config=generation, continuous_batching_config=batching
    )
    try:
        with context as manager:

            def rate(some: Ids, answers: Answers | None = None) -> float:
                began, left = time.perf_counter(), len(some)
                manager.add_requests(inputs=some, max_new_tokens=limit)
                while left:
                    result = manager.get_result(timeout=60)
                    if result is None or getattr(result, "error", None):
                        raise BenchError(f"transformers: {getattr(result, 'error', 'no answer for a minute')}")
                    if result.is_finished():
                        left -= 1
                        if answers is not None:
                            answers[tuple(result.prompt_ids)] = list(result.generated_tokens)
                        if len(result.generated_tokens) != limit:
                            raise BenchError(f"transformers: {len(result.generated_tokens)} tokens instead of {limit}")
                return len(some) / (time.perf_counter() - began)

            told |= {"attention": model.config._attn_implementation, "taken": _plain(batching)}
            yield rate, told
    finally:
        del model, context
        gc.collect()
        if not run.dry:
            torch.cuda.empty_cache()


def _attention(run: Run) -> str:
    from transformers.utils import is_flash_attn_2_available

    return "flash_attention_2" if is_flash_attn_2_available() and not run.dry else "sdpa"


def _plain(config: Any) -> dict[str, str]:
    return {field.name: str(getattr(config, field.name)) for field in dataclasses.fields(config)}


def agreement(address: str, asked: Ids, theirs: Answers) -> float:
    """Share of the peer's tokens that ours begin with, prompt by prompt: in bf16 a near tie parts two answers."""
    same = 0
    with Client(address) as client:
        for ids in asked:
            other = theirs[tuple(ids)]
            ours = client.generate(ids, max_tokens=len(other), ignore_eos=True).token_ids
            pairs = enumerate(zip(ours, other, strict=True))
            same += next((at for at, (a, b) in pairs if a != b), len(other))
    return same / sum(map(len, theirs.values()))
