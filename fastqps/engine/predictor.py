"""Prediction in this process: items are encoded, packed into batches, run, and answered in their own order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard, TypeVar, Unpack

import numpy as np

from fastqps.api.prediction import Vector
from fastqps.devices import Options, make_runner
from fastqps.models import ModelCard, ModelError
from fastqps.models.card import InputRole
from fastqps.models.card_tokenizer import check_text, load_tokenizer
from fastqps.models.tokenizers.spans import TokenSpan
from fastqps.models.tokenizers.tokenizer import Cut
from fastqps.runners import Runner, StepBuffers
from fastqps.runners.pack_items import UnknownTokenError, pack_items

Item = str | tuple[str, str] | Sequence[int]

_T = TypeVar("_T")

_BATCH_ITEMS = 128
_BATCH_TOKENS = 4096  # or one item of the model's longest, if that is more


class Predictor:
    """An encoder on a device. Not thread-safe. ``options`` are fields of ``Place``."""

    def __init__(self, card: ModelCard, *, device: str, **options: Unpack[Options]) -> None:
        self.card = card
        self._tokenizer = load_tokenizer(card)
        tokens = max(_BATCH_TOKENS, card.max_input_tokens)
        self._runner: Runner[StepBuffers] = make_runner(device, card, _BATCH_ITEMS, tokens, **options)

    def run(
        self,
        items: Sequence[Item],
        truncate: bool,
        finish: Callable[[Vector, Sequence[int]], _T],
        prompt_name: str = "",
        *,
        keep_second: bool = False,
    ) -> list[_T]:
        """``finish`` of each item's raw output row, or of a row for each of its tokens [tokens, dimensions], and of its
        token ids, in the order of ``items``. Only while it runs are the rows there. ``keep_second``: of a pair,
        ``truncate`` cuts the first text alone. ``ValueError`` names a wrong item.
        """
        encoded = self._encode(items, truncate, prompt_name, keep_second)
        done: dict[int, _T] = {}
        for batch in self._batches([len(ids) for ids, _ in encoded]):
            try:
                shape = pack_items(self.card, [encoded[i] for i in batch], self._runner.buffers())
            except UnknownTokenError as error:
                raise error.in_place(batch[error.item]) from None
            self._runner.run(*shape)
            for row, i in enumerate(batch):
                if not self._finite(row):
                    raise ModelError(f"model {self.card.name}: the result of item {i} is NaN or infinite")
                done[i] = finish(self._rows(row), encoded[i][0])
        return [done[i] for i in range(len(encoded))]

    def spans(self, texts: Sequence[str]) -> list[list[TokenSpan | None]]:
        """The spans of each text's tokens, for a token classifier."""
        assert self._tokenizer, "a token classifier has a tokenizer"
        return [encoded.spans or [] for encoded in self._tokenizer.encode_items(texts)]

    def _rows(self, item: int) -> Vector:
        b = self._runner.buffers()
        return b.output[b.cu_seqlens[item] : b.cu_seqlens[item + 1]] if b.by_token else b.output[item]

    def _finite(self, item: int) -> bool:
        rows = self._rows(item)
        return bool(np.isfinite(rows[: self.card.max_active_dims or None]).all())

    def close(self) -> None:
        """Gives the device back."""
        del self._runner

    def _encode(
        self, items: Sequence[Item], truncate: bool, prompt_name: str, keep_second: bool
    ) -> list[tuple[Sequence[int], int]]:
        """(ids, number of leading ids that belong to the first text) of every item."""
        if isinstance(items, str):
            raise ValueError("predict takes a list of items, not one text")
        self.card.prompt(prompt_name)  # also where no item is a text
        role = self.card.role(prompt_name)
        if role.refusal:
            raise ValueError(f"prompt_name: {role.refusal}")
        items = [self._bound_characters(number, item, truncate) for number, item in enumerate(items)]
        for number, item in enumerate(items):
            check_text(f"item {number}", item)
        texts = [self._worded(number, item, prompt_name) for number, item in enumerate(items) if _is_text(item)]
        if texts and self._tokenizer is None:
            raise ModelError(f"{self.card.path} has no tokenizer.json: only token ids can be given")
        cut: Cut = "counted" if not truncate else "first" if keep_second else "longest"
        tokenized = iter(self._tokenizer.encode_items(texts, role.max_tokens, cut) if texts and self._tokenizer else ())
        encoded: list[tuple[Sequence[int], int]] = []
        for number, item in enumerate(items):
            if _is_text(item):
                done = next(tokenized)
                if self.card.roles:
                    self._check_single(number, item)
                self._check_length(number, done.n_total, role, truncate)
                if not done.ids and done.n_total:
                    raise ValueError(f"item {number}: its second text leaves no room for the first")
                if not done.ids and not self.card.static:
                    raise ValueError(f"item {number} has no tokens")
                encoded.append(_expanded(done.ids or [self.card.empty_id], max(done.first_len, 1), role))
            elif prompt_name:
                raise ValueError(
                    f"item {number}: prompt_name {prompt_name!r} with token ids, which are used as they are"
                )
            else:
                encoded.append(_expanded(*self._check_ids(number, item, role, truncate), role))
        return encoded

    def _worded(self, number: int, item: str | tuple[str, str], prompt_name: str) -> str | tuple[str, str]:
        if self.card.pairs_only and isinstance(item, str):
            raise ValueError(
                f"item {number}: one text, and {self.card.name} scores pairs of texts; give a pair, or set "
                "allow_single_texts"
            )
        try:
            return self.card.worded(item, prompt_name)
        except ValueError as error:
            raise ValueError(f"item {number}: {error}") from None

    def _bound_characters(self, number: int, item: Item, truncate: bool) -> Item:
        """The item, or as many characters of it as its model's package would read."""
        limit = self.card.max_characters
        if not limit or not isinstance(item, str) or len(item) <= limit:
            return item
        if not truncate:
            raise ValueError(
                f"item {number} has {len(item)} characters; the model takes {limit} (truncate=True cuts it)"
            )
        return item[:limit]

    def _check_single(self, number: int, item: Item) -> None:
        if not isinstance(item, str):
            raise ValueError(f"item {number}: two texts, and {self.card.name} makes a vector of each token of one")

    def _check_length(self, number: int, tokens: int, role: InputRole, truncate: bool) -> None:
        limit = role.max_tokens
        if tokens > limit and not truncate:
            raise ValueError(f"item {number} has {tokens} tokens; the model takes {limit} (truncate=True cuts it)")

    def _check_ids(self, number: int, item: Item, role: InputRole, truncate: bool) -> tuple[Sequence[int], int]:
        ids = np.asarray(item)
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise ValueError(f"item {number}: expected a text, a pair of texts, or at least one token id")
        if ids.min() < 0 or ids.max() >= self.card.vocab_size:
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise ValueError(f"item {number}: token id {wrong}, must be at least 0 and below {self.card.vocab_size}")
        self._check_length(number, len(ids), role, truncate)
        kept = self.card.cut(ids.tolist(), role.max_tokens)
        return kept, len(kept)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Item numbers, longest first, in batches that fit the runner's buffers."""
        buffers = self._runner.buffers()
        batch: list[int] = []
        tokens = 0
        for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
            if len(batch) == buffers.max_items or tokens + lengths[i] > buffers.max_tokens:
                yield batch
                batch, tokens = [], 0
            batch.append(i)
            tokens += lengths[i]
        if batch:
            yield batch


def _expanded(ids: Sequence[int], first_len: int, role: InputRole) -> tuple[Sequence[int], int]:
    added = max(0, role.expanded_to - len(ids))
    return [*ids, *[role.expansion_id] * added], first_len + added


def _is_text(item: Item) -> TypeGuard[str | tuple[str, str]]:
    if isinstance(item, str):
        return True
    return isinstance(item, tuple) and len(item) == 2 and all(isinstance(part, str) for part in item)
