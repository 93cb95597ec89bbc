"""The synchronous client."""

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from fastqps import errors, rpc
from fastqps.prediction import (
    Label,
    Model,
    Prediction,
    PredictionError,
    Vector,
    read_batch,
    read_models,
    read_prediction,
)
from fastqps.request import Item, Options, split_batches, texts_only, to_message
from fastqps.v1 import predict_pb2 as pb


class Client:
    """Calls one server. Safe to use from many threads; close it, or use it in a `with` statement.

        with fastqps.Client("127.0.0.1:50051") as client:
            vectors = client.embed(["a text", "another"])  # [2, d] float32

    Nothing is tried again by itself, but for calls that could not leave this machine (gRPC's transparent retries): what
    a server has seen may have run. Errors are those of `fastqps.errors`; the ladder there says when trying again helps.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        model: str = "",
        timeout_s: float = 10.0,
        channels: int = 1,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Connects when first used.

        Args:
            address: HOST:PORT, or any other gRPC target.
            model: name of the model to use where a call names none. Empty: the server's default.
            timeout_s: seconds for each call that names no time of its own.
            channels: connections to open, used in turn. One connection is served by one front door; many busy
                threads want one for each.
            credentials: for TLS; without them the connection is not encrypted.
        """
        self.address = address
        self.model = model
        self.timeout_s = timeout_s
        options = rpc.channel_options(channels)
        self._channels = [
            grpc.secure_channel(address, credentials, options)
            if credentials
            else grpc.insecure_channel(address, options)
            for _ in range(channels)
        ]
        # One callable of each kind for each channel; next() of a cycle is atomic.
        cycle, opened = itertools.cycle, self._channels
        self._predict = cycle([c.unary_unary(rpc.PREDICT, rpc.serialize_request, rpc.as_is) for c in opened])
        self._batch = cycle([c.unary_unary(rpc.PREDICT_BATCH, rpc.serialize_batch, rpc.as_is) for c in opened])
        self._stream = cycle([c.stream_stream(rpc.PREDICT_STREAM, rpc.serialize_request, rpc.as_is) for c in opened])

    def close(self) -> None:
        """Ends all calls that are under way and closes the connections."""
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def predict(self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]) -> Prediction:
        """Asks for one item: a text, a pair of texts, or token ids with the special ones.

        timeout_s: seconds for the call. Raises errors.CallError.
        """
        message = to_message(item, self._with_model(options))
        try:
            data = next(self._predict)(message, timeout=self._timeout_s(timeout_s))
            return rpc.value_or_raise(read_prediction(data))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        except DecodeError as error:
            raise rpc.damaged(error) from None

    def predict_batch(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Prediction | PredictionError]:
        """Asks for many items at once. Answers in the same order; a bad item is a PredictionError in its place.

        More than 256 items or 1 MiB go as several calls, at most four under way. timeout_s: seconds for each of them.
        Raises errors.CallError if a whole call fails.
        """
        options = self._with_model(options)
        messages = (to_message(item, options) for item in items)
        under_way: deque[Any] = deque()
        out: list[Prediction | PredictionError] = []
        try:
            for batch in split_batches(messages):
                if len(under_way) == rpc.BATCHES_IN_FLIGHT_MAX:
                    out += read_batch(under_way.popleft().result())
                under_way.append(next(self._batch).future(batch, timeout=self._timeout_s(timeout_s)))
            while under_way:
                out += read_batch(under_way.popleft().result())
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        except grpc.FutureCancelledError:
            raise errors.Cancelled("the client was closed") from None
        except DecodeError as error:
            raise rpc.damaged(error) from None
        finally:
            for call in under_way:
                call.cancel()
        return out

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]) -> Vector:
        """Embeddings of texts: float32 of shape [len(texts), dimensions]; [0, 0] for no text.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        rows = [rpc.embedding_or_raise(value) for value in rpc.values_or_raise(results)]
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    def classify(
        self, texts: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Label]]:
        """Labels of texts or pairs, best first, `top_labels` of them if that is given.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.labels_or_raise(value) for value in rpc.values_or_raise(results)]

    def predict_stream(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Iterator[Prediction | PredictionError]:
        """Asks for items as they come from `items`, at most 512 under way, and yields answers as they finish.

        The answers' order is not the items': `request_id` is the item's place in `items`, from 0. A bad item is a
        PredictionError; the others go on. `items` is read in another thread, and may be endless.
        timeout_s: seconds for each item. Raises errors.CallError if the stream breaks, and what `items` raises.
        """
        options = self._with_model(options)
        item_timeout_s = self._timeout_s(timeout_s)
        sender = _Sender(to_message(item, options, item_timeout_s) for item in items)
        call: Any = next(self._stream)(sender.messages())
        try:
            for data in call:
                sender.answered()
                yield read_prediction(data)
            sender.check()
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        except DecodeError as error:
            raise rpc.damaged(error) from None
        finally:
            sender.stop()
            call.cancel()

    def models(self, *, timeout_s: float | None = None) -> list[Model]:
        """The models that are served. timeout_s: seconds for the call. Raises errors.CallError."""
        call = self._channels[0].unary_unary(rpc.LIST_MODELS, rpc.serialize_list_models, rpc.read_list_models)
        try:
            return read_models(call(pb.ListModelsRequest(), timeout=self._timeout_s(timeout_s)))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    def ready(self, *, timeout_s: float = 1.0) -> bool:
        """Whether the server is there and says that it serves. timeout_s: seconds to wait for its answer."""
        call = self._channels[0].unary_unary(rpc.HEALTH_CHECK, rpc.as_is, rpc.as_is)
        try:
            return rpc.is_serving(call(rpc.health_request(), timeout=timeout_s))
        except (grpc.RpcError, DecodeError):
            return False

    def _timeout_s(self, timeout_s: float | None) -> float:
        return self.timeout_s if timeout_s is None else timeout_s

    def _with_model(self, options: Options) -> Options:
        return {"model": self.model, **options}


class _Sender:
    """Feeds one PredictStream call: numbers the messages and keeps how many are under way bounded."""

    def __init__(self, source: Iterator[pb.PredictRequest]) -> None:
        self._source = source
        self._room = threading.Semaphore(rpc.STREAM_IN_FLIGHT_MAX)
        self._stopped = False
        self._finished = False
        self._failure: Exception | None = None  # what the source raised
        self._sent = 0
        self._answered = 0

    def messages(self) -> Iterator[pb.PredictRequest]:
        """Runs in a thread of gRPC's. A source that fails ends the sending; what was sent is still answered."""
        try:
            for message in self._source:
                self._room.acquire()
                if self._stopped:
                    return
                message.request_id = self._sent
                self._sent += 1
                yield message
        except Exception as error:
            self._failure = error
        self._finished = True

    def answered(self) -> None:
        self._answered += 1
        self._room.release()

    def check(self) -> None:
        """At the end of the answers: raises what the source raised, or Internal if an answer is missing."""
        if self._failure:
            raise self._failure
        if not self._finished or self._answered != self._sent:
            raise errors.Internal(f"the server ended the stream after {self._answered} of {self._sent} answers")

    def stop(self) -> None:
        self._stopped = True
        self._room.release()  # for a thread that waits for room
