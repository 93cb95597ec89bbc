"""Requests for servers: texts of so many tokens, and prompts that are answered to the last token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.gpu.models.vocabulary import texts
from fastqps.bench.measure.workload import Payloads, parse_call, write_messages
from fastqps.v1 import predict_pb2 as pb

DISTINCT = 20_000


def encoder_payloads(path: Path, model: Path, tokens: int, count: int = DISTINCT) -> Payloads:
    """Predict calls with a text of exactly ``tokens`` tokens each."""
    return _write(path, [pb.PredictRequest(text=text) for text in texts(model, count, tokens)])


def decoder_payloads(path: Path, prompts: Sequence[str], tokens_out: int) -> Payloads:
    """Predict calls that get exactly ``tokens_out`` tokens, greedily."""
    options = pb.GenerateOptions(max_tokens=tokens_out, ignore_eos=True)
    return _write(path, [pb.PredictRequest(text=text, generate=options) for text in prompts])


def _write(path: Path, messages: Sequence[pb.PredictRequest]) -> Payloads:
    write_messages(path, messages)
    return Payloads(path, parse_call("predict"), messages[0].SerializeToString(), len(messages))
