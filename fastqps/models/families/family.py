"""The record that a model family fills in: its keys in config.json, and how they are read. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.encoder import EncoderConfig, HeadConfig, TokenLogits, VocabularyHead
from fastqps.models.files.config_keys import CONFIG
from fastqps.models.files.generation_keys import GENERATION_RULES
from fastqps.models.files.keys import Keys, Rules
from fastqps.models.tokenizers.keys import BACKEND


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of checkpoints. ``tokenizer`` is the class of a checkpoint whose tokenizer files name none."""

    name: str  # on the model's card
    keys: Rules  # which keys of config.json are honoured, irrelevant or refused
    aliases: Mapping[str, str] = field(
        default_factory=dict
    )  # other names of keys; where both are there, the alias holds
    older: Mapping[str, str] = field(default_factory=dict)  # keys of older files, read where the others are absent
    tokenizer: str = BACKEND
    code: str = ""  # the published code that defines the family, where transformers has no class for it
    tokenizer_decides: bool = False  # ``tokenizer`` holds whatever class the files name

    def rules(self, generation_config: bool = False) -> Rules:
        """The rules of its keys. ``generation_config``: the checkpoint has a generation_config.json."""
        del generation_config
        return self.keys

    def config_keys(self, values: Mapping[str, Any], generation_config: bool = False) -> Keys:
        """The object of a config.json of this family; ``ModelError`` names a key that is refused."""
        renamed = {key: value for key, value in values.items() if key not in self.aliases}
        renamed |= {self.aliases[key]: value for key, value in values.items() if key in self.aliases}
        for key, newer in self.older.items():
            value = renamed.pop(key, None)
            if renamed.get(newer) is None and value is not None:
                renamed[newer] = value
        return Keys(CONFIG, renamed, self.rules(generation_config))


@dataclass(frozen=True, kw_only=True)
class EncoderFamily(Family):
    """A family of encoders. Both functions raise ``ModelError`` where a value is impossible or not supported."""

    decodes: bool = False  # its layers are a decoder's: a …ForCausalLM embeds where a modules.json says how
    read: Callable[[Mapping[str, Any]], EncoderConfig]
    read_head: Callable[[Mapping[str, Any]], HeadConfig] | None = None  # of a classifier; None: it has none
    # Reads the logits of a decoder's tokens, for labels that are tokens; None: it is no decoder.
    read_logits: Callable[[Mapping[str, Any]], TokenLogits] | None = None
    # Reads the head of a token classifier in front of its projection to labels. Its pooling has no meaning.
    read_token_head: Callable[[Mapping[str, Any]], HeadConfig] | None = None
    # Reads the head of a masked language model, for sparse embeddings; None: the family is not served as one.
    read_vocabulary_head: Callable[[Mapping[str, Any]], VocabularyHead] | None = None


@dataclass(frozen=True, kw_only=True)
class DecoderFamily(Family):
    """A family of decoders. ``read`` raises ``ModelError`` where a value is impossible or not supported."""

    encodes: bool = True  # its checkpoints are served as encoders, too: with a modules.json, or a head for scores
    classifies_tokens: bool = True  # transformers has a …ForTokenClassification of it
    read: Callable[[Mapping[str, Any]], DecoderConfig]

    def rules(self, generation_config: bool = False) -> Rules:
        """A generation_config.json alone says how to generate; without one, the keys of config.json do."""
        return self.keys | GENERATION_RULES[generation_config]
