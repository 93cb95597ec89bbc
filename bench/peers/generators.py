"""Generating runtimes as programs (see ``program``): greedily, from ids to ``OUTPUT`` ids, ``RUNNING`` at a time.

``python -m bench.peers.generators RUNTIME ARGUMENT... PROMPTS ANSWERS``, where the arguments are those of its function
in ``RUNTIMES``. Each imports its own package: no environment has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.program import Runtime, Way, main

RUNNING, PROMPT, OUTPUT = 32, 50, 50
SPECIAL = 3  # the first ids, which no prompt has: some runtimes need one for unknown words, the begin and the end
END = SPECIAL - 1
Prompts = Sequence[Sequence[int]]


def word(token: int) -> str:
    """The text of a token in CTranslate2's vocabulary."""
    return f"<{token}>"


def openvino_way(model: Path, **options: Any) -> Way:
    """OpenVINO GenAI's continuous batching. ``options``: properties of the CPU plugin."""
    import openvino as ov
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.max_num_seqs, scheduler.max_num_batched_tokens = RUNNING, RUNNING * PROMPT
    scheduler.cache_size = 1  # GB: no request ever waits for room
    scheduler.enable_prefix_caching = False  # no two prompts begin alike
    pipeline = genai.ContinuousBatchingPipeline(str(model), scheduler, "CPU", options)
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = OUTPUT
    config.do_sample, config.ignore_eos = False, True
    config.set_eos_token_id(END)

    def answer(prompts: Prompts) -> np.ndarray[Any, Any]:
        ids = [ov.Tensor(np.array([prompt], np.int64)) for prompt in prompts]
        return _rows(each.m_generation_ids[0] for each in pipeline.generate(ids, [config] * len(ids)))

    return Way("continuous batching", answer)


def ctranslate2_way(model: Path, threads: int, compute_type: str) -> Way:
    """CTranslate2 with a worker of one thread for each core: of its ways to use them the fastest."""
    import ctranslate2

    generator = ctranslate2.Generator(
        str(model), device="cpu", compute_type=compute_type, inter_threads=threads, intra_threads=1
    )

    def answer(prompts: Prompts) -> np.ndarray[Any, Any]:
        results = generator.generate_batch(
            [[word(token) for token in prompt] for prompt in prompts],
            max_batch_size=RUNNING // threads,
            max_length=OUTPUT,
            min_length=OUTPUT,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return _rows(each.sequences_ids[0] for each in results)

    return Way(f"{generator.compute_type}, {threads} workers of one thread", answer)


def _rows(answers: Any) -> np.ndarray[Any, Any]:
    """int64 [prompts, OUTPUT]."""
    made = [list(answer) for answer in answers]
    if strange := {len(answer) for answer in made} - {OUTPUT}:
        raise ValueError(f"answers have {sorted(strange)} tokens instead of {OUTPUT}")
    return np.array(made, np.int64)


# ---- the runtimes


def _ctranslate2(prompts: Path, threads: str, model: str) -> list[Way]:
    return [ctranslate2_way(Path(model), int(threads), "int8")]


def _fastqps(prompts: Path, threads: str, model: str, dtype: str, quantization: str) -> list[Way]:
    from fastqps.engine.generator import Generator
    from fastqps.models.cards import load_card

    card = load_card(model, PROMPT, max_output_tokens=OUTPUT)
    generator = Generator(
        card, dtype=dtype, quantization=quantization, threads=int(threads), max_running=RUNNING, steps_in_flight=1
    )

    def answer(prompts: Prompts) -> np.ndarray[Any, Any]:
        made = generator.generate(prompts, max_tokens=OUTPUT, ignore_eos=True)
        return _rows(each.token_ids for each in made)

    return [Way("Generator", answer)]


def _openvino(prompts: Path, threads: str, model: str) -> list[Way]:
    return [openvino_way(Path(model), INFERENCE_NUM_THREADS=int(threads))]


RUNTIMES: dict[str, Runtime] = {"ctranslate2": _ctranslate2, "fastqps": _fastqps, "openvino": _openvino}


if __name__ == "__main__":
    main(RUNTIMES)
