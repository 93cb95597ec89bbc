"""The same runners as the server's, in this process and without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack, get_args

import numpy as np

from fastqps.api import zero_shot
from fastqps.api.chat import Chat
from fastqps.api.prediction import Chunk, Entity, Generation, Label, SparseEmbedding, Vector
from fastqps.api.request import Aggregation, GenerateOptions
from fastqps.devices import one_device
from fastqps.engine.answers import Answer, answer, best_labels, embedding, entities, sparse_embedding, vectors
from fastqps.engine.generator import Generator
from fastqps.engine.predictor import Item, Predictor
from fastqps.engine.prompts import Prompt
from fastqps.models import ModelError, load_card
from fastqps.runners.kinds import DECODE, ENCODE, StepKind, step_kind


class Engine:
    """A loaded model. Not thread-safe: one call at a time.

    ``model`` is a known name (``minilm``), a checkpoint's directory or ``OWNER/NAME@REVISION`` of the hub,
    ``adapter`` the directory of PEFT's, or hub:…, that is merged into its weights, ``device`` ``cpu``, ``cuda`` (the
    first visible GPU) or ``cuda:1``, ``auto`` (cuda where that is possible, else cpu), ``null`` or ``sim:PROFILE``,
    ``dtype``
    ``auto``, ``float32``, ``bfloat16`` or, on cuda, ``float16``, ``quantization`` ``none``, ``fp8``,
    on cpu ``int8``, or ``auto``,
    ``kernels`` of cuda ``auto`` (own ones that agree with torch), ``own`` or ``torch``. Raises ``ModelError``,
    ``DeviceError``, and ``DeviceFault`` where a GPU fails. ``max_input_tokens`` must have room for the tokenizer's
    special tokens and, of an encoder, for one token of each text of a pair; None: the model's own limit (a generator's:
    512). ``allow_single_texts``: a cross-encoder, which scores pairs, takes one text, too. ``labels`` make a decoder a
    classifier: each is a token, and the probabilities of the tokens behind a text are the scores. ``template``, a Jinja
    file, ``qwen3-reranker`` or ``bge-reranker-v2-gemma``, says how a text or a pair is put to it. ``card.warnings``
    says what you should know of the model.

    Of generators alone: ``max_output_tokens`` bounds an answer (None: 1,024, or what a smaller context leaves),
    ``max_running`` prompts are worked on at a time, ``prefix`` is a text in front of each of them.
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
        max_output_tokens: int | None = None,
        max_running: int = 64,
        prefix: str = "",
        allow_single_texts: bool = False,
        adapter: str = "",
        labels: Sequence[str] = (),
        template: str = "",
    ) -> None:
        device = one_device(device)
        self.card = load_card(
            model,
            max_input_tokens,
            max_output_tokens=max_output_tokens,
            prefix_text=prefix,
            allow_single_texts=allow_single_texts,
            adapter=adapter,
            labels=labels,
            template=template,
        )
        if prefix and not self.card.prefix_ids:
            raise ModelError(f"{self.card.name} does not generate text: a prefix would have no effect")
        options = {"device": device, "dtype": dtype, "quantization": quantization, "kernels": kernels}
        self._model = _MODELS[step_kind(self.card)](self.card, max_running, **options)

    def predict(self, items: Sequence[Item], *, prompt_name: str = "", truncate: bool = False) -> list[Answer]:
        """One answer for each text, pair of texts or sequence of token ids, in the order of ``items``.

        An answer is an embedding, float32 [card.dimensions], a sparse one, or one for each token, float32 [tokens,
        card.dimensions]; for a classifier all (label, score), best first, and for a token classifier its entities.
        Token ids are taken as they are, special tokens included. ``prompt_name``: which of ``card.prompts`` stands in
        front of each text; "": ``card.default_prompt``, if there is one. ``ValueError`` names an item that cannot be
        answered: too long (unless ``truncate``), empty, or with an id outside of the vocabulary, which a tokenizer may
        give, too.
        """
        if not isinstance(self._model, Predictor):
            raise ValueError(f"{self.card.name} generates text: call generate")
        if self.card.task == "embed_multi":
            return list(self.embed_multi(items, prompt_name=prompt_name, truncate=truncate))
        if self.card.task == "classify_tokens":
            self.card.prompt(prompt_name)  # it has none
            return list(self.entities(items, truncate=truncate))
        return self._model.run(items, truncate, lambda row, _: answer(self.card, row), prompt_name)

    def embed(
        self,
        texts: Sequence[Item],
        *,
        dimensions: int | None = None,
        normalize: bool | None = None,
        prompt_name: str = "",
        truncate: bool = False,
    ) -> Vector:
        """Embeddings as ``Client.embed`` gives them: float32 [len(texts), dimensions]; [0, 0] for no text.

        ``dimensions``: keep only so many leading ones. ``normalize``: scale each embedding to length 1, None: as the
        model says. ``prompt_name``: as in ``predict``. ``ValueError`` names an item that cannot be answered and
        an option that is out of range. An embedding is always float32 here: a server's ``int8`` answers are for the
        network.
        """
        model = self._made_for("embed", "makes no embeddings")
        _check_count("dimensions", dimensions, self.card.dimensions)

        def finish(row: Vector, ids: Sequence[int]) -> Vector:
            return embedding(self.card, row, dimensions, normalize)

        rows = model.run(texts, truncate, finish, prompt_name)
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    def classify(
        self, texts: Sequence[Item], *, top_labels: int | None = None, raw_scores: bool = False, truncate: bool = False
    ) -> list[list[Label]]:
        """Labels of texts or pairs, best first, as ``Client.classify`` gives them.

        ``top_labels``: only so many of them. ``raw_scores``: without softmax or sigmoid. ``ValueError`` names
        an item that cannot be answered and an option that is out of range.
        """
        _check_count("top_labels", top_labels, len(self.card.labels))
        return self._classifier.run(texts, truncate, lambda row, _: best_labels(self.card, row, top_labels, raw_scores))

    def zero_shot(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis: str = zero_shot.HYPOTHESIS,
        multi_label: bool = False,
        truncate: bool = False,
    ) -> list[list[Label]]:
        """Labels that the model was not trained for, best first, as ``Client.zero_shot`` gives them.

        ``truncate`` cuts the texts, and never a hypothesis.
        """
        classifier, entails = self._classifier, zero_shot.entailment(self.card.labels)
        rows = classifier.run(zero_shot.pairs(texts, labels, hypothesis), truncate, _copy, keep_second=True)
        return zero_shot.answers(np.stack(rows), labels, entails, multi_label) if rows else []

    def embed_sparse(
        self, texts: Sequence[Item], *, max_active_dims: int | None = None, truncate: bool = False
    ) -> list[SparseEmbedding]:
        """Sparse embeddings as ``Client.embed_sparse`` gives them.

        ``max_active_dims``: the most weights of one, None: as many as ``card.max_active_dims``. ``ValueError`` names an
        item that cannot be answered and an option that is out of range.
        """
        model = self._made_for("embed_sparse", "makes no sparse embeddings")
        _check_count("max_active_dims", max_active_dims, self.card.max_active_dims)
        return model.run(texts, truncate, lambda row, _: sparse_embedding(self.card, row, max_active_dims))

    def embed_multi(
        self,
        texts: Sequence[Item],
        *,
        dimensions: int | None = None,
        normalize: bool | None = None,
        prompt_name: str = "",
        truncate: bool = False,
    ) -> list[Vector]:
        """A vector for each token of each text, as ``Client.embed_multi`` gives them: float32 [tokens, dimensions].

        ``prompt_name`` ``query`` or ``document`` says what the texts are; the other options are those of ``embed``.
        """
        model = self._made_for("embed_multi", "does not make a vector of each token")
        _check_count("dimensions", dimensions, self.card.dimensions)
        skipped = np.array(self.card.role(prompt_name).skipped, np.int64)

        def finish(rows: Vector, ids: Sequence[int]) -> Vector:
            kept = rows[~np.isin(ids, skipped)]
            return vectors(self.card, kept, dimensions, normalize)

        return model.run(texts, truncate, finish, prompt_name)

    def entities(
        self, texts: Sequence[Item], *, aggregation: Aggregation = "simple", truncate: bool = False
    ) -> list[list[Entity]]:
        """The entities in each text, as ``Client.entities`` gives them.

        ``ValueError`` names an item that is no text or cannot be answered.
        """
        model = self._made_for("classify_tokens", "finds no entities")
        if aggregation not in get_args(Aggregation):
            raise ValueError(f"aggregation: {aggregation!r}, must be one of {', '.join(get_args(Aggregation))}")
        only = [text for text in texts if isinstance(text, str)]
        if isinstance(texts, str) or len(only) < len(texts):
            raise ValueError(f"{self.card.name} takes a list of texts: it says where in a text its entities are")
        rows = model.run(only, truncate, _copy)
        spans = model.spans(only)
        return [entities(self.card.labels, *each, aggregation) for each in zip(rows, spans, strict=True)]

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        truncate: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> list[Generation]:
        """Generates an answer to each prompt, a text or token ids, in the order of ``prompts``.

        The options are those of ``Client.generate``; every prompt has the same ones. A given ``seed`` is
        that of every prompt; without one each prompt draws its own.
        ``ValueError`` names what is out of range.
        """
        return self._generator.generate(prompts, truncate=truncate, **options)

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        truncate: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """The answer to a conversation, of a model with a chat template. ``generate`` and ``generate_stream`` take a
        ``Chat`` as a prompt, too."""
        chat = Chat(messages, continue_final_message, variables or {})
        return self.generate([chat], truncate=truncate, **options)[0]

    def generate_stream(
        self, prompt: Prompt, *, truncate: bool = False, **options: Unpack[GenerateOptions]
    ) -> Iterator[Chunk]:
        """The same for one prompt, as it is made: a chunk for each token, the last one with ``finish_reason`` and
        ``usage``. Leaving the loop ends it. ``ValueError`` comes with the first chunk that is asked for.
        """
        return self._generator.generate_stream(prompt, truncate=truncate, **options)

    def close(self) -> None:
        """Gives the device back; nothing can be asked any more."""
        self._model.close()

    @property
    def _classifier(self) -> Predictor:
        return self._made_for("classify", "does not classify texts")

    def _made_for(self, task: str, lacks: str) -> Predictor:
        """The model of ``task``; ``ValueError`` says what one of another task ``lacks``."""
        if not isinstance(self._model, Predictor) or self.card.task != task:
            raise ValueError(f"{self.card.name} {lacks}: its task is {self.card.task}")
        return self._model

    @property
    def _generator(self) -> Generator:
        if not isinstance(self._model, Generator):
            raise ValueError(f"{self.card.name} generates no text: call predict")
        return self._model


# The model of each kind of steps, made of (card, sequences that can run, the device and its options).
_MODELS: Mapping[StepKind, Callable[..., Predictor | Generator]] = {
    ENCODE: lambda card, _, **options: Predictor(card, **options),
    DECODE: lambda card, max_running, **options: Generator(card, max_running=max_running, **options),
}


def _copy(rows: Vector, ids: Sequence[int]) -> Vector:
    return rows.copy()


def _check_count(name: str, value: int | None, largest: int) -> None:
    if value is not None and not 1 <= value <= largest:
        raise ValueError(f"{name}: {value}, at least 1 and at most {largest}")
