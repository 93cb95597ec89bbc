"""A server's answer, read from its bytes. Shared by both clients.

An embedding is a packed array in the serialized answer, and is taken from there as one block of memory: the protobuf
runtime would make a Python number of each of its floats. Only the shape that servers write is read this way; an answer
of any other shape goes through the runtime.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from .. import errors
from ..v1 import predict_pb2 as pb

Vector = npt.NDArray[np.float32]
FinishReason = Literal["stop", "length"]
TopLogprobs = list[list[tuple[int, float]]]


@dataclass(slots=True)
class Label:
    """One class with its score: a probability, or the model's raw score if that was asked for."""

    name: str
    score: float
    index: int


@dataclass(slots=True)
class Rank:
    """A text's place in the list that was given, from 0, and how well it answers the query."""

    index: int
    score: float


@dataclass(slots=True)
class Entity:
    """A part of a text with a label: `text[start:end]`. The score is a probability."""

    label: str
    score: float
    start: int
    end: int


@dataclass(slots=True, eq=False)
class SparseEmbedding:
    """The weights of token ids that are above zero: largest first, equal ones by id.

    Attributes:
        ids: uint32 of shape [weights].
        weights: float32 of shape [weights].
        active: how many the model gives; more than there are here if the smallest ones were left out.
    """

    ids: npt.NDArray[np.uint32]
    weights: Vector
    active: int


@dataclass(slots=True)
class Usage:
    """Tokens of one item: given (special tokens included), made, and whether and at which limit the input was cut."""

    input_tokens: int
    output_tokens: int
    truncated: bool
    truncated_at: int = 0


@dataclass(slots=True)
class ChoiceScore:
    """How likely one of the given texts was.

    Attributes:
        logprob: natural logarithm of the probability that the model writes it.
        score: its probability among the choices.
    """

    logprob: float
    score: float


@dataclass(slots=True)
class PromptLogprobs:
    """How likely the tokens of a prompt are, each behind all that stand before it.

    Attributes:
        token_ids: all of them, special tokens included, without the server's prefix.
        logprobs: natural logarithm of the probability of each but the first.
        top_logprobs: in the place of each but the first the likeliest ones, if asked for.
    """

    token_ids: list[int]
    logprobs: list[float]
    top_logprobs: TopLogprobs | None = None


@dataclass(slots=True)
class Generation:
    """A text that a model made.

    Attributes:
        text: without special tokens, and without the stop string that ended it.
        token_ids: what the text was made of, the token that ended it included.
        finish_reason: "stop": the model ended the text, or a stop string or stop token was met; "length": the limit.
        logprobs: natural logarithm of each token's probability, if asked for.
        usage: tokens of the prompt and of the answer, if the server said; with `n` or `best_of` those of all that were
            made.
        top_logprobs: in the place of each token the likeliest ones that could be chosen, as ids and logarithms,
            likeliest first, if asked for.
        choice_scores: how likely each of the texts was that the call gave, in their order.
        other_choices: beside this one, if `n` asked for more; best first with `best_of`.
        prompt_logprobs: of the prompt, if asked for; not in `other_choices`.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    logprobs: list[float] | None = None
    usage: Usage | None = None
    top_logprobs: TopLogprobs | None = None
    choice_scores: list[ChoiceScore] | None = None
    other_choices: list["Generation"] = field(default_factory=list)
    prompt_logprobs: PromptLogprobs | None = None


@dataclass(slots=True)
class Chunk:
    """A piece of a text that is being made.

    Attributes:
        text: made since the last chunk, whole characters; empty where a character is not complete yet.
        token_ids: made since the last chunk.
        logprobs: of these tokens, if asked for.
        finish_reason: None but in the last chunk of each choice.
        usage: only in these; of this choice.
        timings: microseconds by stage, only in these, if asked for.
        top_logprobs: in the place of each of these tokens the likeliest ones, if asked for.
        choice_scores: as in `Generation`. With them there is one chunk.
        choice: which one of `n` it is of, from 0.
        prompt_logprobs: of the prompt, if asked for: only in the first chunk of choice 0.
    """

    text: str
    token_ids: list[int]
    logprobs: list[float] | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: dict[str, int] | None = None
    top_logprobs: TopLogprobs | None = None
    choice_scores: list[ChoiceScore] | None = None
    choice: int = 0
    prompt_logprobs: PromptLogprobs | None = None


@dataclass(slots=True)
class Prediction:
    """One item's answer. Of `embedding`, `labels`, `generation`, `entities`, `sparse` and `multi`, the task's is set.

    Attributes:
        request_id: in predict_stream(), the item's place in what was sent; else what the request said.
        embedding: float32 of shape [dimensions].
        labels: best first.
        generation: the text.
        entities: in the order of the text.
        sparse: largest weight first.
        multi: a vector for each token, float32 of shape [tokens, dimensions].
        usage: if the server said.
        timings: microseconds by stage, if asked for.
    """

    request_id: int
    embedding: Vector | None = None
    labels: list[Label] | None = None
    generation: Generation | None = None
    usage: Usage | None = None
    timings: dict[str, int] | None = None
    entities: list[Entity] | None = None
    sparse: SparseEmbedding | None = None
    multi: Vector | None = None

    def __repr__(self) -> str:
        """Omits unset fields and the numbers of embeddings, which would fill several screens."""
        names = ("request_id", "labels", "generation", "entities", "usage", "timings")
        said = {name: getattr(self, name) for name in names}
        parts = [f"{name}={value!r}" for name, value in said.items() if value is not None]
        for name, array in (("embedding", self.embedding), ("multi", self.multi)):
            if array is not None:
                parts.insert(1, f"{name}=<{array.dtype} {list(array.shape)}>")
        if self.sparse is not None:
            parts.insert(1, f"sparse=<{len(self.sparse.ids)} of {self.sparse.active} weights>")
        return f"Prediction({', '.join(parts)})"


@dataclass(slots=True)
class PredictionError:
    """One item's failure in a batch or stream, where the others go on."""

    request_id: int
    error: errors.CallError


def read_prediction(data: bytes) -> Prediction | PredictionError:
    """A serialized PredictResponse. Raises DecodeError if it is none, Internal if it makes no sense."""
    return _read_floats(data, 0, len(data)) or _from_message(pb.PredictResponse.FromString(data))


def read_batch(data: bytes) -> list[Prediction | PredictionError]:
    """A serialized PredictBatchResponse, item by item. Raises as read_prediction() does."""
    out: list[Prediction | PredictionError] = []
    at = 0
    while at < len(data):
        if data[at] != 0x0A:  # other fields than items
            return [_from_message(item) for item in pb.PredictBatchResponse.FromString(data).items]
        try:
            size, start = _varint(data, at + 1)
        except IndexError:
            size, start = len(data), at
        at = start + size
        if at > len(data):
            raise DecodeError("the last item is cut short")
        out.append(_read_floats(data, start, at) or _from_message(pb.PredictResponse.FromString(data[start:at])))
    return out


def read_chunk(data: bytes) -> tuple[int, Chunk]:
    """The request id and the content of a serialized GenerateChunk. Raises as read_prediction() does."""
    message = pb.GenerateChunk.FromString(data)
    _check_logprobs(message)
    return message.request_id, Chunk(
        message.text,
        list(message.token_ids),
        list(message.logprobs) or None,
        _REASONS.get(message.finish_reason),
        _usage(message),
        _timings(message),
        _top_logprobs(message, len(message.token_ids)),
        _choice_scores(message),
        message.choice,
        _prompt_logprobs(message),
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends. Raises IndexError if it has no end within 64 bits."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value, shift = byte & 0x7F, 7
    while (byte := data[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise IndexError
    return (value | byte << shift) & _UINT64_MAX, at + 1


_UINT64_MAX = (1 << 64) - 1
_STAGES = [(field.name.removesuffix("_us"), field.name) for field in pb.Timings.DESCRIPTOR.fields]
_REASONS: dict[int, FinishReason] = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}
_FLOAT32 = np.dtype("<f4")
_MULTI = 0x52  # PredictResponse.multi
_DTYPE_FLOAT32 = b"\x18\x01"  # Embedding.dtype, which may be said or left out


def _read_floats(data: bytes, at: int, end: int) -> Prediction | None:
    return _read_embedding(data, at, end) or _read_multi(data, at, end)


def _read_multi(data: bytes, begin: int, end: int) -> Prediction | None:
    """The answer in data[begin:end] if it is one vector for each token, as float32.

    None for any other shape, as _read_embedding().
    """
    try:
        field = _find_multi(data, begin, end)
        if field is None:
            return None
        at, multi_end = _span(data, field + 1)
        if data[at] != 0x0A:  # values, packed
            return None
        values, values_end = _span(data, at + 1)
    except IndexError:
        return None
    if (values_end - values) & 3 or values_end > multi_end or multi_end > end:
        return None
    form = pb.MultiVector.FromString(data[values_end:multi_end])
    extra = pb.PredictResponse.FromString(data[begin:field] + data[multi_end:end])
    size = (values_end - values) // 4
    if form.values or form.raw or form.dtype > pb.DTYPE_FLOAT32 or not form.dimensions or size % form.dimensions:
        return None
    if extra.HasField("status") or extra.WhichOneof("output"):
        return None
    found = np.frombuffer(data, _FLOAT32, size, values).reshape(-1, form.dimensions).copy()
    prediction = Prediction(extra.request_id, multi=found)
    _set_extras(prediction, extra)
    return prediction


def _find_multi(data: bytes, at: int, end: int) -> int | None:
    """Where the field begins, behind any fields that are numbers or have a length."""
    while at < end and data[at] != _MULTI:
        if data[at] & 7 == 0:
            _, at = _varint(data, at + 1)
        elif data[at] & 7 == 2 and data[at] < 0x80:
            _, at = _span(data, at + 1)
        else:
            return None
    return at if at < end else None


def _span(data: bytes, at: int) -> tuple[int, int]:
    """Where a field with a length begins and ends."""
    size, begin = _varint(data, at)
    return begin, begin + size


def _read_embedding(data: bytes, at: int, end: int) -> Prediction | None:
    """The answer in data[at:end] if it is: request_id?, an embedding of nothing but floats, and no other output.

    None for any other shape, damaged bytes included: the runtime then decides.
    """
    try:
        request_id = 0
        if data[at] == 0x08:  # request_id
            request_id, at = _varint(data, at + 1)
        if data[at] != 0x12:  # embedding
            return None
        embedding_size, at = _varint(data, at + 1)
        rest = at + embedding_size
        if data[at] != 0x0A:  # values, packed
            return None
        values_size, at = _varint(data, at + 1)
    except IndexError:
        return None
    if values_size & 3 or rest > end:
        return None
    if at + values_size != rest and data[at + values_size : rest] != _DTYPE_FLOAT32:
        return None
    # A copy, so that the array is aligned, can be written to, and does not hold the whole message.
    prediction = Prediction(request_id, np.frombuffer(data, _FLOAT32, values_size // 4, at).copy())
    if rest == end:
        return prediction
    extra = pb.PredictResponse.FromString(data[rest:end])
    if extra.request_id or extra.HasField("status") or extra.WhichOneof("output"):
        return None
    _set_extras(prediction, extra)
    return prediction


def _from_message(message: pb.PredictResponse) -> Prediction | PredictionError:
    if message.HasField("status") and message.status.code != 0:
        return PredictionError(message.request_id, _error(message.status))
    prediction = Prediction(message.request_id)
    if message.HasField("embedding"):
        prediction.embedding = _vector(message.embedding)
    elif message.HasField("classification"):
        prediction.labels = [Label(x.name, x.score, x.index) for x in message.classification.labels]
    elif message.HasField("generation"):
        prediction.generation = _generation(message.generation)
        prediction.generation.usage = _usage(message)
        prediction.generation.other_choices = [_generation(each) for each in message.generation.other_choices]
    elif message.HasField("entities"):
        prediction.entities = [Entity(x.label, x.score, x.start, x.end) for x in message.entities.entities]
    elif message.HasField("sparse"):
        prediction.sparse = _sparse(message.sparse)
    elif message.HasField("multi"):
        values = _vector(message.multi)
        size = message.multi.dimensions
        if message.multi.dtype in (pb.DTYPE_BINARY, pb.DTYPE_UBINARY):
            size = (size + 7) // 8
        if not size or values.size % size:
            raise errors.Internal(f"the server's {values.size} numbers are no vectors of {message.multi.dimensions}")
        prediction.multi = values.reshape(-1, size)
    else:
        raise errors.Internal("the server's answer holds no output that this client knows")
    _set_extras(prediction, message)
    return prediction


def _error(status: pb.Status) -> errors.CallError:
    if not 0 < status.code < len(errors.StatusCode):
        return errors.Internal(f"the server's status code {status.code} does not exist: {status.message}")
    return errors.from_code(status.code, status.message, status.retry_after_ms)


def _sparse(found: pb.SparseEmbedding) -> SparseEmbedding:
    if len(found.ids) != len(found.weights):
        raise errors.Internal(f"the server's sparse embedding has {len(found.ids)} ids, {len(found.weights)} weights")
    return SparseEmbedding(np.array(found.ids, np.uint32), np.array(found.weights, np.float32), found.active)


def _set_extras(prediction: Prediction, message: pb.PredictResponse) -> None:
    prediction.usage, prediction.timings = _usage(message), _timings(message)


def _usage(message: pb.PredictResponse | pb.GenerateChunk) -> Usage | None:
    usage = message.usage
    if not message.HasField("usage"):
        return None
    return Usage(usage.input_tokens, usage.output_tokens, usage.truncated, usage.truncated_at)


def _timings(message: pb.PredictResponse | pb.GenerateChunk) -> dict[str, int] | None:
    timings = message.timings
    return {stage: getattr(timings, field) for stage, field in _STAGES} if message.HasField("timings") else None


def _generation(made: pb.Generation) -> Generation:
    reason = _REASONS.get(made.finish_reason)
    if reason is None:
        raise errors.Internal("the server's answer does not say why its text ended")
    _check_logprobs(made)
    ids, logprobs = list(made.token_ids), list(made.logprobs) or None
    found = Generation(made.text, ids, reason, logprobs, None, _top_logprobs(made, len(ids)), _choice_scores(made))
    found.prompt_logprobs = _prompt_logprobs(made)
    return found


def _prompt_logprobs(made: pb.Generation | pb.GenerateChunk) -> PromptLogprobs | None:
    if not made.HasField("prompt_logprobs"):
        return None
    prompt = made.prompt_logprobs
    ids, logprobs = list(prompt.token_ids), list(prompt.logprobs)
    if len(logprobs) != len(ids) - 1:
        raise errors.Internal(f"the server's answer has {len(logprobs)} log-probabilities of {len(ids)} prompt tokens")
    return PromptLogprobs(ids, logprobs, _top_logprobs(prompt, len(logprobs)))


def _choice_scores(made: pb.Generation | pb.GenerateChunk) -> list[ChoiceScore] | None:
    return [ChoiceScore(each.logprob, each.score) for each in made.choice_scores] or None


def _top_logprobs(made: pb.Generation | pb.GenerateChunk | pb.PromptLogprobs, tokens: int) -> TopLogprobs | None:
    if not made.HasField("top_logprobs"):
        return None
    top = made.top_logprobs
    n = len(top.token_ids) // tokens if tokens else 0
    if len(top.logprobs) != len(top.token_ids) or len(top.token_ids) != n * tokens:
        counts = f"{len(top.token_ids)} likeliest tokens and {len(top.logprobs)} of their log-probabilities"
        raise errors.Internal(f"the server's answer has {counts} for {tokens} tokens")
    each = [(i, p) for i, p in zip(top.token_ids, top.logprobs, strict=True)]
    return [[likely for likely in each[at : at + n] if likely[1] > -math.inf] for at in range(0, n * tokens, n or 1)]


def _check_logprobs(made: pb.Generation | pb.GenerateChunk) -> None:
    if made.logprobs and len(made.logprobs) != len(made.token_ids):
        counts = f"{len(made.logprobs)} log-probabilities of {len(made.token_ids)} tokens"
        raise errors.Internal(f"the server's answer has {counts}")


def _vector(embedding: pb.Embedding | pb.MultiVector) -> Vector:
    raw = embedding.raw
    match embedding.dtype:
        case pb.DTYPE_UNSPECIFIED | pb.DTYPE_FLOAT32 if not raw:
            return np.array(embedding.values, np.float32)
        case pb.DTYPE_FLOAT16 if not len(raw) % 2 and not embedding.values:
            return np.frombuffer(raw, "<f2").astype(np.float32)
        case pb.DTYPE_INT8 if not embedding.values:
            return np.frombuffer(raw, np.int8).astype(np.float32) / np.float32(127)
        case pb.DTYPE_UINT8 if not embedding.values:
            return (np.frombuffer(raw, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(127)
        case pb.DTYPE_BINARY | pb.DTYPE_UBINARY if not embedding.values:  # packed, as the request wants it
            return cast(Vector, np.frombuffer(raw, np.int8 if embedding.dtype == pb.DTYPE_BINARY else np.uint8))
    counts = f"{len(embedding.values)} numbers and {len(raw)} bytes"
    raise errors.Internal(f"the server answered {counts} in dtype {embedding.dtype}, which this client cannot read")
