"""The card of an encoder: what it gives, how long its inputs may be, how its scores are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastqps.models.card import Activation, ModelCard, ModelError
from fastqps.models.checkpoint import PROMPTS, Checkpoint

_SIZE_END = 1 << 31


def encoder_card(checkpoint: Checkpoint, name: str, max_input_tokens: int) -> ModelCard:
    """The card of ``checkpoint`` under ``name``; ``ModelError`` if its numbers are impossible."""
    config, root = checkpoint.config, checkpoint.root
    labels = _labels(config) if checkpoint.classify else ()
    _check_sizes(root, config)
    dense = checkpoint.pipeline.dense
    width = dense[-1].out_features if dense else int(config.get("hidden_size") or config["dim"])
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
        tokenizer=checkpoint.tokenizer(),
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
        if type(size) is not int or not 0 < size < _SIZE_END:
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
    saved = checkpoint.optional_json(PROMPTS)
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

    def find(*names: str) -> int:
        named = checkpoint.named_token(*names)
        ids = [checkpoint.config.get(f"{name}_token_id") for name in names]
        return named if named >= 0 else next((int(i) for i in ids if isinstance(i, int)), -1)

    return {"pad": find("pad"), "cls": find("cls", "bos"), "sep": find("sep", "eos")}
