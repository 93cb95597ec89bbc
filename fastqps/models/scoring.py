"""What a checkpoint's files and its operator say about scores: labels that are tokens, and the template of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.chat.reading import chat_template, has_chat_template
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.files.reading import has_file, read_regular
from fastqps.models.scores.labels import LabelTokens, labels_of, read_labels
from fastqps.models.scores.reading import Messages, Templates, read_templates
from fastqps.models.tokenizers.files import tokenizer_source

PACKAGED = ("bge-reranker-v2-gemma", "qwen3-reranker")
"""Templates that fastqps brings, which ``--template`` takes by name."""
_BARE = ("bge-reranker-v2-gemma",)  # whose labels have no space in front, however they end
_BYTES_MAX = 1 << 20
_FOLDER = Path(__file__).parents[1] / "data" / "templates"
# Of a chat template whose answer is a label: it follows at once.
_OF_LABELS: Mapping[str, Any] = {"add_generation_prompt": True, "enable_thinking": False}
# What a template has that takes contents as lists of parts, as sentence-transformers finds out.
_STRUCTURED = ("content[0]", ".type", "'type'", '"type"', "item.type", "message.content[")


@dataclass(frozen=True)
class Scoring:
    """None: labels have a head of their own; inputs are tokenized as they come."""

    tokens: LabelTokens | None = None
    templates: Templates | None = None


def read_scoring(checkpoint: Checkpoint, labels: Sequence[str], template: str) -> Scoring:
    """``labels``: tokens by their texts, instead of a head. ``template``: a file's path, or one of ``PACKAGED``.

    ``ModelError`` for what does not fit the checkpoint.
    """
    path, score = checkpoint.tokenizer(), checkpoint.pipeline.logit_score
    if labels and score:
        raise ModelError(f"{checkpoint.root}: --labels: its files name the labels: a LogitScore of modules.json")
    if template and checkpoint.task != "classify":
        raise ModelError(f"{checkpoint.root}: --template is for scores, and the model's task is {checkpoint.task}")
    if (labels or template) and not path:
        raise ModelError(f"{checkpoint.root}: --labels and --template need a tokenizer.json, and there is none")
    source = tokenizer_source(path, checkpoint.tokenizer_files.parts) if path else ""
    templates = _templates(checkpoint, template, bool(labels), source)
    if labels:
        spaced = not templates or (templates.ends_in_word and template not in _BARE)
        return Scoring(read_labels(source, labels, spaced=spaced), templates)
    return Scoring(labels_of(score, source) if score else None, templates)


def _templates(checkpoint: Checkpoint, given: str, labelled: bool, source: str) -> Templates | None:
    sentence = checkpoint.sentence
    if given:
        text, where = _given(given), f"--template {given}"
        return _read(checkpoint, text, where, Messages(_structured(text), _OF_LABELS, plain=True), source)
    if not sentence.messages and not labelled:
        return None
    where = has_chat_template(checkpoint.encoder)
    if not where and sentence.messages in ("", "auto"):
        return None
    if not where:
        raise ModelError(f"{checkpoint.root}: its texts are messages, and its tokenizer has no chat template")
    text = chat_template(checkpoint.encoder)
    structured = sentence.messages == "structured" or (sentence.messages in ("", "auto") and _structured(text))
    variables = _OF_LABELS if labelled else sentence.template_variables
    return _read(checkpoint, text, f"{checkpoint.root}: {where}", Messages(structured, variables), source)


def _read(checkpoint: Checkpoint, text: str, where: str, messages: Messages, source: str) -> Templates:
    prompts = checkpoint.sentence.prompts
    by_name = dict(prompts.texts)
    variables = {**checkpoint.tokenizer_files.names, **messages.variables}
    return read_templates(
        text,
        Messages(messages.structured, variables, messages.plain),
        {"": by_name.get(prompts.default, ""), **by_name},
        source,
        where,
    )


def _given(template: str) -> str:
    path = _FOLDER / f"{template}.jinja" if template in PACKAGED else Path(template).expanduser()
    if not has_file(path):
        known = ", ".join(PACKAGED)
        raise ModelError(f"--template {template!r}: neither a file nor one of those that fastqps brings: {known}")
    try:
        return read_regular(path, _BYTES_MAX).decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"--template {template}: not UTF-8 at byte {error.start}") from None


def _structured(template: str) -> bool:
    return any(mark in template for mark in _STRUCTURED)
