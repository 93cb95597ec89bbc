"""A static model's files: which tensors, which tokenizer, and what follows the mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files import deciding_files
from fastqps.models.files.config_values import Activation
from fastqps.models.files.reading import read_object
from fastqps.models.files.tensors import Tensor, read_tensors
from fastqps.models.sentence_transformers.pipeline import Dense
from fastqps.models.sentence_transformers.prompts import NO_PROMPTS, Prompts

TABLE_KINDS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8"}


@dataclass(frozen=True)
class Head:
    """The linear layers of a classifier behind the embedding, with ReLU between them."""

    file: Path
    layers: int
    labels: tuple[str, ...]
    activation: Activation


@dataclass(frozen=True)
class StaticModel:
    """``dense`` and ``normalize`` follow the mean, then ``head``. ``max_tokens`` None: the files set no limit."""

    root: Path
    table_file: Path
    table_name: str
    tokenizer_file: Path
    files: tuple[Path, ...]  # all that decide an answer
    dense: tuple[Dense, ...] = ()
    normalize: bool = False
    head: Head | None = None
    max_tokens: int | None = None
    drops_unknown: bool = False  # the tokenizer's unknown token counts for nothing
    cuts_as_file_says: bool = False  # the truncation of tokenizer.json decides which end of a text is left out
    cuts_characters: bool = False  # before a text is tokenized, by the limit and the median length of a token
    prompts: Prompts = NO_PROMPTS
    warnings: tuple[str, ...] = ()

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file with the table."""
        return read_tensors(self.table_file)

    @property
    def table(self) -> Tensor:
        """[rows, width]. ``ModelError`` where it is missing or of another shape or kind."""
        table = self.tensors.get(self.table_name)
        if table is None:
            raise ModelError(f"{self.table_file}: no tensor {self.table_name}")
        if table.kind not in TABLE_KINDS or len(table.shape) != 2 or 0 in table.shape:
            raise ModelError(
                f"{self.table_file}: tensor {self.table_name} is {table.kind} {list(table.shape)}; supported are "
                f"tables [rows, width] of {', '.join(TABLE_KINDS)}"
            )
        return table

    @property
    def by_id(self) -> dict[str, Tensor]:
        """model2vec's tensors with one number for each token id: ``mapping`` and ``weights``, where they are there."""
        if self.table_name != "embeddings":
            return {}
        names = ("mapping", "weights")
        tensors: dict[str, Tensor] = {name: self.tensors[name] for name in names if name in self.tensors}
        lengths = {name: tensor.shape for name, tensor in tensors.items()}
        if any(len(shape) != 1 or not shape[0] for shape in lengths.values()) or len(set(lengths.values())) > 1:
            raise ModelError(f"{self.table_file}: mapping and weights need one number for each token id: {lengths}")
        if "mapping" not in tensors and any(tensor.shape[0] > self.table.shape[0] for tensor in tensors.values()):
            raise ModelError(f"{self.table_file}: weights for more token ids than the table has rows: {lengths}")
        if "mapping" in tensors and tensors["mapping"].kind not in ("I32", "I64"):
            raise ModelError(f"{self.table_file}: mapping is {tensors['mapping'].kind}; supported: I32, I64")
        return tensors

    @property
    def n_ids(self) -> int:
        """Token ids that name a row."""
        return next((tensor.shape[0] for tensor in self.by_id.values()), self.table.shape[0])

    def dense_tensors(self) -> list[tuple[Tensor, Tensor | None, str]]:
        """(weight [out, in], bias [out], activation) of each projection."""
        layers = []
        width = self.table.shape[1]
        for dense in self.dense:
            file = self.root / dense.folder / "model.safetensors"
            weight = find_layer(file, "linear.weight", (dense.out_features, width))
            bias = find_layer(file, "linear.bias", (dense.out_features,)) if dense.bias else None
            layers.append((weight, bias, dense.activation))
            width = dense.out_features
        return layers

    def head_tensors(self) -> list[tuple[Tensor, Tensor]]:
        """(weight [out, in], bias [out]) of each layer of the head."""
        layers = []
        width = self.dense[-1].out_features if self.dense else self.table.shape[1]
        for i in range(self.head.layers if self.head else 0):
            assert self.head
            weight = find_layer(self.head.file, f"head.{i}.weight", (-1, width))
            width = weight.shape[0]
            layers.append((weight, find_layer(self.head.file, f"head.{i}.bias", (width,))))
        if self.head and width != len(self.head.labels):
            labels = len(self.head.labels)
            raise ModelError(f"{self.head.file}: the last layer gives {width} numbers for {labels} labels")
        return layers

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The tokenizer.json."""
        return read_object(self.tokenizer_file)

    @property
    def tokenizer_parts(self) -> str:
        """JSON of what replaces parts of the tokenizer.json, "" for nothing."""
        return "" if self.cuts_as_file_says or not self.tokenizer.get("truncation") else '{"truncation":null}'

    def vocabulary(self) -> dict[str, int]:
        """Token ids by their text, added tokens included."""
        vocab = self.tokenizer["model"]["vocab"]
        ids = {text: i for i, (text, _) in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
        return ids | {token["content"]: token["id"] for token in self.tokenizer.get("added_tokens") or ()}

    def max_characters(self, max_tokens: int) -> int:
        """Characters of a text that are read where ``max_tokens`` tokens are; 0: all."""
        if not self.cuts_characters or self.max_tokens is None:
            return 0
        return max_tokens * int(median(map(len, self.vocabulary())))

    def unknown_id(self) -> int | None:
        """The id of the token that stands for what the tokenizer does not know."""
        model = self.tokenizer["model"]
        if model.get("unk_token") is not None:
            return self.vocabulary().get(model["unk_token"])
        return None if model.get("unk_id") is None else int(model["unk_id"])

    def file_truncation(self) -> int | None:
        """The limit that tokenizer.json states."""
        stated = self.tokenizer.get("truncation")
        return int(stated["max_length"]) if stated else None

    def digest(self) -> str:
        """12 hex digits over the relative names and contents of all files that decide an answer."""
        return deciding_files.digest(self.root, self.files)

    def stamp(self) -> str:
        """Stays the same while none of these files is written or replaced."""
        return deciding_files.stamp(self.files)


def find_layer(file: Path, name: str, shape: tuple[int, ...]) -> Tensor:
    """A projection's or head's tensor of ``shape``, -1: any size. ``ModelError`` where it is missing or another."""
    tensor = read_tensors(file).get(name)
    if tensor is None:
        raise ModelError(f"{file}: no tensor {name}")
    sizes = [size if want < 0 else want for want, size in zip(shape, tensor.shape, strict=False)]
    if (
        list(tensor.shape) != sizes
        or 0 in sizes
        or len(sizes) < len(shape)
        or tensor.kind not in ("F64", "F32", "F16", "BF16")
    ):
        wanted = ", ".join("any" if size < 0 else str(size) for size in shape)
        raise ModelError(f"{file}: tensor {name} is {tensor.kind} {list(tensor.shape)}; it must be floats [{wanted}]")
    return tensor
