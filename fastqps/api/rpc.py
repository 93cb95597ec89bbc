"""The methods as both clients call them, and the settings of their channels."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from .. import errors
from ..v1 import predict_pb2 as pb
from . import reflection, zero_shot
from .prediction import Entity, Generation, Label, Prediction, PredictionError, Rank, SparseEmbedding, Vector

_Output = TypeVar("_Output")
_SERVICE = "/fastqps.v1.PredictService/"
PREDICT = _SERVICE + "Predict"
PREDICT_BATCH = _SERVICE + "PredictBatch"
PREDICT_STREAM = _SERVICE + "PredictStream"
GENERATE = _SERVICE + "Generate"
LIST_MODELS = _SERVICE + "ListModels"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"

serialize_request = pb.PredictRequest.SerializeToString
serialize_batch = pb.PredictBatchRequest.SerializeToString
serialize_list_models = pb.ListModelsRequest.SerializeToString


def as_is(data: bytes) -> bytes:
    """Returns a message unchanged; it is read elsewhere."""
    return data


# The most unanswered items of one call.
STREAM_IN_FLIGHT_MAX = 512
BATCHES_IN_FLIGHT_MAX = 4


def channel_options(channels: int) -> list[tuple[str, Any]]:
    """The options of a channel. gRPC retries only calls that never left this machine, since others may have run.

    A connection whose server answers no ping ends its calls after 40 s. Servers refuse pings closer than 8 s.
    """
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", 64 << 20),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),  # any number of them
    ]
    if channels > 1:  # else channels to one address share a connection
        options.append(("grpc.use_local_subchannel_pool", 1))
    return options


def health_request() -> bytes:
    """Asks about the whole server."""
    return reflection.message_class("grpc.health.v1.HealthCheckRequest")().SerializeToString()


def is_serving(response: bytes) -> bool:
    message: Any = reflection.message_class("grpc.health.v1.HealthCheckResponse").FromString(response)
    return bool(message.status == 1)  # SERVING


def value_or_raise(result: Prediction | PredictionError) -> Prediction:
    if isinstance(result, PredictionError):
        raise result.error
    return result


def values_or_raise(results: list[Prediction | PredictionError]) -> list[Prediction]:
    """Returns all values. Raises the first failure, with the item's place among them."""
    values: list[Prediction] = []
    for number, result in enumerate(results):
        if isinstance(result, PredictionError):
            error = result.error
            raise errors.from_code(error.code, f"item {number}: {error.message}", error.retry_after_ms)
        values.append(result)
    return values


def _of_task(output: _Output | None, lacks: str) -> _Output:
    if output is None:
        raise errors.Unimplemented(f"this model {lacks}")
    return output


def embeddings_or_raise(results: list[Prediction | PredictionError]) -> Vector:
    """float32 of shape [len(results), dimensions]; [0, 0] for none."""
    rows = [_of_task(value.embedding, "makes no embeddings") for value in values_or_raise(results)]
    if len(sizes := {len(row) for row in rows}) > 1:
        raise errors.Internal(f"the server's embeddings have different lengths: {sorted(sizes)}")
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def generation_or_raise(value: Prediction) -> Generation:
    return _of_task(value.generation, "does not generate text")


def labels_or_raise(value: Prediction) -> list[Label]:
    return _of_task(value.labels, "makes no labels")


def ranks_or_raise(results: list[Prediction | PredictionError]) -> list[Rank]:
    """Best first, equal scores in the order of the texts."""
    rows = [labels_or_raise(value) for value in values_or_raise(results)]
    if any(len(row) != 1 for row in rows):
        raise errors.Unimplemented("this model does not rank texts: it has more labels than one")
    ranks = [Rank(index, row[0].score) for index, row in enumerate(rows)]
    return sorted(ranks, key=lambda rank: -rank.score)


def multi_or_raise(value: Prediction) -> Vector:
    return _of_task(value.multi, "does not make a vector of each token")


def entities_or_raise(value: Prediction) -> list[Entity]:
    return _of_task(value.entities, "finds no entities")


def zero_shot_or_raise(
    results: list[Prediction | PredictionError], labels: Sequence[str], multi_label: bool
) -> list[list[Label]]:
    """Answers to ``zero_shot.pairs``, with the raw scores of all labels of the model."""
    rows = [sorted(labels_or_raise(value), key=lambda label: label.index) for value in values_or_raise(results)]
    if not rows:
        return []
    names = [label.name for label in rows[0]]
    if any([label.name for label in row] != names for row in rows):
        raise errors.Internal("the server's answers have different labels")
    logits = np.array([[label.score for label in row] for row in rows], np.float32)
    return zero_shot.answers(logits, labels, zero_shot.entailment(names), multi_label)


def sparse_or_raise(value: Prediction) -> SparseEmbedding:
    return _of_task(value.sparse, "makes no sparse embeddings")
