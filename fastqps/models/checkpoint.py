"""A checkpoint directory: its configuration, its weights' files, its digest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fastqps.models.adapters import Adapter, read_adapter
from fastqps.models.adapters.base import check_base, check_tied, refuse_adapter, with_adapter
from fastqps.models.card import ModelCard, ModelError, Task
from fastqps.models.compressed_tensors import check_quantization
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily, family_of
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.encoder import EncoderConfig, HeadConfig, VocabularyHead
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.models.files import deciding_files
from fastqps.models.files.config_keys import CONFIG, config_warnings
from fastqps.models.files.json_files import optional_object, read_json, read_object
from fastqps.models.files.keys import Keys
from fastqps.models.files.pickles import pickled
from fastqps.models.files.regular import has_file
from fastqps.models.sentence_transformers.config import (
    SentenceConfig,
    lower_cases,
    read_multi_config,
    read_sentence_config,
    read_sparse_config,
)
from fastqps.models.sentence_transformers.keys import MODEL_FILE, TRANSFORMER_FILES
from fastqps.models.sentence_transformers.pipeline import Pipeline, read_pipeline
from fastqps.models.tokenizers.files import TokenizerFiles, read_tokenizer_files, tokenizer_source, without_tokenizer
from fastqps.models.tokenizers.vocabulary import split_markers

_FILL_MASKS = "ForMaskedLM"
_EMBED = ("Model", _FILL_MASKS, "ForPreTraining")  # architectures whose encoder can embed; their heads are left out
_CLASSIFY = "ForSequenceClassification"
_CLASSIFY_TOKENS = "ForTokenClassification"
_GENERATE = "ForCausalLM"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
DECIDING = (  # of a folder with weights, beside them
    "added_tokens.json",
    "config.json",
    "generation_config.json",
    "modules.json",
    MODEL_FILE,
    *TRANSFORMER_FILES,
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


@dataclass(frozen=True)
class Checkpoint:
    """The JSON side of one checkpoint. ``encoder`` is the folder with the transformer's config.json and weights."""

    root: Path
    encoder: Path
    config: Keys
    pipeline: Pipeline
    sentence: SentenceConfig
    family: EncoderFamily | DecoderFamily
    task: Task
    adapter: Adapter | None = None

    @classmethod
    def of(cls, card: ModelCard) -> Checkpoint:
        """The checkpoint of a card, with its adapter; ``ModelError`` as ``open``."""
        return cls.open(Path(card.path), Path(card.adapter) if card.adapter else None)

    @classmethod
    def open(cls, root: Path, adapter: Path | None = None) -> Checkpoint:
        """Reads the configuration; ``ModelError`` if it is not a model that can be served, with the reason.

        ``adapter``: the folder of one that is merged into the weights.
        """
        merged = read_adapter(adapter) if adapter else None
        pipeline = read_pipeline(root)
        encoder = root / pipeline.transformer
        refuse_adapter(encoder)
        family, config = _read_config(root, encoder)
        check_base(merged, root, config, pipeline)
        if isinstance(family, DecoderFamily):
            return cls._open_generator(root, config, family, merged)
        architectures = config.get("architectures") or ["Model"]
        architecture = (merged and merged.architecture) or str(architectures[0])
        if pipeline.splade:
            return cls._open_sparse(root, encoder, config, pipeline, family, architecture, merged)
        task: Task = "embed"
        if pipeline.scores and architecture.endswith(_CLASSIFY):
            task = "classify"
        elif pipeline.scores and architecture.endswith(_CLASSIFY_TOKENS):
            task = "classify_tokens"
        embed = (*_EMBED, _GENERATE) if family.decodes and not pipeline.scores else _EMBED
        alone = pipeline.scores and has_file(root / "modules.json")  # as a cross-encoder: then it has to give scores
        if task != "classify" and (alone or not architecture.endswith((*embed, _CLASSIFY, _CLASSIFY_TOKENS))):
            raise ModelError(
                f"{root}: architecture {architecture} is not supported; "
                f"supported: encoders (Model, ForMaskedLM), {_CLASSIFY} and {_CLASSIFY_TOKENS}"
            )
        if task != "embed" and family.read_head is None:
            raise ModelError(f"{root}: classifiers of a {family.name} are not supported; its embeddings are")
        if pipeline.multi:
            task, sentence = "embed_multi", read_multi_config(root, encoder, pipeline.skip_list)
        else:
            sentence = read_sentence_config(root, encoder, task == "classify", family.decodes)
        if not pipeline.pools_prompts:
            sentence = _without_prompts(root, sentence)
        checkpoint = cls(root, encoder, config, pipeline, sentence, family, task, merged)
        checkpoint._check_preprocessing()
        return checkpoint

    @classmethod
    def _open_sparse(
        cls,
        root: Path,
        encoder: Path,
        config: Keys,
        pipeline: Pipeline,
        family: EncoderFamily,
        architecture: str,
        merged: Adapter | None,
    ) -> Checkpoint:
        if not architecture.endswith(_FILL_MASKS):
            raise ModelError(
                f"{root}: architecture {architecture} is not supported; sparse embeddings are of a {_FILL_MASKS}"
            )
        sentence = read_sparse_config(root, encoder, pipeline.fills_masks)
        checkpoint = cls(root, encoder, config, pipeline, sentence, family, "embed_sparse", merged)
        checkpoint._check_preprocessing()
        return checkpoint

    @classmethod
    def _open_generator(cls, root: Path, config: Keys, family: DecoderFamily, adapter: Adapter | None) -> Checkpoint:
        kind, architecture = config["model_type"], str((config.get("architectures") or [_GENERATE])[0])
        if not architecture.endswith(_GENERATE):
            raise ModelError(
                f"{root}: architecture {architecture} is not supported; a {kind} has to be {_GENERATE}, "
                f"{_CLASSIFY} or {_CLASSIFY_TOKENS}, or have a modules.json that says how it embeds"
            )
        if adapter and adapter.architecture:
            raise ModelError(f"{adapter.root}: its task_type makes a classifier, and a {kind} has to generate")
        return cls(root, root, config, Pipeline(), SentenceConfig(), family, "generate", adapter)

    @property
    def generates(self) -> bool:
        """Whether it is a decoder."""
        return isinstance(self.family, DecoderFamily)

    def encoder_config(self) -> EncoderConfig:
        """The configuration of an encoder; ``ModelError`` with the reason where it cannot be computed."""
        return self._encoders.read(self.config)

    def head_config(self) -> HeadConfig:
        """The head of a classifier; ``ModelError`` with the reason where it cannot be computed."""
        read = self._encoders.read_head
        assert read, "a classifier's family has a head"
        return read(self.config)

    def token_head_config(self) -> HeadConfig | None:
        """What a token classifier has in front of its projection to labels; None: nothing."""
        read = self._encoders.read_token_head
        return read(self.config) if read else None

    def vocabulary_head(self) -> VocabularyHead:
        """The head of a masked language model; ``ModelError`` with the reason where it cannot be computed."""
        if (read := self._encoders.read_vocabulary_head) is None:
            served = ", ".join(
                n for n, f in FAMILIES.items() if isinstance(f, EncoderFamily) and f.read_vocabulary_head
            )
            raise ModelError(f"sparse embeddings of a {self.family.name} are not supported; supported: {served}")
        return read(self.config)

    def decoder_config(self) -> DecoderConfig:
        """The configuration of a decoder; ``ModelError`` with the reason where it cannot be computed."""
        if not isinstance(self.family, DecoderFamily):
            raise ModelError(f"{self.root}: a {self.family.name} is no decoder")
        config = self.family.read(self.config)
        check_tied(self.adapter, config.tied_head)
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
        found = [*config_warnings(self.config, self.family.code), *self.sentence.warnings, *self.pipeline.warnings]
        if self.task == "embed" and not has_file(self.root / "modules.json"):
            head = self.architecture.rpartition("For")[2] if "For" in self.architecture else ""
            left_out = f"The head of {self.architecture} is left out, and there" if head else "There"
            found.append(
                f"{left_out} is no modules.json: embeddings are the mean of all tokens' last states, not normalised, "
                "whatever the model was trained for."
            )
        if not self.tokenizer():
            found.append("There is no tokenizer.json: requests can send token ids alone.")
        return tuple(found)

    @property
    def architecture(self) -> str:
        """The first that config.json names; "" where it names none."""
        return str((self.config.get("architectures") or [""])[0])

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
        if self.sentence.lower_case and not lower_cases(self.optional_json("tokenizer.json").get("normalizer")):
            raise ModelError(
                f"{self.root}: do_lower_case needs a tokenizer.json that lower-cases first; this one does not"
            )

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
        if not path:
            return without_tokenizer(self.optional_json("tokenizer_config.json"))
        named = self.family.tokenizer, self.family.tokenizer_decides, self.config.get("tokenizer_class")
        found = read_tokenizer_files(Path(path), *named)
        markers = self.sentence.multi.markers if self.sentence.multi else ()
        if markers and (apart := split_markers(tokenizer_source(path, found.parts), markers)):
            return read_tokenizer_files(Path(path), *named, apart)
        return found

    def named_token(self, *names: str) -> int:
        """The id of the special token that the tokenizer's files know by one of these names; -1: they know none."""
        ids = self.tokenizer_files.ids
        return next((ids[f"{name}_token"] for name in names if f"{name}_token" in ids), -1)

    def weight_files(self) -> list[Path]:
        """The encoder's safetensors files: one, or the shards that the index names.

        As in transformers, the index has no effect beside a whole file.
        """
        single = self.encoder / WEIGHTS
        if has_file(single):
            return [single]
        index = self.encoder / INDEX
        if not has_file(index):
            found = pickled(path.name for path in self.encoder.iterdir())
            raise ModelError(
                f"{self.root}: no model.safetensors" + (f", and {found}" if found else "; no other weights are read")
            )
        listed = read_object(index).get("weight_map")
        if not isinstance(listed, dict) or not listed or not all(isinstance(name, str) for name in listed.values()):
            raise ModelError(f"{index}: weight_map has to name the file of each tensor")
        return [self._shard(index, name) for name in sorted(set(listed.values()))]

    def _shard(self, index: Path, name: str) -> Path:
        """``ModelError`` for a name that leads out of the folder of its index."""
        if not name or Path(name).name != name:
            raise ModelError(f"{index}: weight_map names {name!r}; a shard has to lie beside the index")
        if not has_file(path := self.encoder / name):
            raise ModelError(f"{index}: weight_map names {name!r}, which is no file")
        return path

    def digest(self) -> str:
        """12 hex digits of SHA-256 over the relative names and contents of all files that decide an answer."""
        return with_adapter(deciding_files.digest(self.root, self._deciding()), self.adapter)

    def stamp(self) -> str:
        """Stays the same while none of these files is written or replaced. Their contents are not read."""
        return deciding_files.stamp([*self._deciding(), *(self.adapter.files() if self.adapter else ())])

    def _deciding(self) -> list[Path]:
        files = {folder / name for folder in (self.root, self.encoder) for name in DECIDING}
        files.update(self.weight_files())
        if has_file(self.root / "modules.json"):
            for module in read_json(self.root / "modules.json"):
                folder = self.root / str(module.get("path", ""))
                files.update((folder / "config.json", folder / WEIGHTS))
        return [path for path in sorted(files) if has_file(path)]


def _without_prompts(root: Path, sentence: SentenceConfig) -> SentenceConfig:
    """Leaves out the prompts with a text: a step pools all tokens of an item."""
    texts = dict(sentence.prompts.texts)
    if texts.get(sentence.prompts.default):
        raise ModelError(
            f"{root}: default_prompt_name {sentence.prompts.default!r} with include_prompt false in the Pooling is not "
            "supported: the tokens of a prompt are pooled with the others; take the default out to serve it without"
        )
    left_out = ", ".join(repr(name) for name, text in texts.items() if text)
    if not left_out:
        return sentence
    warning = f"The prompts {left_out} cannot be named: include_prompt false in the Pooling is not supported for them."
    prompts = sentence.prompts.without_texts()
    return replace(sentence, prompts=prompts, warnings=(*sentence.warnings, warning))


def _read_config(root: Path, encoder: Path) -> tuple[EncoderFamily | DecoderFamily, Keys]:
    """The family, and config.json by its rules; ``ModelError`` for any other and for keys that are refused.

    A decoder with a modules.json, or with a head for scores, is an encoder: it generates nothing.
    """
    values = read_object(encoder / CONFIG)
    try:
        family = family_of(values.get("model_type"), values.get("position_embedding_type"))
        scores = str((values.get("architectures") or [""])[0]).endswith((_CLASSIFY, _CLASSIFY_TOKENS))
        if isinstance(family, DecoderFamily) and (scores or has_file(root / "modules.json")):
            family = encoder_of(family)
        config = family.config_keys(values, has_file(encoder / "generation_config.json"))
        check_quantization(config)
    except ModelError as error:
        raise ModelError(f"{root}: {error}") from error
    return family, config
