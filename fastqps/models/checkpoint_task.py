"""Decides the purpose of a checkpoint: its family, its task, and its sentence-transformers files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.adapters import Adapter
from fastqps.models.families import GENERATORS, DecoderFamily, EncoderFamily, family_of
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.models.files.compressed_tensors import check_quantization
from fastqps.models.files.config_keys import CONFIG
from fastqps.models.files.config_values import architectures
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import has_file, read_object
from fastqps.models.sentence_transformers.config import (
    SentenceConfig,
    read_multi_config,
    read_sentence_config,
    read_sparse_config,
)
from fastqps.models.sentence_transformers.keys import MODEL_FILE
from fastqps.models.sentence_transformers.pipeline import Pipeline

_FILL_MASKS = "ForMaskedLM"
_EMBED = ("Model", _FILL_MASKS, "ForPreTraining")  # architectures whose encoder can embed; their heads are left out
_CLASSIFY = "ForSequenceClassification"
_CLASSIFY_TOKENS = "ForTokenClassification"
_GENERATE = "ForCausalLM"
_GENERATES = (_GENERATE, "LMHeadModel", "ForConditionalGeneration")  # of any family


def task_of(
    root: Path,
    family: EncoderFamily | DecoderFamily,
    config: Keys,
    pipeline: Pipeline,
    adapter: Adapter | None,
    by_tokens: bool = False,
) -> str:
    """By the architecture that config.json or the adapter names, and modules.json; ``ModelError`` if it is none.

    ``by_tokens``: labels are tokens of a decoder's vocabulary.
    """
    named = architectures(config)[0]
    if isinstance(family, DecoderFamily):
        _check_generator(root, str(config["model_type"]), named or _GENERATE, adapter)
        return "generate"
    if by_tokens:
        _check_logits(root, family, named, adapter)
        return "classify"
    architecture = (adapter and adapter.architecture) or named or "Model"
    if pipeline.splade:
        if not architecture.endswith(_FILL_MASKS):
            raise ModelError(
                f"{root}: architecture {architecture} is not supported; sparse embeddings are of a {_FILL_MASKS}"
            )
        return "embed_sparse"
    return _encoder_task(root, family, pipeline, architecture)


def _check_generator(root: Path, kind: str, architecture: str, adapter: Adapter | None) -> None:
    if not architecture.endswith((_GENERATE, "LMHeadModel")):
        raise ModelError(
            f"{root}: architecture {architecture} is not supported; a {kind} has to be {_GENERATE}, "
            f"{_CLASSIFY} or {_CLASSIFY_TOKENS}, or have a modules.json that says how it embeds"
        )
    if adapter and adapter.architecture:
        raise ModelError(f"{adapter.root}: its task_type makes a classifier, and a {kind} has to generate")


def _check_logits(root: Path, family: EncoderFamily, architecture: str, adapter: Adapter | None) -> None:
    if not architecture.endswith(_GENERATES):
        raise ModelError(
            f"{root}: labels that are tokens are of a {_GENERATE}, whose logits are their scores, and this is a "
            f"{architecture or 'Model'}"
        )
    if family.read_logits is None:
        raise ModelError(f"{root}: scores of tokens are not supported for a {family.name}")
    if adapter and adapter.architecture:
        raise ModelError(f"{adapter.root}: its task_type makes a classifier with labels of its own")


def _encoder_task(root: Path, family: EncoderFamily, pipeline: Pipeline, architecture: str) -> str:
    task = "embed"
    if pipeline.scores and architecture.endswith(_CLASSIFY):
        task = "classify"
    elif pipeline.scores and architecture.endswith(_CLASSIFY_TOKENS):
        task = "classify_tokens"
    embed = (*_EMBED, _GENERATE) if family.decodes and not pipeline.scores else _EMBED
    alone = pipeline.scores and has_file(root / "modules.json")  # as a cross-encoder: then it has to give scores
    if task != "classify" and (alone or not architecture.endswith((*embed, _CLASSIFY, _CLASSIFY_TOKENS))):
        if architecture.endswith(_GENERATES):
            other = "embeds or classifies" if family.read_head else "embeds"
            raise ModelError(
                f"{root}: generation with {architecture} is not supported: a {family.name} {other} here; "
                f"these generate: {', '.join(GENERATORS)}"
            )
        raise ModelError(
            f"{root}: architecture {architecture} is not supported; "
            f"supported: encoders (Model, ForMaskedLM), {_CLASSIFY} and {_CLASSIFY_TOKENS}"
        )
    if task != "embed" and family.read_head is None:
        raise ModelError(f"{root}: classifiers of a {family.name} are not supported; its embeddings are")
    return "embed_multi" if pipeline.multi else task


def read_sentences(root: Path, encoder: Path, family: EncoderFamily, pipeline: Pipeline, task: str) -> SentenceConfig:
    """The files of sentence-transformers, of a model for ``task``; ``ModelError`` for what is not supported."""
    if task == "embed_sparse":
        return read_sparse_config(root, encoder, pipeline.fills_masks)
    if task == "embed_multi":
        sentence = read_multi_config(root, encoder, pipeline.skip_list)
    else:
        logits = pipeline.logit_score is not None
        sentence = read_sentence_config(root, encoder, task == "classify", family.decodes, logits=logits)
    return sentence if pipeline.pools_prompts else _without_prompts(root, sentence)


def _without_prompts(root: Path, sentence: SentenceConfig) -> SentenceConfig:
    """Leaves out the prompts with a text: a step pools all tokens of an item."""
    texts = dict(sentence.prompts.texts)
    if texts.get(sentence.prompts.default):
        raise ModelError(
            f"{root}: default_prompt_name {sentence.prompts.default!r} with include_prompt false in the Pooling is not "
            f"supported: the tokens of a prompt are pooled with the others. If you take it out of {MODEL_FILE}, "
            "vectors are those of texts without a prompt, which differ from the model's own"
        )
    left_out = ", ".join(repr(name) for name, text in texts.items() if text)
    if not left_out:
        return sentence
    warning = f"The prompts {left_out} cannot be named: include_prompt false in the Pooling is not supported for them."
    prompts = sentence.prompts.without_texts()
    return replace(sentence, prompts=prompts, warnings=(*sentence.warnings, warning))


def read_config(root: Path, encoder: Path, by_tokens: bool = False) -> tuple[EncoderFamily | DecoderFamily, Keys]:
    """The family, and config.json by its rules; ``ModelError`` for any other and for keys that are refused.

    A decoder with a modules.json, with a head for scores, or whose tokens are labels (``by_tokens``) is an encoder: it
    generates nothing.
    """
    values = read_object(encoder / CONFIG)
    try:
        architecture, listed = architectures(values)[0], has_file(root / "modules.json")
        generates = architecture.endswith(_GENERATES) and not listed
        family = family_of(values.get("model_type"), values.get("position_embedding_type"), generates=generates)
        scores = by_tokens or architecture.endswith((_CLASSIFY, _CLASSIFY_TOKENS))
        if isinstance(family, DecoderFamily) and (scores or listed):
            family = encoder_of(family)
        config = family.config_keys(values, has_file(encoder / "generation_config.json"))
        check_quantization(config)
    except ModelError as error:
        raise ModelError(f"{root}: {error}") from error
    return family, config
