"""The same runners as the server's, in this process and without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard, TypeVar

import numpy as np

from fastqps.api.answers import Answer, answer, embedding
from fastqps.api.prediction import Chunk, Generation, Vector
from fastqps.devices import make_runner, one_device
from fastqps.engine.generator import Generator
from fastqps.engine.sampling import Sampling
from fastqps.models import ModelError, load_card
from fastqps.models.tokenizers.text import load_tokenizer
from fastqps.runners.reference_items import UnknownTokenError, pack_items

Item = str | tuple[str, str] | Sequence[int]

_T = TypeVar("_T")

_BATCH_ITEMS = 128
_BATCH_TOKENS = 4096  # or one item of the model's longest, if that is more


class Engine:
    """A loaded model. Not thread-safe: one call at a time.

    ``model`` is a known name (``minilm``) or a checkpoint's directory, ``device`` ``cpu``, ``cuda`` (the first visible
    GPU) or ``cuda:1``, ``auto`` (cuda where that is possible, else cpu), ``null`` or ``sim:PROFILE``, ``dtype``
    ``auto``, ``float32``, ``bfloat16`` or, on cuda, ``float16``, ``quantization`` ``none``, ``fp8`` or ``auto``,
    ``kernels`` of cuda ``auto`` (own ones that agree with torch), ``own`` or ``torch``. Raises ``ModelError``,
    ``DeviceError``, and ``DeviceFault`` where a GPU fails. ``max_input_tokens`` must have room for the tokenizer's
    special tokens and, of an encoder, for one token of each text of a pair; None: the model's own limit (a generator's:
    512). ``allow_single_texts``: a cross-encoder, which scores pairs, takes one text, too. ``card.warnings`` says what
    you should know of the model.

    Of generators alone: ``max_running`` prompts are worked on at a time, ``prefix`` is a text in front of each of them.
    """

    def __init__(
        self,
        model: str = "minilm",
        device: str = "cpu",
        dtype: str = "auto",
        max_input_tokens: int | None = None,
        *,
        quantization: str = "none",
        kernels: str = "auto",
        max_output_tokens: int = 128,
        max_running: int = 64,
        prefix: str = "",
        allow_single_texts: bool = False,
    ) -> None:
        device = one_device(device)
        self.card = load_card(
            model,
            max_input_tokens,
            max_output_tokens=max_output_tokens,
            prefix_text=prefix,
            allow_single_texts=allow_single_texts,
        )
        if self.card.task == "generate":
            self._generator = Generator(
                self.card,
                device=device,
                dtype=dtype,
                quantization=quantization,
                kernels=kernels,
                max_running=max_running,
            )
            return
        if prefix:
            raise ModelError(f"{self.card.name} does not generate text: a prefix would have no effect")
        self._tokenizer = load_tokenizer(self.card)
        tokens = max(_BATCH_TOKENS, self.card.max_input_tokens)
        self._runner = make_runner(
            device, self.card, _BATCH_ITEMS, tokens, dtype=dtype, quantization=quantization, kernels=kernels
        )

    def predict(self, items: Sequence[Item], *, truncate: bool = False) -> list[Answer]:
        """One answer for each text, pair of texts or sequence of token ids, in the order of ``items``.

        An answer is an embedding, float32 [card.dimensions], or for a classifier all (label, score), best first. Token
        ids are taken as they are, special tokens included. ``ValueError`` names an item that cannot be answered: too
        long (unless ``truncate``), empty, or with an id outside of the vocabulary, which a tokenizer may give, too.
        """
        if self.card.task == "generate":
            raise ValueError(f"{self.card.name} generates text: call generate")
        return self._run(self._encode(items, truncate), lambda row: answer(self.card, row))

    def embed(
        self, texts: Sequence[Item], *, dimensions: int = 0, normalize: bool | None = None, truncate: bool = False
    ) -> Vector:
        """Embeddings as ``Client.embed`` gives them: float32 [len(texts), dimensions]; [0, 0] for no text.

        ``dimensions``: keep only so many leading ones, 0: all. ``normalize``: scale each embedding to length 1, None:
        as the model says. ``ValueError`` names an item that cannot be answered and an option that is out of range. An
        embedding is always float32 here: a server's ``int8`` answers are for the network.
        """
        if self.card.task != "embed":
            raise ValueError(f"{self.card.name} makes no embeddings: its task is {self.card.task}")
        if not 0 <= dimensions <= self.card.dimensions:
            raise ValueError(f"dimensions: {dimensions}, at least 0 and at most {self.card.dimensions}")
        rows = self._run(self._encode(texts, truncate), lambda row: embedding(self.card, row, dimensions, normalize))
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    def generate(
        self,
        prompts: Sequence[str | Sequence[int]],
        *,
        max_tokens: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        repetition_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        min_tokens: int | None = None,
        suppress_token_ids: Sequence[int] = (),
        truncate: bool = False,
    ) -> list[Generation]:
        """What the model makes of each prompt, a text or token ids, in the order of ``prompts``.

        The options are those of ``Client.generate``; every prompt has the same ones, and the same ``seed``.
        ``ValueError`` names what is out of range.
        """
        self._check_generates()
        sampling = Sampling(
            max_tokens,
            temperature,
            top_k,
            top_p,
            seed,
            tuple(stop_token_ids),
            ignore_eos,
            logprobs,
            repetition_penalty,
            no_repeat_ngram_size,
            min_tokens,
            tuple(suppress_token_ids),
        )
        return self._generator.generate(prompts, sampling, stop=stop, truncate=truncate)

    def generate_stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        repetition_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        min_tokens: int | None = None,
        suppress_token_ids: Sequence[int] = (),
        truncate: bool = False,
    ) -> Iterator[Chunk]:
        """The same for one prompt, as it is made: a chunk for each token, the last one with ``finish_reason`` and
        ``usage``. Leaving the loop ends it. ``ValueError`` comes with the first chunk that is asked for.
        """
        self._check_generates()
        sampling = Sampling(
            max_tokens,
            temperature,
            top_k,
            top_p,
            seed,
            tuple(stop_token_ids),
            ignore_eos,
            logprobs,
            repetition_penalty,
            no_repeat_ngram_size,
            min_tokens,
            tuple(suppress_token_ids),
        )
        return self._generator.generate_stream(prompt, sampling, stop=stop, truncate=truncate)

    def close(self) -> None:
        """Gives the device back; nothing can be asked any more."""
        if self.card.task == "generate":
            self._generator.close()
        else:
            del self._runner

    def _run(self, encoded: list[tuple[Sequence[int], int]], finish: Callable[[Vector], _T]) -> list[_T]:
        """``finish`` of each item's raw output row, in the order of ``encoded``."""
        done: dict[int, _T] = {}
        for batch in self._batches([len(ids) for ids, _ in encoded]):
            try:
                shape = pack_items(self.card, [encoded[i] for i in batch], self._runner.buffers())
            except UnknownTokenError as error:
                raise error.in_place(batch[error.item]) from None
            self._runner.run(*shape)
            for row, i in enumerate(batch):
                done[i] = finish(self._runner.buffers().output[row])
        return [done[i] for i in range(len(encoded))]

    def _check_generates(self) -> None:
        if self.card.task != "generate":
            raise ValueError(f"{self.card.name} generates no text: call predict")

    def _encode(self, items: Sequence[Item], truncate: bool) -> list[tuple[Sequence[int], int]]:
        """(ids, number of leading ids that belong to the first text) of every item."""
        if isinstance(items, str):
            raise ValueError("predict takes a list of items, not one text")
        texts = [item for item in items if _is_text(item)]
        if texts and self._tokenizer is None:
            raise ModelError(f"{self.card.path} has no tokenizer.json: only token ids can be given")
        tokenized = iter(self._tokenizer.encode_items(texts) if texts and self._tokenizer else ())
        found: list[tuple[Sequence[int], int]] = []
        for number, item in enumerate(items):
            if self.card.pairs_only and isinstance(item, str):
                raise ValueError(
                    f"item {number}: one text, and {self.card.name} scores pairs of texts; give a pair, or set "
                    "allow_single_texts"
                )
            if _is_text(item):
                done = next(tokenized)
                self._check_length(number, done.n_total, truncate)
                if not done.ids:
                    raise ValueError(f"item {number} has no tokens")
                found.append((done.ids, done.first_len))
            else:
                found.append(self._check_ids(number, item, truncate))
        return found

    def _check_length(self, number: int, tokens: int, truncate: bool) -> None:
        limit = self.card.max_input_tokens
        if tokens > limit and not truncate:
            raise ValueError(f"item {number} has {tokens} tokens; the model takes {limit} (truncate=True cuts it)")

    def _check_ids(self, number: int, item: Item, truncate: bool) -> tuple[Sequence[int], int]:
        ids = np.asarray(item)
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise ValueError(f"item {number}: expected a text, a pair of texts, or at least one token id")
        if ids.min() < 0 or ids.max() >= self.card.vocab_size:
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise ValueError(f"item {number}: token id {wrong}, must be at least 0 and below {self.card.vocab_size}")
        self._check_length(number, len(ids), truncate)
        kept = ids[: self.card.max_input_tokens].tolist()
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


def _is_text(item: Item) -> TypeGuard[str | tuple[str, str]]:
    if isinstance(item, str):
        return True
    return isinstance(item, tuple) and len(item) == 2 and all(isinstance(part, str) for part in item)
