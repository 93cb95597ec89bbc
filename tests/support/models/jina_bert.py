"""JinaBERT in plain torch, item by item, with the names of tensors that published files have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput

# Slopes of ALiBi: 2^-(8/n), its square, … for n heads; for 12, those of 8 and every other one of 16.
SLOPES = {
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    8: [2**-i for i in range(1, 9)],
    12: [2**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


class JinaBert(nn.Module):
    """``task`` as ``write_checkpoint``'s."""

    def __init__(self, config: Any, task: str) -> None:
        super().__init__()
        classes = 0 if task == "embed" else config.num_labels
        self.config, self.heads = config, config.num_attention_heads
        hidden, inner, self.inner = config.hidden_size, config.intermediate_size, config.intermediate_size
        shapes = {"embeddings.word_embeddings": (config.vocab_size, hidden)}
        shapes |= {"embeddings.token_type_embeddings": (config.type_vocab_size, hidden)}
        norms, linears = ["embeddings.LayerNorm"], {}
        for i in range(config.num_hidden_layers):
            at = f"encoder.layer.{i}."
            names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
            linears |= {at + name: (hidden, hidden) for name in names} | {at + "mlp.wo": (hidden, inner)}
            shapes[at + "mlp.gated_layers"] = (2 * inner, hidden)
            norms += [at + "attention.output.LayerNorm", at + "mlp.layernorm"]
        if classes:
            linears["classifier"] = (classes, hidden)
        if task == "classify":
            linears["pooler.dense"] = (hidden, hidden)
        self.task, self.classes = task, classes
        self.tensors = {name + ".weight": nn.Parameter(torch.zeros(s)) for name, s in shapes.items()}
        for name, shape in linears.items():
            self.tensors |= {name + ".weight": nn.Parameter(torch.zeros(shape))}
            self.tensors |= {name + ".bias": nn.Parameter(torch.zeros(shape[0]))}
        for name in norms:
            self.tensors |= {name + ".weight": nn.Parameter(torch.ones(hidden))}
            self.tensors |= {name + ".bias": nn.Parameter(torch.zeros(hidden))}
        for number, parameter in enumerate(self.tensors.values()):
            self.register_parameter(str(number), parameter)

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.tensors[name + ".weight"], self.tensors.get(name + ".bias"))

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.tensors[name + ".weight"], self.tensors[name + ".bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.config.layer_norm_eps)

    def _attended(self, at: str, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self._linear(f"{at}attention.self.{n}", x) for n in ("query", "key", "value"))
        q, k, v = (y.view(len(x), self.heads, -1).transpose(0, 1) for y in (q, k, v))
        place = torch.arange(len(x))
        falling = torch.tensor(SLOPES[self.heads])[:, None, None] * (place[:, None] - place).abs()
        shares = (q @ k.transpose(1, 2) / q.shape[2] ** 0.5 - falling).softmax(-1)
        return (shares @ v).transpose(0, 1).flatten(1)

    def forward(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor | None = None) -> Any:
        words, kinds = (self.tensors[f"embeddings.{n}_embeddings.weight"] for n in ("word", "token_type"))
        x = self._norm(
            "embeddings.LayerNorm",
            words[input_ids[0]] + (kinds[0] if token_type_ids is None else kinds[token_type_ids[0]]),
        )
        function = {"geglu": F.gelu, "reglu": F.relu}[self.config.feed_forward_type]
        for i in range(self.config.num_hidden_layers):
            at = f"encoder.layer.{i}."
            attended = self._linear(at + "attention.output.dense", self._attended(at, x))
            x = self._norm(at + "attention.output.LayerNorm", x + attended)
            both = self._linear(at + "mlp.gated_layers", x)
            gated = function(both[:, : self.inner]) * both[:, self.inner :]
            x = self._norm(at + "mlp.layernorm", x + self._linear(at + "mlp.wo", gated))
        if not self.classes:
            return BaseModelOutput(last_hidden_state=x[None])
        rows = self._linear("pooler.dense", x[:1]).tanh() if self.task == "classify" else x[None]
        return TokenClassifierOutput(logits=self._linear("classifier", rows))

    def save_pretrained(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        prefix = "bert." if self.classes else ""
        tensors = {n if n.startswith("classifier") else prefix + n: t.data for n, t in self.tensors.items()}
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        labels = {"id2label": {str(i): f"LABEL_{i}" for i in range(self.classes)}} if self.classes else {}
        kinds = {"classify": "ForSequenceClassification", "classify_tokens": "ForTokenClassification"}
        kind = "JinaBert" + kinds.get(self.task, "Model")
        stated = {k: v for k, v in self.config.to_dict().items() if k not in ("id2label", "label2id")}
        (path / "config.json").write_text(json.dumps(stated | labels | {"architectures": [kind]}))
