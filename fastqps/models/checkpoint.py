"""A checkpoint directory: its configuration, its weights' files, its digest, and the card that follows from them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.models.card import Activation, ModelCard, ModelError
from fastqps.models.names import resolve
from fastqps.models.pipeline import Pipeline, read_json, read_pipeline

# model_type -> family. XLM-RoBERTa and CamemBERT have RoBERTa's layout; only their tokenizers differ.
FAMILIES = {
    "bert": "bert",
    "distilbert": "distilbert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "modernbert": "modernbert",
}
SIZE_END = 1 << 31
_EMBED = ("Model", "ForMaskedLM", "ForPreTraining")  # architectures whose encoder can embed; their heads are left out
_CLASSIFY = "ForSequenceClassification"
_PROMPTS = "config_sentence_transformers.json"


@dataclass(frozen=True)
class Checkpoint:
    """The JSON side of one checkpoint. ``encoder`` is the folder with the transformer's config.json and weights."""

    root: Path
    encoder: Path
    config: dict[str, Any]
    pipeline: Pipeline
    family: str
    classify: bool

    @classmethod
    def open(cls, root: Path) -> Checkpoint:
        """Reads the configuration; ``ModelError`` if it is not a model that can be served, with the reason."""
        pipeline = read_pipeline(root)
        encoder = root / pipeline.transformer
        config = read_json(encoder / "config.json")
        kind = config.get("model_type")
        if kind not in FAMILIES:
            raise ModelError(f"{root}: model type {kind!r} is not supported; supported: {', '.join(FAMILIES)}")
        architectures = config.get("architectures") or ["Model"]
        architecture = str(architectures[0])
        classify = architecture.endswith(_CLASSIFY) and pipeline.scores
        alone = pipeline.scores and (root / "modules.json").is_file()  # as a cross-encoder: then it has to give scores
        if not classify and (alone or not architecture.endswith((*_EMBED, _CLASSIFY))):
            raise ModelError(
                f"{root}: architecture {architecture} is not supported; "
                f"supported: encoders (Model, ForMaskedLM) and {_CLASSIFY}"
            )
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise ModelError(f"{root}: position embeddings {config['position_embedding_type']!r} are not supported")
        found = cls(root, encoder, config, pipeline, FAMILIES[kind], classify)
        found._check_preprocessing()
        return found

    def _check_preprocessing(self) -> None:
        """Refuses what sentence-transformers would do to a text before its tokenizer sees it."""
        prompt = read_json(path).get("default_prompt_name") if (path := self.root / _PROMPTS).is_file() else None
        if prompt:
            raise ModelError(f"{self.root}: a default prompt ({prompt!r} in {_PROMPTS}) is not supported")
        if self.optional_json("sentence_bert_config.json").get("do_lower_case"):
            normalizer = json.dumps(self.optional_json("tokenizer.json").get("normalizer"))
            if '"lowercase": true' not in normalizer and '"type": "Lowercase"' not in normalizer:
                raise ModelError(
                    f"{self.root}: do_lower_case needs a tokenizer.json that lower-cases; this one does not"
                )

    def optional_json(self, name: str) -> dict[str, Any]:
        """A JSON file beside the encoder's weights, or an empty object where there is none."""
        path = self.encoder / name
        found = read_json(path) if path.is_file() else {}
        return found if isinstance(found, dict) else {}

    def weight_files(self) -> list[Path]:
        """The encoder's safetensors files: one, or the shards that the index names."""
        index = self.encoder / "model.safetensors.index.json"
        if index.is_file():
            return [self.encoder / name for name in sorted(set(read_json(index)["weight_map"].values()))]
        single = self.encoder / "model.safetensors"
        if not single.is_file():
            raise ModelError(f"{self.root}: no model.safetensors; only weights in safetensors format are loaded")
        return [single]

    def digest(self) -> str:
        """12 hex digits of SHA-256 over the relative names and contents of all files that decide an answer."""
        names = ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json")
        files = {folder / name for folder in (self.root, self.encoder) for name in names}
        files.update(self.weight_files())
        if (self.root / "modules.json").is_file():
            for module in read_json(self.root / "modules.json"):
                folder = self.root / str(module.get("path", ""))
                files.update((folder / "config.json", folder / "model.safetensors"))
        total = hashlib.sha256()
        for path in sorted(files):
            if path.is_file():
                total.update(f"{path.relative_to(self.root).as_posix()}\0{path.stat().st_size}\0".encode())
                with path.open("rb") as stream:
                    total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()[:12]


def load_card(
    name_or_dir: str,
    max_input_tokens: int = 512,
    name: str | None = None,
    *,
    max_output_tokens: int = 128,
    prefix_text: str = "",
) -> ModelCard:
    """The card of a checkpoint (a directory, or a known name such as ``minilm``), under ``name`` if given.

    ``max_output_tokens`` and ``prefix_text`` (in front of every prompt; its ids go into the card and into the version)
    are of generators alone.

    Reads JSON, and the weights' bytes for the digest; imports no torch. Raises ``ModelError``.
    """
    served, root = resolve(name_or_dir)
    try:
        return _card(name or served, root, max_input_tokens)
    except OSError as error:
        raise ModelError(f"{root}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # What the files say is read as it is used: whatever does not fit is a fault of theirs.
        raise ModelError(f"{root}: its configuration cannot be used: {error!r}") from error


def _card(name: str, root: Path, max_input_tokens: int) -> ModelCard:
    checkpoint = Checkpoint.open(root)
    config = checkpoint.config
    labels = _labels(config) if checkpoint.classify else ()
    _check_sizes(root, config)
    dense = checkpoint.pipeline.dense
    width = dense[-1].out_features if dense else int(config.get("hidden_size") or config["dim"])
    tokenizer = next(
        (str(p) for p in (checkpoint.encoder / "tokenizer.json", root / "tokenizer.json") if p.is_file()), ""
    )
    special = _special_ids(checkpoint)
    return ModelCard(
        name=name,
        path=str(root),
        version=checkpoint.digest(),
        task="classify" if checkpoint.classify else "embed",
        family=checkpoint.family,
        dimensions=len(labels) if checkpoint.classify else width,
        max_input_tokens=_input_limit(checkpoint, max_input_tokens),
        vocab_size=int(config["vocab_size"]),
        tokenizer=tokenizer,
        labels=labels,
        normalize=not checkpoint.classify and checkpoint.pipeline.normalize,
        activation=_activation(checkpoint, len(labels)) if checkpoint.classify else "identity",
        position_offset=_position_offset(checkpoint),
        second_segment_type=1 if checkpoint.family == "bert" and config.get("type_vocab_size", 2) > 1 else 0,
        pad_id=special["pad"] if special["pad"] >= 0 else 0,
        cls_id=special["cls"],
        sep_id=special["sep"],
    )


def _check_sizes(root: Path, config: dict[str, Any]) -> None:
    """DistilBERT has its own names for the width and the heads."""
    width, heads = config.get("hidden_size") or config["dim"], config.get("num_attention_heads") or config["n_heads"]
    sizes = {"vocab_size": config["vocab_size"], "hidden_size": width, "num_attention_heads": heads}
    for key, size in sizes.items():
        if type(size) is not int or not 0 < size < SIZE_END:
            raise ModelError(f"{root}: config.json says {key} {size!r}, which is no possible size")
    if width % heads:
        raise ModelError(f"{root}: config.json says {heads} attention heads, which do not divide its width {width}")


def _labels(config: dict[str, Any]) -> tuple[str, ...]:
    names = config.get("id2label")
    if not names:
        count = int(config.get("num_labels", 2))
        return tuple(f"LABEL_{i}" for i in range(count))
    return tuple(str(names[key]) for key in sorted(names, key=int))


def _activation(checkpoint: Checkpoint, labels: int) -> Activation:
    """As the checkpoint says: a cross-encoder's own function, else by problem type, else by the number of labels."""
    config = checkpoint.config
    saved = checkpoint.optional_json(_PROMPTS)
    cross = saved.get("activation_fn") if saved.get("model_type") == "CrossEncoder" else None
    cross = cross or (config.get("sentence_transformers") or {}).get("activation_fn")
    cross = cross or config.get("sbert_ce_default_activation_function")
    if cross:
        known: dict[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid", "Softmax": "softmax"}
        found = known.get(str(cross).rpartition(".")[2])
        if found is None:
            raise ModelError(f"the cross-encoder's activation {cross} is not supported; supported: {', '.join(known)}")
        return found
    problem = config.get("problem_type")
    if problem == "regression":
        return "identity"
    if problem == "multi_label_classification" or labels == 1:
        return "sigmoid"
    return "softmax"


def _position_offset(checkpoint: Checkpoint) -> int:
    if checkpoint.family != "roberta":
        return 0
    pad = checkpoint.config.get("pad_token_id")
    return (1 if pad is None else int(pad)) + 1


def _input_limit(checkpoint: Checkpoint, asked: int) -> int:
    """The smallest of what the sentence configuration, the tokenizer, the position table and the server allow."""
    limits = [
        asked,
        checkpoint.optional_json("sentence_bert_config.json").get("max_seq_length"),
        checkpoint.optional_json("tokenizer_config.json").get("model_max_length"),
        int(checkpoint.config["max_position_embeddings"]) - _position_offset(checkpoint),
    ]
    found = min(int(limit) for limit in limits if limit)
    if found < 1:
        raise ModelError(f"{checkpoint.root}: the input limit is {found} tokens; it must be at least 1")
    return found


def _special_ids(checkpoint: Checkpoint) -> dict[str, int]:
    """Ids of the padding, first and separating token: by the tokenizer's names, else from config.json; -1 if none."""
    config, names = checkpoint.config, checkpoint.optional_json("tokenizer_config.json")
    added = {t["content"]: int(t["id"]) for t in checkpoint.optional_json("tokenizer.json").get("added_tokens", [])}

    def find(key: str, *others: str) -> int:
        for other in (key, *others):
            token = names.get(f"{other}_token")
            content = token.get("content") if isinstance(token, dict) else token
            if content in added:
                return added[content]
        ids = [config.get(f"{other}_token_id") for other in (key, *others)]
        return next((int(i) for i in ids if isinstance(i, int)), -1)

    return {"pad": find("pad"), "cls": find("cls", "bos"), "sep": find("sep", "eos")}
