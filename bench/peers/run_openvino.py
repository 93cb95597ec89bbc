"""OpenVINO: ``python -m bench.peers.run_openvino PRECISION THREADS MODEL TOKENIZER MAX_TOKENS TEXTS ANSWERS``.

PRECISION: f32, bf16, or int8, which is NNCF's post-training quantization with a sample of the texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nncf
import numpy as np
import openvino as ov
from tokenizers import Tokenizer

from bench.peers.program import Infer, Rows, Way, encoder_way, run

_SAMPLE = 300  # texts: nncf's own default
_BATCHES = (16, 64)


def main() -> int:
    """Ends with its input."""
    precision, threads, model, tokenizer, max_tokens, texts, answers = sys.argv[1:]
    core = ov.Core()
    read = core.read_model(model)
    if precision == "int8":
        saved = Path(texts).with_suffix(".int8.xml")  # it takes a while, and each number of threads needs the same
        if not saved.exists():
            many = json.loads(Path(texts).read_text())
            ov.save_model(_quantized(read, Path(tokenizer), int(max_tokens), many), saved, compress_to_fp16=False)
        read = core.read_model(saved)
    ways: list[Way] = []
    # One step on all threads, or a step on each.
    for streams in {1, int(threads)}:
        hint = "THROUGHPUT" if streams > 1 else "LATENCY"
        options = {"PERFORMANCE_HINT": hint, "NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": int(threads)}
        if precision != "int8":
            options["INFERENCE_PRECISION_HINT"] = precision
        compiled = core.compile_model(read, "CPU", options)
        infers = [_infer(compiled.create_infer_request()) for _ in range(streams)]
        name = f"{hint.lower()} hint"
        ways += [encoder_way(name, infers, batch, Path(tokenizer), int(max_tokens)) for batch in _BATCHES]
    return run(ways, Path(texts), Path(answers))


def _infer(request: Any) -> Infer:
    def infer(ids: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> Rows:
        found: Rows = request.infer({"input_ids": ids, "attention_mask": mask}, share_inputs=True)["embedding"]
        return found

    return infer


def _quantized(model: Any, tokenizer: Path, max_tokens: int, texts: list[str]) -> Any:
    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.enable_truncation(max_tokens)
    loaded.no_padding()

    def inputs(text: str) -> dict[str, np.ndarray[Any, Any]]:
        ids = np.array([loaded.encode(text).ids], np.int64)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    data = nncf.Dataset(texts[:_SAMPLE], inputs)
    return nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=_SAMPLE)


if __name__ == "__main__":
    sys.exit(main())
