"""A checkpoint directory: its configuration, its weights' files, its digest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.adapters import Adapter, read_adapter
from fastqps.models.adapters.base import check_base, check_tied, refuse_adapter, with_adapter
from fastqps.models.card import ModelCard
from fastqps.models.chat.reading import has_chat_template
from fastqps.models.checkpoint_task import read_config, read_sentences, task_of
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.encoder import EncoderConfig, HeadConfig, TokenLogits, VocabularyHead
from fastqps.models.files import deciding_files
from fastqps.models.files.config_keys import config_warnings
from fastqps.models.files.config_values import architectures
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import has_file, optional_object, read_json
from fastqps.models.files.tensors import WEIGHTS, weight_files
from fastqps.models.files.ways_out import SETFIT_HEAD, about_setfit, about_tokenizer, about_vocabulary_head
from fastqps.models.sentence_transformers.config import SentenceConfig, lower_cases
from fastqps.models.sentence_transformers.keys import DECIDING
from fastqps.models.sentence_transformers.pipeline import Pipeline, read_pipeline
from fastqps.models.tokenizers.files import (
    Side,
    TokenizerFiles,
    read_tokenizer_files,
    tokenizer_source,
    without_tokenizer,
)
from fastqps.models.tokenizers.keys import CONFIG as TOKENIZER_CONFIG
from fastqps.models.tokenizers.vocabulary import split_markers


@dataclass(frozen=True)
class Checkpoint:
    """The JSON side of one checkpoint. ``encoder`` is the folder with the transformer's config.json and weights."""

    root: Path
    encoder: Path
    config: Keys
    pipeline: Pipeline
    sentence: SentenceConfig
    family: EncoderFamily | DecoderFamily
    task: str  # of TASKS
    adapter: Adapter | None = None
    by_tokens: bool = False  # it classifies, and its labels are tokens of its vocabulary

    @classmethod
    def of(cls, card: ModelCard) -> Checkpoint:
        """The checkpoint of a card, with its adapter; ``ModelError`` as ``open``."""
        return cls.open(Path(card.path), Path(card.adapter) if card.adapter else None, by_tokens=bool(card.label_ids))

    @classmethod
    def open(cls, root: Path, adapter: Path | None = None, *, by_tokens: bool = False) -> Checkpoint:
        """Reads the configuration; ``ModelError`` if it is not a model that can be served, with the reason.

        ``adapter``: the folder of one that is merged into the weights. ``by_tokens``: labels are tokens of its
        vocabulary, as they are if its files have a LogitScore.
        """
        merged = read_adapter(adapter) if adapter else None
        pipeline = read_pipeline(root)
        encoder = root / pipeline.transformer
        refuse_adapter(encoder)
        if by_tokens and has_file(root / "modules.json") and not pipeline.logit_score:
            raise ModelError(f"{root / 'modules.json'}: its modules say what the model gives, which are no labels")
        by_tokens = by_tokens or pipeline.logit_score is not None
        family, config = read_config(root, encoder, by_tokens)
        check_base(merged, root, config, pipeline)
        task = task_of(root, family, config, pipeline, merged, by_tokens)
        sentence = SentenceConfig()
        if isinstance(family, EncoderFamily):
            sentence = read_sentences(root, encoder, family, pipeline, task)
        checkpoint = cls(root, encoder, config, pipeline, sentence, family, task, merged, by_tokens)
        checkpoint._check_preprocessing()
        return checkpoint

    @property
    def generates(self) -> bool:
        """Whether it is a decoder."""
        return isinstance(self.family, DecoderFamily)

    def encoder_config(self) -> EncoderConfig:
        """The configuration of an encoder; ``ModelError`` with the reason where it cannot be computed."""
        config = self._encoders.read(self.config)
        check_tied(self.adapter, config.tied_modules)
        return config

    def head_config(self) -> HeadConfig:
        """The head of a classifier; ``ModelError`` with the reason where it cannot be computed."""
        read = self._encoders.read_head
        assert read, "a classifier's family has a head"
        return read(self.config)

    def token_head_config(self) -> HeadConfig | None:
        """The head of a token classifier in front of its projection to labels; None: it has none."""
        read = self._encoders.read_token_head
        return read(self.config) if read else None

    def token_logits(self) -> TokenLogits:
        """The logits of tokens, where they are labels."""
        read = self._encoders.read_logits
        assert read, "a checkpoint with labels that are tokens has logits"
        logits = read(self.config)
        check_tied(self.adapter, ("lm_head", logits.module) if logits.module != "lm_head" else ())
        return logits

    def vocabulary_head(self) -> VocabularyHead:
        """The head of a masked language model; ``ModelError`` with the reason where it cannot be computed."""
        if (read := self._encoders.read_vocabulary_head) is None:
            served = ", ".join(
                n for n, f in FAMILIES.items() if isinstance(f, EncoderFamily) and f.read_vocabulary_head
            )
            raise ModelError(f"sparse embeddings of a {self.family.name} are not supported; supported: {served}")
        head = read(self.config)
        check_tied(self.adapter, head.tied_modules)
        return head

    def decoder_config(self) -> DecoderConfig:
        """The configuration of a decoder; ``ModelError`` with the reason where it cannot be computed."""
        if not isinstance(self.family, DecoderFamily):
            raise ModelError(f"{self.root}: a {self.family.name} is no decoder")
        config = self.family.read(self.config)
        check_tied(self.adapter, config.tied_modules)
        return config

    @property
    def labels_name(self) -> str:
        """The name of a classifier's projection to labels."""
        head = self.token_head_config() if self.task == "classify_tokens" else self.head_config()
        return head.labels if head else "classifier"

    @property
    def _encoders(self) -> EncoderFamily:
        if not isinstance(self.family, EncoderFamily):
            raise ModelError(f"{self.root}: a {self.family.name} is no encoder")
        return self.family

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator about the files, a sentence each."""
        warnings = [*config_warnings(self.config, self.family.code), *self.sentence.warnings, *self.pipeline.warnings]
        if self.task == "embed" and not has_file(self.root / "modules.json"):
            head = self.architecture.rpartition("For")[2] if "For" in self.architecture else ""
            left_out = f"The head of {self.architecture} is left out, and there" if head else "There"
            warnings.append(
                f"{left_out} is no modules.json: embeddings are the mean of all tokens' last states, not normalised, "
                "whatever the model was trained for."
            )
            if head == "MaskedLM" and self._encoders.read_vocabulary_head:
                warnings.append(about_vocabulary_head())
        if has_file(self.root / SETFIT_HEAD):
            warnings.append(about_setfit())
        if not self.tokenizer():
            warnings.append(about_tokenizer(self.encoder))
        return tuple(warnings)

    @property
    def architecture(self) -> str:
        """The first that config.json names; "" where it names none."""
        return architectures(self.config)[0]

    @property
    def cross_encoder(self) -> bool:
        """Whether its files say that it scores pairs of texts, as sentence-transformers writes them."""
        if self.task != "classify":
            return False
        listed = has_file(self.root / "modules.json")  # the transformer alone
        own = self.config.get("sentence_transformers") or self.config.get("sbert_ce_default_activation_function")
        return listed or self.sentence.cross_encoder or bool(own)

    def _check_preprocessing(self) -> None:
        """Refuses what sentence-transformers would do to a text before its tokenizer sees it."""
        if self.sentence.lower_case and not lower_cases(self._normalizer()):
            raise ModelError(
                f"{self.root}: do_lower_case needs a normalizer that lower-cases first; that of tokenizer.json, or of "
                "the class that tokenizer_config.json names, does not"
            )
        built_anew = not has_file(self.root / "modules.json") and (self.task == "embed" or self.cross_encoder)
        if built_anew and (place := has_chat_template(self.encoder)):
            raise ModelError(
                f"{self.root}: {place} has a chat template and there is no modules.json: sentence-transformers renders "
                "every input through the template, which is not supported; delete the template to serve plain texts"
            )

    def _normalizer(self) -> Any:
        """That of tokenizer.json, or the one that its class puts in the place."""
        parts = json.loads(self.tokenizer_files.parts or "{}")
        return (self.optional_json("tokenizer.json") | parts).get("normalizer")

    def optional_json(self, name: str) -> dict[str, Any]:
        """A JSON file beside the encoder's weights, or an empty object where there is none."""
        return optional_object(self.encoder / name)

    def tokenizer(self) -> str:
        """The path of the tokenizer.json beside the weights, or "" where there is none."""
        path = self.encoder / "tokenizer.json"
        return str(path) if has_file(path) else ""

    @cached_property
    def tokenizer_files(self) -> TokenizerFiles:
        """The parts that tokenizer.json and the files beside it state; ``ModelError`` where they cannot be honoured."""
        path = self.tokenizer()
        side: Side = "left" if self.task == "generate" else "right"  # a prompt's last words are what it asks
        if not path:
            return without_tokenizer(self.optional_json(TOKENIZER_CONFIG), side)
        named = self.family.tokenizer, self.family.tokenizer_decides, self.config.get("tokenizer_class")
        files = read_tokenizer_files(Path(path), *named, usual_side=side)
        markers = self.sentence.multi.markers if self.sentence.multi else ()
        if markers and (apart := split_markers(tokenizer_source(path, files.parts), markers)):
            return read_tokenizer_files(Path(path), *named, usual_side=side, markers=apart)
        return files

    def named_token(self, *names: str) -> int:
        """The id of the special token that the tokenizer's files know by one of these names; -1: they know none."""
        ids = self.tokenizer_files.ids
        return next((ids[f"{name}_token"] for name in names if f"{name}_token" in ids), -1)

    def weight_files(self) -> list[Path]:
        """The encoder's safetensors files: one, or the shards that the index names."""
        return weight_files(self.root, self.encoder)

    def digest(self) -> str:
        """12 hex digits of SHA-256 over the relative names and contents of all files that decide an answer."""
        return with_adapter(deciding_files.digest(self.root, self.deciding()), self.adapter)

    def stamp(self) -> str:
        """Stays the same while none of these files is written or replaced."""
        return deciding_files.stamp([*self.deciding(), *(self.adapter.files() if self.adapter else ())])

    def deciding(self) -> list[Path]:
        """All files that decide an answer, without those of an adapter."""
        files = {folder / name for folder in (self.root, self.encoder) for name in DECIDING}
        files.update(self.weight_files())
        if has_file(self.root / "modules.json"):
            for module in read_json(self.root / "modules.json"):
                folder = self.root / str(module.get("path", ""))
                files.update((folder / "config.json", folder / WEIGHTS))
        return [path for path in sorted(files) if has_file(path)]
