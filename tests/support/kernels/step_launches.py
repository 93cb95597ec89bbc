"""Counts what one step of a model gives to a GPU: kernels launched, and bytes that each reads and writes.

Nothing is computed and no GPU is needed: the step runs on fake CUDA tensors, which have shapes, types and a device but
no numbers. Run without TRITON_INTERPRET it prints the table of docs/kernels.md, with --json what the test reads.

Bytes are those of each launch's tensors, every tensor once: what a kernel reads again comes from the caches. Of tables,
caches and logits that a kernel only looks into, the part that it touches is counted (``_TOUCHED``).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.jit import JITFunction

from fastqps._core import ADMITTED_WORDS, BIAS_WORDS, RULE_WORDS
from fastqps.architectures.bert import Bert
from fastqps.architectures.heads import Head
from fastqps.architectures.llama import Llama
from fastqps.models.families import bert
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.rope import Rope
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.encoder_ops import CudaEncoderOps
from fastqps.ops.decode_step import DecodeState, DecodeStep, LogitRules
from fastqps.ops.fp8 import Quantised, Weight, refused
from fastqps.ops.precision import Precision
from fastqps.ops.step import Step

GPU, BF16 = torch.device("cuda", 0), torch.bfloat16
CONTEXT = 75  # positions that each running sequence sees
ITEMS_MAX = 1024  # of an encoder's step

# Operators that make a view or take memory, and launch nothing.
_NO_KERNEL = {"empty", "new_empty", "empty_like", "t", "view", "slice", "select", "unsqueeze", "unbind", "device"}


@dataclass(frozen=True)
class Launch:
    """One kernel."""

    kernel: str
    bytes: int


@dataclass(frozen=True)
class Counted:
    """A step of a model."""

    model: str
    size: str
    quantization: str
    launches: tuple[Launch, ...]
    layer: dict[str, int]  # kernels of one inner layer

    @property
    def bytes(self) -> int:
        return sum(launch.bytes for launch in self.launches)


def _rows_of(table: str, ids: str) -> Callable[[dict[str, Any]], int]:
    """Of a table: a row for each id, or the whole table where that is less."""
    return lambda call: min(call[table].nbytes, len(call[ids]) * call["WIDTH"] * call[table].itemsize)


def _kv(positions: int, call: dict[str, Any]) -> int:
    return positions * 2 * call["KV_HEADS"] * call["HEAD_DIM"] * call["cache"].itemsize


_NOTHING: Callable[[dict[str, Any]], int] = lambda call: 0  # noqa: E731
_TOUCHED: dict[str, dict[str, Callable[[dict[str, Any]], int]]] = {
    "embed_norm_kernel": {name: _rows_of(name, "ids") for name in ("words", "places", "kinds")},
    "_embed_tokens": {
        "table": _rows_of("table", "ids"),
        "records": lambda call: call["admitted"].nbytes,
        "history": lambda call: call["positions"].nbytes,
    },
    "_rope_kv": {
        "cache": lambda call: _kv(len(call["positions"]), call),
        "rotary": lambda call: min(call["rotary"].nbytes, 4 * len(call["positions"]) * call["HEAD_DIM"]),
    },
    "_slot_attention": {
        "queries": lambda call: call["out"].nbytes,
        "cache": lambda call: _kv((len(call["starts"]) - 1) * CONTEXT, call),
    },
    # Without options, of a model without rules: it looks at the flags alone.
    "_logit_options": {
        "records": lambda call: 4 * (len(call["starts"]) - 1),
        **dict.fromkeys(
            ("logits", "places", "scratch", "biases", "history", "positions", "made", "eos_ids", "targets"), _NOTHING
        ),
    },
    "_last_rows": {"x": lambda call: call["out"].nbytes},
    "_sample_chunks": {"drawn": _NOTHING, "plain": _NOTHING},  # greedy, without log-probabilities
    "_sample": {
        "logits": lambda call: len(call["logits"]) * call["CHUNK"] * call["logits"].itemsize,
        **dict.fromkeys(("drawn", "plain", "scratch", "targets", "top_rows"), _NOTHING),
    },
}


class _Recorder(TorchDispatchMode):
    """Keeps a ``Launch`` for each kernel that torch or Triton would launch."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: list[Launch] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        tensors = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, torch.Tensor)]
        same = name == "to" and out.dtype == tensors[0].dtype
        if name not in _NO_KERNEL and not same:
            assert isinstance(out, torch.Tensor), name
            self.launches.append(Launch(name, sum(x.nbytes for x in tensors) + out.nbytes))
        return out

    def run_triton(self, kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        """In the place of ``JITFunction.run``."""
        name, call = kernel.fn.__name__, {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        touched = _TOUCHED.get(name, {})
        tensors = {key: x for key, x in call.items() if isinstance(x, torch.Tensor)}
        moved = sum(touched[key](call) if key in touched else x.nbytes for key, x in tensors.items())
        self.launches.append(Launch(name.strip("_").removesuffix("_kernel"), moved))


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    recorder, run = _Recorder(), JITFunction.run
    JITFunction.run = lambda kernel, *args, **kwargs: recorder.run_triton(kernel, *args, **kwargs)  # type: ignore[method-assign]
    try:
        with recorder:
            yield recorder.launches
    finally:
        JITFunction.run = run  # type: ignore[method-assign]


class _Weights:
    """A checkpoint of whatever shapes are asked for; ``held``: its matrices are FP8."""

    where = "nowhere"

    def __init__(self, held: bool) -> None:
        self._held = held

    def __call__(self, name: str, *shape: int) -> torch.Tensor:
        return torch.empty(*shape)

    def matrix(self, name: str, outputs: int, inputs: int) -> Weight:
        if not self._held:
            return torch.empty(outputs, inputs)
        return Quantised(torch.empty(outputs, inputs, dtype=torch.float8_e4m3fn), torch.empty(outputs))

    def get(self, name: str) -> None:
        """Nothing beside what is asked for by shape."""

    def check_tied(self, own: str, other: str) -> None:
        """Nothing differs."""

    def check_unread(self, at: str, layers: int, **more: bool) -> None:
        """No layer holds more than is asked for."""


def _ints(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.int32, device=GPU)


def _precision(quantization: str) -> Precision:
    return Precision("none" if quantization == "bf16" else "fp8", log=lambda line: None)


def _stamps() -> torch.Tensor:
    return torch.empty(2, dtype=torch.int64, device=GPU)


_MINILM: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}


def count_minilm(tokens: int, quantization: str, layers: int) -> list[Launch]:
    """MiniLM with so many tokens in a step."""
    items = min(tokens, ITEMS_MAX)
    with torch.inference_mode(), FakeTensorMode():
        assert not refused(GPU)  # it asks once, outside of what is counted
        ops = CudaEncoderOps(BF16, GPU, _precision(quantization))
        config = bert.read(_MINILM | {"num_hidden_layers": layers})
        model = Bert(_Weights(quantization == "held"), config, 512, ops)  # type: ignore[arg-type]
        head = Head("mean", [], ops)
        output = torch.empty(items, 384, device=GPU)
        step = Step(_ints(tokens), _ints(0), _ints(tokens), _ints(items + 1), _ints(16), None, output, _stamps())
        with recorded() as launches:
            head(model(step), step)
    return launches


def _llama(
    hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocab: int, tied: bool = True
) -> DecoderConfig:
    return DecoderConfig(
        hidden=hidden,
        inner=inner,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=hidden // heads,
        vocab=vocab,
        context=2048,
        eps=1e-5,
        ropes=(Rope(theta=1e4),) * layers,
        windows=(0,) * layers,
        tied_head=tied,
    )


DECODERS = {
    "SmolLM2-135M": _llama(576, 1536, 30, 9, 3, 49152),
    "Llama-3.2-1B": _llama(2048, 8192, 16, 32, 8, 128256),
}


def count_decoder(config: DecoderConfig, rows: int, runs: int, quantization: str, layers: int) -> list[Launch]:
    """A step of ``rows`` rows in ``runs`` runs."""
    c = replace(config, layers=layers, ropes=config.ropes[:1] * layers, windows=(0,) * layers)
    with torch.inference_mode(), FakeTensorMode():
        assert not refused(GPU)
        ops = CudaDecodeOps(BF16, GPU, _precision(quantization))
        model = Llama(_Weights(quantization == "held"), c, 256, ops)  # type: ignore[arg-type]
        with GPU:
            state = DecodeState(
                torch.empty(c.layers, 2, runs + 1, c.kv_heads, 256, c.head_dim, dtype=BF16),
                torch.empty(c.layers, 2, c.kv_heads, 0, c.head_dim, dtype=BF16),
                _ints(runs + 1),
                _ints(runs + 1, ADMITTED_WORDS),
                _ints(runs + 1, BIAS_WORDS),
                _ints(1),
                _ints(runs + 1, 256),
                LogitRules(_ints(0, RULE_WORDS), _ints(0), n_forced=0, longest=0),
            )
        per_run = (_ints(runs), _ints(runs), torch.empty(runs, device=GPU), _ints(runs))
        per_row = [_ints(rows) for _ in range(3)]
        admitted, top = _ints(runs, ADMITTED_WORDS), _ints(runs, 40)
        step = DecodeStep(*per_row, _ints(runs + 1), *per_run, admitted, _ints(16), stamps=_stamps(), top=top)
        with recorded() as launches:
            model(step, state)
    return launches


FEW = 3  # layers: the first and the last one, which may be of another type, and one between them


def _counted(model: str, size: str, quantization: str, count: Callable[[int], list[Launch]], layers: int) -> Counted:
    """``count(n)``: the launches of the model with n layers. Inner layers are alike, so two of them are enough."""
    launches = count(FEW)
    inner = list((Counter(count(FEW + 1)) - Counter(launches)).elements())
    layer = Counter(launch.kernel for launch in inner)
    return Counted(model, size, quantization, (*launches, *inner * (layers - FEW)), dict(sorted(layer.items())))


def all_counts(quantizations: Iterable[str] = ("bf16", "fp8", "held")) -> Iterator[Counted]:
    """The models and sizes of docs/kernels.md; ``held``: FP8 of a checkpoint that is FP8 in every layer."""
    for quantization in quantizations:
        for tokens in (5632, 16384):
            count = partial(count_minilm, tokens, quantization)
            yield _counted("MiniLM-L6", f"{tokens:,} tokens", quantization, count, 6)
        for name, config in DECODERS.items():
            count = partial(count_decoder, config, 1024, 512, quantization)
            yield _counted(name, "1,024 rows, 512 runs", quantization, count, config.layers)


if __name__ == "__main__":
    found = list(all_counts())
    if "--json" in sys.argv:
        print(json.dumps([asdict(c) | {"bytes": c.bytes} for c in found]))
    else:
        for c in found:
            row = (f"{c.model}, {c.size}", c.quantization, len(c.launches), sum(c.layer.values()))
            print("|", *(f"{cell} |" for cell in (*row, f"{c.bytes / 1e6:,.0f}")))
