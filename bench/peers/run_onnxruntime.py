"""onnxruntime: ``python -m bench.peers.run_onnxruntime PRECISION THREADS MODEL TOKENIZER MAX_TOKENS TEXTS ANSWERS``.

PRECISION: f32 or int8, its dynamic quantization with a scale for each channel of the weights.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer

from bench.peers.program import Infer, Rows, Way, encoder_way, run

_BATCHES = (16, 64)
_HEADS, _WIDTH = 12, 384
_VNNI = any(flag in Path("/proc/cpuinfo").read_text() for flag in ("avx512_vnni", "avx_vnni"))


def main() -> int:
    """Ends with its input."""
    precision, threads, model, tokenizer, max_tokens, texts, answers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        fused = Path(folder) / "fused.onnx"
        # Its own fusions of BERT: attention, norms with their residuals, gelu with its bias.
        found = optimizer.optimize_model(model, "bert", num_heads=_HEADS, hidden_size=_WIDTH, opt_level=0)
        found.save_model_to_file(str(fused))
        if precision == "int8":
            small = Path(folder) / "int8.onnx"
            # Its fused operators are unknown to the inference of types that this asks.
            options = {"DefaultTensorType": TensorProto.FLOAT}
            quantize_dynamic(
                fused,
                small,
                per_channel=True,
                reduce_range=not _VNNI,  # else 16-bit sums of products overflow: its documentation asks for it
                weight_type=QuantType.QInt8,
                extra_options=options,
            )
            fused = small
        ways: list[Way] = []
        # One session on all threads, or one on each.
        for sessions in {1, int(threads)}:
            infers = [_infer(fused, int(threads) // sessions) for _ in range(sessions)]
            name = f"{sessions} sessions" if sessions > 1 else "one session"
            ways += [encoder_way(name, infers, batch, Path(tokenizer), int(max_tokens)) for batch in _BATCHES]
    return run(ways, Path(texts), Path(answers))


def _infer(model: Path, threads: int) -> Infer:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def infer(ids: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> Rows:
        found: Rows = session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]
        return found

    return infer


if __name__ == "__main__":
    sys.exit(main())
