"""The card of a generator: its limits, the tokens that end its answers, and the prefix that all prompts share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from fastqps._core import Detokenizer
from fastqps.errors import ModelError
from fastqps.models.card import LimitError, ModelCard, shorter
from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.reading import read_chat
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.counts import check_counts
from fastqps.models.files.generation_keys import (
    GENERATION_CONFIG,
    generation_keys,
    generation_warnings,
    read_logit_options,
)
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import has_file
from fastqps.models.tokenizers.files import tokenizer_source
from fastqps.models.tokenizers.tokenizer import SpecialTokens, Tokenizer
from fastqps.models.tokenizers.vocabulary import content_of

PROMPT_TOKENS_DEFAULT = 512  # every place in the KV cache has room for the longest prompt
ANSWER_TOKENS_DEFAULT = 1024  # and for the longest answer; clients ask for 256 unasked, and for more
ANSWER_TOKENS_LEAST = 128
_ID_END = 1 << 31  # token ids are int32 in a step
_ENDLESS = (
    f"No eos_token_id ends a text: {GENERATION_CONFIG} names none, or without that file config.json. As in "
    "transformers, answers end at their limit, their stop texts or stop tokens."
)
_RANKS = "It generates, and its name says that it ranks: --labels and --template make it score pairs (docs/labels.md)."
_PREFIX_TOKENS_MAX = 1 << 20  # no context holds as many: a prefix is never cut


def decoder_card(
    checkpoint: Checkpoint,
    name: str,
    max_input_tokens: int | None,
    max_output_tokens: int | None,
    prefix_text: str = "",
) -> ModelCard:
    """The card of ``checkpoint`` under ``name``; ``ModelError`` with the reason if it cannot be served."""
    try:
        config = checkpoint.decoder_config()
        check_counts(checkpoint, config)
        if not config.causal:
            raise ModelError("config.json says that tokens see those behind them: such a model embeds or classifies")
        generation = generation_keys(checkpoint.optional_json(GENERATION_CONFIG))
        logit_options = read_logit_options(generation, config.vocab)
    except ModelError as error:
        raise ModelError(f"{checkpoint.root}: {error}") from error
    _check_decoder(checkpoint)
    eos_ids = _eos_ids(checkpoint, generation)
    context = min(config.context, checkpoint.tokenizer_files.input_limit or config.context)
    prefix = _prefix_ids(checkpoint, prefix_text, config.vocab)
    asked = PROMPT_TOKENS_DEFAULT if max_input_tokens is None else max_input_tokens
    if max_output_tokens is None:
        max_output_tokens = _output_limit(context - len(prefix), asked)
    chat, chat_warnings = _chat(checkpoint)
    limit = _input_limit(checkpoint, asked, context, len(prefix), max_output_tokens)
    room = context - len(prefix) - max_output_tokens
    return ModelCard(
        name=name,
        path=str(checkpoint.root),
        version=decoder_version(checkpoint, prefix),
        task="generate",
        family=checkpoint.family.name,
        dimensions=0,
        max_input_tokens=limit,
        vocab_size=config.vocab,
        tokenizer=checkpoint.tokenizer(),
        cuts_left=checkpoint.tokenizer_files.cuts_left,
        max_output_tokens=max_output_tokens,
        eos_ids=eos_ids,
        prefix_ids=prefix,
        logit_options=logit_options,
        chat=chat,
        warnings=(
            *shorter(limit, room, "the model's context has room for"),
            *checkpoint.warnings,
            *generation_warnings(generation),
            *(() if eos_ids else (_ENDLESS,)),
            *((_RANKS,) if "rerank" in name.lower() else ()),
            *chat_warnings,
            *_eos_warnings(eos_ids, checkpoint.named_token("eos"), config.vocab),
        ),
        kv_values=config.layers * 2 * config.kv_heads * config.head_dim,
    )


def _chat(checkpoint: Checkpoint) -> tuple[ChatCard | None, tuple[str, ...]]:
    """The chat template, and warnings about it. Without a tokenizer.json there is nothing to render it for."""
    path, files = checkpoint.tokenizer(), checkpoint.tokenizer_files
    return read_chat(checkpoint.encoder, tokenizer_source(path, files.parts), files.names) if path else (None, ())


def decoder_version(checkpoint: Checkpoint, prefix: tuple[int, ...]) -> str:
    """The card's version, of the files as they are now and these ids of a prefix."""
    digest = checkpoint.digest()
    return hashlib.sha256(f"{digest}\0{prefix}".encode()).hexdigest()[:12] if prefix else digest


def _prefix_ids(checkpoint: Checkpoint, text: str, vocab: int) -> tuple[int, ...]:
    """The prefix is tokenized alone, with the special tokens that begin a text, unless it begins with them itself.

    Those that end a text are the prompt's.
    """
    if not text:
        return ()
    path = checkpoint.tokenizer()
    if not path:
        raise ModelError(f"{checkpoint.root}: a prefix needs a tokenizer.json, and there is none")
    source = tokenizer_source(path, checkpoint.tokenizer_files.parts)

    def encode(special: SpecialTokens) -> list[int]:
        return Tokenizer.from_source(source, max_tokens=_PREFIX_TOKENS_MAX, special_tokens=special).encode(text)

    try:
        with_special, own, ending = encode("all"), encode("none"), encode("trailing")
    except ValueError as error:
        raise ModelError(f"{path}: it cannot tokenize the prefix: {error}") from None
    leading = with_special[: len(with_special) - len(ending)]
    ids = own if leading and own[: len(leading)] == leading else leading + own
    if not ids or max(ids) >= vocab:
        raise ModelError(
            f"{checkpoint.root}: the prefix becomes {len(ids)} token ids that a vocabulary of {vocab} lacks"
        )
    return tuple(ids)


def _output_limit(room: int, asked: int) -> int:
    """The longest answer where no setting says it. ``room``: positions without the prefix; ``asked``: for prompts."""
    return max(1, min(ANSWER_TOKENS_DEFAULT, max(room - asked, ANSWER_TOKENS_LEAST), room // 2))


def _input_limit(checkpoint: Checkpoint, asked: int, context: int, prefix_len: int, max_output_tokens: int) -> int:
    """The tokens that the context leaves for prompts."""
    room = min(asked, context - prefix_len - max_output_tokens)
    if room >= 1:
        return room
    prefix = f"a prefix of {prefix_len} tokens and " if prefix_len else ""
    reason = (
        f"{checkpoint.root}: {prefix}{max_output_tokens} output tokens leave no room for a prompt in the "
        f"model's context of {context} positions"
    )
    if context < 2:
        raise ModelError(reason)
    output_max = context - prefix_len - 1
    lower = ("prefix",) if prefix_len and max_output_tokens < context else ()
    if output_max < 1 and lower:
        raise LimitError(reason, lower)
    raise LimitError(f"{reason}; at most {output_max if lower else context - 1} do", ("max_output_tokens", *lower))


def _eos_ids(checkpoint: Checkpoint, generation: Keys) -> tuple[int, ...]:
    """generation_config.json's; without that file, config.json's. None is possible, as in transformers."""
    alone = has_file(checkpoint.encoder / GENERATION_CONFIG)
    stated: Any = (generation if alone else checkpoint.config).get("eos_token_id")
    if stated is None:
        return ()
    ids = stated if isinstance(stated, list) else [stated]
    if not all(type(i) is int and 0 <= i < _ID_END for i in ids):
        raise ModelError(f"{checkpoint.root}: eos_token_id {stated!r} is neither a token id nor a list of such")
    return tuple(dict.fromkeys(ids))


def _eos_warnings(eos_ids: tuple[int, ...], of_tokenizer: int, vocab: int) -> Iterator[str]:
    """``of_tokenizer``: -1: the tokenizer's files name none."""
    for id in eos_ids:
        if id >= vocab:
            yield f"eos_token_id {id} never ends a text: the vocabulary has {vocab} ids."
    if of_tokenizer >= 0 and of_tokenizer not in eos_ids:
        yield (
            f"The tokenizer's eos_token, id {of_tokenizer}, does not end a text, because the eos_token_id of "
            f"{GENERATION_CONFIG}, or without that file of config.json, decides. If the model ends its texts with it, "
            "add it there, or send it in stop or stop_token_ids."
        )


def _check_decoder(checkpoint: Checkpoint) -> None:
    """Text must come out of the tokens piece by piece. Without a tokenizer.json the model serves token ids."""
    path = checkpoint.tokenizer()
    if not path:
        return
    try:
        Detokenizer(content_of(tokenizer_source(path, checkpoint.tokenizer_files.parts)))
    except ValueError as reason:
        raise ModelError(
            f"{checkpoint.root}: text cannot be made from the tokens of this tokenizer.json ({reason}). "
            "Without the file the model serves token ids"
        ) from None
