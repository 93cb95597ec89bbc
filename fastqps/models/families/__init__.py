"""Model families: one module for each, and the table that gives every ``model_type`` its family. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fastqps.errors import ModelError
from fastqps.models.families import (
    albert,
    bert,
    deberta_v2,
    distilbert,
    electra,
    gemma,
    gemma2,
    gemma3_text,
    gpt2,
    gpt_neox,
    granite,
    granitemoehybrid,
    gte,
    jina_bert,
    llama,
    mistral,
    modernbert,
    mpnet,
    new,
    nomic_bert,
    olmo2,
    opt,
    phi3,
    qwen2,
    qwen3,
    roberta,
    smollm3,
    stablelm,
    t5,
)
from fastqps.models.families.family import DecoderFamily, EncoderFamily
from fastqps.models.families.nearest import advice

__all__ = ["FAMILIES", "GENERATORS", "DecoderFamily", "EncoderFamily", "family_of"]

FAMILIES: Mapping[str, EncoderFamily | DecoderFamily] = {
    "bert": bert.FAMILY,
    "jina_bert": jina_bert.FAMILY,
    "distilbert": distilbert.FAMILY,
    "roberta": roberta.FAMILY,
    "xlm-roberta": replace(roberta.FAMILY, tokenizer="XLMRobertaTokenizer"),
    "camembert": replace(roberta.FAMILY, tokenizer="CamembertTokenizer"),
    "electra": electra.FAMILY,
    "albert": albert.FAMILY,
    "mpnet": mpnet.FAMILY,
    "deberta-v2": deberta_v2.FAMILY,
    "nomic_bert": nomic_bert.FAMILY,
    "gte": gte.FAMILY,
    "new": new.FAMILY,
    "modernbert": modernbert.FAMILY,
    "t5": t5.FAMILY,
    "gemma": gemma.FAMILY,
    "gemma2": gemma2.FAMILY,
    "gemma3_text": gemma3_text.FAMILY,
    "llama": llama.FAMILY,
    "mistral": mistral.FAMILY,
    "ministral": mistral.FAMILY,
    "qwen2": qwen2.FAMILY,
    "qwen3": qwen3.FAMILY,
    "smollm3": smollm3.FAMILY,
    "phi3": phi3.FAMILY,
    "gpt2": gpt2.FAMILY,
    "opt": opt.FAMILY,
    "gpt_neox": gpt_neox.FAMILY,
    "olmo2": olmo2.FAMILY,
    "granite": granite.FAMILY,
    "granitemoehybrid": granitemoehybrid.FAMILY,
    "stablelm": stablelm.FAMILY,
}


GENERATORS = tuple(name for name, family in FAMILIES.items() if isinstance(family, DecoderFamily))


def family_of(
    model_type: object, positions: object = None, *, generates: bool = False
) -> EncoderFamily | DecoderFamily:
    """The family of that name in config.json; ``ModelError`` for any other name.

    ``positions`` is the file's position_embedding_type, by which JinaBERT differs: its files call it a ``bert``.
    ``generates``: the checkpoint is a decoder, and an error names the families that generate.
    """
    if (model_type, positions) == ("bert", "alibi"):
        return jina_bert.FAMILY
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        wanted = "generation with model_type" if generates else "model_type"
        known = ", ".join(GENERATORS if generates else FAMILIES)
        raise ModelError(f"{wanted} {model_type!r} is not supported{advice(model_type)}; supported: {known}")
    return FAMILIES[model_type]
