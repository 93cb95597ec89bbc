"""Answers of a server, counted and matched with what was asked before a caller sees them. Shared by both clients.

All raise errors.Internal or DecodeError for an answer that makes no sense.
"""

from collections.abc import Iterable, Iterator

from .. import errors
from ..api import rpc
from ..api.prediction import Chunk, Prediction, PredictionError, read_batch, read_chunk, read_prediction
from ..api.request import BATCH_BYTES_MAX, Asked
from ..v1 import predict_pb2 as pb


def read_answer(data: bytes, request_id: int) -> Prediction:
    """The answer to one call of Predict."""
    prediction = read_prediction(data)
    _match(prediction.request_id, request_id)
    return rpc.value_or_raise(prediction)


class Batch:
    """One call of PredictBatch. Its items are numbered by their places in it; answers get the callers' ids back."""

    def __init__(self) -> None:
        self.message = pb.PredictBatchRequest()
        self._ids: list[int] = []
        self._errors: dict[int, errors.CallError] = {}  # of items that could not be sent

    def add(self, asked: Asked) -> None:
        place, item = len(self._ids), self.message.items.add()
        item.CopyFrom(asked.message)
        item.request_id = place
        self._ids.append(asked.message.request_id)
        if asked.error:
            self._errors[place] = asked.error

    def read(self, data: bytes) -> list[Prediction | PredictionError]:
        """One result for each item, in their order."""
        results = read_batch(data)
        if len(results) != len(self._ids):
            raise errors.Internal(f"the server gave {len(results)} answers to {len(self._ids)} items")
        for place, (result, request_id) in enumerate(zip(results, self._ids, strict=True)):
            _match(result.request_id, place)
            result.request_id = request_id
        for place, error in self._errors.items():
            results[place] = PredictionError(self._ids[place], error)
        return results


def split_batches(items: Iterable[Asked], items_max: int) -> Iterator[Batch]:
    """Batches of at most items_max items and, unless one item alone is larger, BATCH_BYTES_MAX bytes."""
    batch, size = Batch(), 0
    for asked in items:
        size += asked.message.ByteSize()
        count = len(batch.message.items)
        if count and (count == items_max or size > BATCH_BYTES_MAX):
            yield batch
            batch, size = Batch(), asked.message.ByteSize()
        batch.add(asked)
    if batch.message.items:
        yield batch


class Chunks:
    """The chunks of one request: of all its choices."""

    def __init__(self, message: pb.PredictRequest) -> None:
        self._request_id = message.request_id
        self._choices = message.generate.n or 1
        self._complete: set[int] = set()
        self.begun = False

    def read(self, data: bytes) -> Chunk:
        request_id, chunk = read_chunk(data)
        _match(request_id, self._request_id)
        if chunk.choice >= self._choices:
            raise errors.Internal(f"the server sent a part of choice {chunk.choice}, of {self._choices}")
        if chunk.choice in self._complete:
            raise errors.Internal("the server went on after the text was complete")
        if chunk.finish_reason:
            self._complete.add(chunk.choice)
        self.begun = True
        return chunk

    def check_end(self) -> None:
        """Called when the stream has ended."""
        if len(self._complete) < self._choices:
            raise errors.Internal("the server ended the stream before the text was complete")


def _match(request_id: int, expected: int) -> None:
    if request_id != expected:
        raise errors.Internal(f"the server answered request_id {request_id} where {expected} was asked")
