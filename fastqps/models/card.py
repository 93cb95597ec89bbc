"""The card of a served model, read from the JSON files of its checkpoint. No torch here: front doors read cards too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastqps._core import TASKS, TaskTraits
from fastqps.errors import ModelError
from fastqps.models.chat.card import ChatCard, frozen
from fastqps.models.files.config_values import Activation
from fastqps.models.files.generation_keys import LogitOptions
from fastqps.models.scores.template import TextTemplate, filled
from fastqps.models.tokenizers.tokenizer import SpecialTokens

KV_PADDING_SLOTS = 1  # of a KV cache: no sequence's, for rows that fill a step up


class LimitError(ModelError):
    """The limits asked for do not fit in the model's context. Each setting of ``lower`` alone could make them fit."""

    def __init__(self, message: str, lower: tuple[str, ...]) -> None:
        super().__init__(message)
        self.lower = lower


@dataclass(frozen=True)
class InputRole:
    """A role that an input can have in a model with a vector for each token.

    A query, a document, or any other input, whose ``name`` is "". A request names the role by its prompt's name.
    """

    name: str
    max_tokens: int
    expanded_to: int = 0  # tokens of a shorter input, which ``expansion_id`` fills up; 0: none are added
    expansion_id: int = 0
    skipped: tuple[int, ...] = ()  # ids of tokens that get no vector, ascending
    refusal: str = ""  # why such an input is refused; "": it is not


@dataclass(frozen=True)
class ModelCard:
    """One served model: everything the front door and the C++ steps need to know about it.

    ``dimensions`` is the width of one output row: the embedding's size, or the number of labels. There is a row for
    each item, or where ``traits.by_token`` says so for each token. A runner's row is
    raw: the pooled and projected vector, or the logits; ``normalize`` and ``activation`` say what ``scatter`` does.
    A row of a sparse embedding holds ``max_active_dims`` weights, the largest, in any order; as many token ids, which
    are theirs; and the number of all weights above zero. Those behind that number are zeros, with ids of no meaning.
    A generator has no such row: its ``dimensions`` is 0.
    """

    name: str
    path: str
    version: str  # 12 hex digits of a digest over every file that decides an answer
    task: str  # of TASKS
    family: str  # the name in its module of fastqps/models/families
    dimensions: int
    max_input_tokens: int  # special tokens included, a prefix not
    vocab_size: int  # token ids given by clients must be smaller
    tokenizer: str  # path of tokenizer.json; "" if the checkpoint has none (then only token ids can be served)
    cuts_left: bool = False  # an input that is too long keeps its end
    labels: tuple[str, ...] = ()
    label_ids: tuple[int, ...] = ()  # of labels that are tokens of a decoder's vocabulary; (): they have a head
    against_id: int = -1  # the token whose logit is taken off that of each label; -1: none
    normalize: bool = False
    activation: Activation = "identity"
    position_offset: int = 0  # position id of a first token; RoBERTa: padding id + 1, and padding is not counted
    second_segment_type: int = 0  # token type id of a pair's second text
    pad_id: int = 0
    cls_id: int = -1  # -1: the checkpoint names none
    sep_id: int = -1
    max_active_dims: int = 0  # of a sparse embedding: the most dimensions with a weight that an answer has
    unknown_id: int = -1  # of a token classifier: the token for what its vocabulary lacks; -1: there is none
    max_output_tokens: int = 0  # of a generator: most tokens of one answer
    eos_ids: tuple[int, ...] = ()  # of a generator: tokens that end a text
    prefix_ids: tuple[int, ...] = ()  # in front of every prompt, the special tokens that begin a text included
    opening_ids: tuple[int, ...] = ()  # of an encoder: what inputs begin with, whose keys and values are computed once
    stamp: str = ""  # of the files as they lay there: while it is the same they are; "": nobody has looked
    kv_values: int = 0  # of a generator: numbers that a token leaves in the KV cache: layers × 2 × KV heads × head size
    pairs_only: bool = False  # a cross-encoder: a single text is refused
    logit_options: LogitOptions | None = None  # of a generator: the checkpoint's; None: logits are sampled as they are
    tokenizer_parts: str = ""  # JSON of what replaces parts of tokenizer.json, as the files beside it say; "": nothing
    empty_id: int = -1  # of a static model: the id that stands for a text without tokens; it names no vector
    max_characters: int = 0  # of a static model: characters that a text may have; 0: any number
    adapter: str = ""  # the folder of what is merged into its weights; "": nothing
    prompts: tuple[tuple[str, str], ...] = ()  # (name, text) of what requests can have put in front of their texts
    default_prompt: str = ""  # the name of the one that stands there where a request names none; "": none
    templates: tuple[TextTemplate, ...] = ()  # by prompt; (): inputs are tokenized as they come, behind their prompt
    roles: tuple[InputRole, ...] = ()  # of a model with a vector for each token; the first: of no prompt's name
    chat: ChatCard | None = None  # of a generator: the checkpoint's chat template; None: it takes no chats
    warnings: tuple[str, ...] = ()  # what its operator should know, a sentence each: a limit, a head that is left out

    @property
    def static(self) -> bool:
        """Whether it is a table of vectors by token id, without a transformer."""
        return self.empty_id >= 0

    @property
    def traits(self) -> TaskTraits:
        """What there is to ask of its task."""
        return TASKS[self.task]

    @property
    def generates(self) -> bool:
        """Whether its answers are generated token by token."""
        return self.traits.form == "tokens"

    def cut(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        """At most ``limit`` of a client's token ids, cut where the tokenizer cuts a text."""
        return ids[len(ids) - limit :] if self.cuts_left and len(ids) > limit else ids[:limit]

    def role(self, prompt_name: str) -> InputRole:
        """How an input is taken whose request names this prompt, or none if it is ""."""
        plain = InputRole("", self.max_input_tokens)
        return next((role for role in self.roles if role.name == prompt_name), (*self.roles, plain)[0])

    def prompt(self, name: str) -> str:
        """The text of the prompt ``name``; "": the default one's. ``ValueError`` lists the names for any other."""
        texts = dict(self.prompts)
        if not name:
            return texts.get(self.default_prompt, "")
        if name not in texts:
            known = f"'{self.name}' has {', '.join(map(repr, texts))}" if texts else f"'{self.name}' has no prompts"
            raise ValueError(f"prompt_name: {name[:60]!r}, but the model {known}; put another in front of the text")
        return texts[name]

    def worded(self, item: str | tuple[str, str], prompt_name: str) -> str | tuple[str, str]:
        """What is tokenized of a text or a pair: with its prompt, or in its template. ``ValueError`` as ``prompt``."""
        prompt = self.prompt(prompt_name)
        if not self.templates:
            return prompt + item if isinstance(item, str) else (prompt + item[0], item[1])
        template = next(each for each in self.templates if each.name == prompt_name)
        parts = template.text if isinstance(item, str) else template.pair
        if not parts:
            one, other = ("text", "pair of texts") if isinstance(item, str) else ("pair of texts", "text")
            raise ValueError(f"the template of {self.name} has no place for a {one}; give a {other}")
        return filled(parts, *([item] if isinstance(item, str) else item))

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens that the tokenizer adds to a text. After a prefix it adds none at the beginning."""
        if self.static:
            return "none"
        return "trailing" if self.prefix_ids else "all"

    @property
    def kv_positions(self) -> int:
        """Positions of a generator's cache slot: a whole sequence without the prefix, which lies elsewhere, once."""
        return self.max_input_tokens + self.max_output_tokens

    def kv_numbers(self, slots: int) -> int:
        """The numbers in the KV cache of this many sequences, with the padding and one copy of the prefix."""
        return ((slots + KV_PADDING_SLOTS) * self.kv_positions + len(self.prefix_ids)) * self.kv_values

    def to_json(self) -> str:
        """The card as one JSON object; ``from_json`` gives back an equal card."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> ModelCard:
        """The card that ``to_json`` wrote."""
        fields: dict[str, Any] = {key: frozen(value) for key, value in json.loads(text).items()}
        options = fields["logit_options"]
        roles = tuple(InputRole(**role) for role in fields["roles"])
        templates = tuple(TextTemplate(**template) for template in fields["templates"])
        chat = fields["chat"] and ChatCard.of(fields["chat"])
        more = {"logit_options": options and LogitOptions(**options), "roles": roles, "templates": templates}
        return ModelCard(**{**fields, **more, "chat": chat})


def shorter(limit: int, own: int, whose: str = "the model takes") -> tuple[str, ...]:
    """One sentence where ``limit`` is below ``own``; else nothing. All in tokens."""
    if limit >= own:
        return ()
    return (
        f"Inputs have at most {limit} tokens and {whose} {own}: longer ones are refused, or cut where a request says "
        "truncate; --max-input-tokens (max_input_tokens of Engine) sets the limit.",
    )
