"""Embedding runtimes as programs (see ``program``): from texts to embeddings.

``python -m bench.peers.encoders RUNTIME ARGUMENT... TEXTS ANSWERS``, where the arguments are those of its function in
``RUNTIMES``. Each imports its own package: no environment has all of them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bench.peers.program import Runtime, Way, main

Rows = np.ndarray[Any, np.dtype[np.float32]]
Infer = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], Rows]  # input_ids, attention_mask → embedding
_BATCHES = (16, 64)


def encoder_way(name: str, infers: Sequence[Infer], batch: int, tokenizer: Path, max_tokens: int) -> Way:
    """Batches of texts of about one length, padded to their longest, on a thread for each of ``infers``."""
    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.enable_truncation(max_tokens)
    loaded.enable_padding()

    def embed(many: Sequence[str]) -> Rows:
        parts = list(_batches(many, batch))

        def work(infer: Infer, begin: int) -> list[Rows]:
            rows = []
            for part in parts[begin :: len(infers)]:
                encoded = loaded.encode_batch_fast([many[i] for i in part])
                ids = np.array([each.ids for each in encoded], np.int64)
                rows.append(infer(ids, np.array([each.attention_mask for each in encoded], np.int64)))
            return rows

        out = np.empty((len(many), 0), np.float32)
        with ThreadPoolExecutor(len(infers)) as pool:
            done = [pool.submit(work, infer, begin) for begin, infer in enumerate(infers)]
            for begin, future in enumerate(done):
                for part, rows in zip(parts[begin :: len(infers)], future.result(), strict=True):
                    out = out if out.shape[1] else np.empty((len(many), rows.shape[1]), np.float32)
                    out[part] = rows
        return out

    return Way(f"{name}, batches of {batch}", embed)


def _batches(many: Sequence[str], size: int) -> Iterator[list[int]]:
    order = sorted(range(len(many)), key=lambda i: -len(many[i]))
    return (order[at : at + size] for at in range(0, len(order), size))


# ---- the runtimes


def _fastqps(texts: Path, dtype: str, quantization: str) -> list[Way]:
    from fastqps import Engine

    engine = Engine("minilm", dtype=dtype, quantization=quantization)
    return [Way("Engine", lambda many: engine.embed(many, truncate=True))]


def _model2vec(texts: Path, model: str) -> list[Way]:
    from model2vec import StaticModel

    encode = partial(StaticModel.from_pretrained(model).encode, use_multiprocessing=False)
    # 1,024 is the package's default; smaller ones stay in the cache.
    return [Way(f"batches of {size}", partial(encode, batch_size=size)) for size in (64, 1024)]


def _onnxruntime(
    texts: Path, precision: str, threads: str, model: str, tokenizer: str, max_tokens: str
) -> Iterator[Way]:
    """``precision``: f32 or int8, its dynamic quantization with a scale for each channel of the weights."""
    import onnxruntime as ort
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    def infer(path: Path, streams: int) -> Infer:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = int(threads) // streams, 1
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda ids, mask: session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]

    with tempfile.TemporaryDirectory() as folder:
        used = Path(folder) / "fused.onnx"
        # Its own fusions of BERT: attention, norms with their residuals, gelu with its bias.
        optimized = optimizer.optimize_model(model, "bert", num_heads=12, hidden_size=384, opt_level=0)
        optimized.save_model_to_file(str(used))
        if precision == "int8":
            fused, used = used, Path(folder) / "int8.onnx"
            vnni = any(flag in Path("/proc/cpuinfo").read_text() for flag in ("avx512_vnni", "avx_vnni"))
            quantize_dynamic(
                fused,
                used,
                per_channel=True,
                reduce_range=not vnni,  # else 16-bit sums of products overflow: its documentation asks for it
                weight_type=QuantType.QInt8,
                # Its fused operators are unknown to the inference of types that this asks.
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
        for streams in {1, int(threads)}:  # one session on all threads, or one on each
            infers = [infer(used, streams) for _ in range(streams)]
            yield from _encoder_ways(
                f"{streams} sessions" if streams > 1 else "one session", infers, tokenizer, max_tokens
            )


def _openvino(texts: Path, precision: str, threads: str, model: str, tokenizer: str, max_tokens: str) -> Iterator[Way]:
    """``precision``: f32, bf16, or int8, which is NNCF's post-training quantization with a sample of the texts."""
    import openvino as ov

    def infer(request: Any) -> Infer:
        return lambda ids, mask: request.infer({"input_ids": ids, "attention_mask": mask}, share_inputs=True)[
            "embedding"
        ]

    core = ov.Core()
    read = core.read_model(model)
    if precision == "int8":
        saved = texts.with_suffix(".int8.xml")  # it takes a while, and each number of threads needs the same
        if not saved.exists():
            ov.save_model(_quantized(read, tokenizer, int(max_tokens), texts), saved, compress_to_fp16=False)
        read = core.read_model(saved)
    for streams in {1, int(threads)}:  # one step on all threads, or a step on each
        hint = "THROUGHPUT" if streams > 1 else "LATENCY"
        options = {"PERFORMANCE_HINT": hint, "NUM_STREAMS": streams, "INFERENCE_NUM_THREADS": int(threads)}
        if precision != "int8":
            options["INFERENCE_PRECISION_HINT"] = precision
        compiled = core.compile_model(read, "CPU", options)
        infers = [infer(compiled.create_infer_request()) for _ in range(streams)]
        yield from _encoder_ways(f"{hint.lower()} hint", infers, tokenizer, max_tokens)


def _quantized(model: Any, tokenizer: str, max_tokens: int, texts: Path) -> Any:
    import nncf

    loaded = Tokenizer.from_file(tokenizer)
    loaded.enable_truncation(max_tokens)
    loaded.no_padding()

    def inputs(text: str) -> dict[str, np.ndarray[Any, Any]]:
        ids = np.array([loaded.encode(text).ids], np.int64)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    sample = 300  # texts: nncf's own default
    data = nncf.Dataset(json.loads(texts.read_text())[:sample], inputs)
    return nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=sample)


def _encoder_ways(name: str, infers: Sequence[Infer], tokenizer: str, max_tokens: str) -> list[Way]:
    return [encoder_way(name, infers, batch, Path(tokenizer), int(max_tokens)) for batch in _BATCHES]


RUNTIMES: dict[str, Runtime] = {
    "fastqps": _fastqps, "model2vec": _model2vec, "onnxruntime": _onnxruntime, "openvino": _openvino
}  # fmt: skip


if __name__ == "__main__":
    main(RUNTIMES)
