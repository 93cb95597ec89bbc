"""The client for asyncio and uvloop."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
import grpc.aio
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


class AsyncClient:
    """Calls one server from one event loop. The same calls as `fastqps.Client`, with the same arguments and errors.

        async with fastqps.AsyncClient("127.0.0.1:50051") as client:
            vectors = await client.embed(["a text", "another"])  # [2, d] float32

    Cancelling a task cancels its call at the server too.
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
        """May be made outside of a running loop: it connects, in the loop of the first call, when first used.

        Args: as `fastqps.Client`'s.
        """
        self.address = address
        self.model = model
        self.timeout_s = timeout_s
        self._channel_count = channels
        self._credentials = credentials

    @cached_property
    def _channels(self) -> list[grpc.aio.Channel]:
        options, credentials = rpc.channel_options(self._channel_count), self._credentials
        return [
            grpc.aio.secure_channel(self.address, credentials, options)
            if credentials
            else grpc.aio.insecure_channel(self.address, options)
            for _ in range(self._channel_count)
        ]

    # One callable of each kind for each channel, used in turn.

    @cached_property
    def _predict(self) -> Any:
        calls = [c.unary_unary(rpc.PREDICT, rpc.serialize_request, rpc.as_is) for c in self._channels]
        return itertools.cycle(calls)

    @cached_property
    def _batch(self) -> Any:
        calls = [c.unary_unary(rpc.PREDICT_BATCH, rpc.serialize_batch, rpc.as_is) for c in self._channels]
        return itertools.cycle(calls)

    @cached_property
    def _stream(self) -> Any:
        calls = [c.stream_stream(rpc.PREDICT_STREAM, rpc.serialize_request, rpc.as_is) for c in self._channels]
        return itertools.cycle(calls)

    async def close(self) -> None:
        """Ends all calls that are under way and closes the connections."""
        if "_channels" in self.__dict__:
            for channel in self._channels:
                await channel.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def predict(self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]) -> Prediction:
        """As Client.predict()."""
        message = to_message(item, self._with_model(options))
        try:
            data = await next(self._predict)(message, timeout=self._timeout_s(timeout_s))
            return rpc.value_or_raise(read_prediction(data))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        except DecodeError as error:
            raise rpc.damaged(error) from None

    async def predict_batch(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Prediction | PredictionError]:
        """As Client.predict_batch()."""
        options = self._with_model(options)
        messages = (to_message(item, options) for item in items)
        under_way: deque[Any] = deque()
        out: list[Prediction | PredictionError] = []
        try:
            for batch in split_batches(messages):
                if len(under_way) == rpc.BATCHES_IN_FLIGHT_MAX:
                    out += read_batch(await under_way.popleft())
                under_way.append(next(self._batch)(batch, timeout=self._timeout_s(timeout_s)))
            while under_way:
                out += read_batch(await under_way.popleft())
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None
        except DecodeError as error:
            raise rpc.damaged(error) from None
        finally:
            for call in under_way:
                call.cancel()
        return out

    async def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Vector:
        """As Client.embed()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        rows = [rpc.embedding_or_raise(value) for value in rpc.values_or_raise(results)]
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    async def classify(
        self, texts: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Label]]:
        """As Client.classify()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.labels_or_raise(value) for value in rpc.values_or_raise(results)]

    async def predict_stream(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> AsyncIterator[Prediction | PredictionError]:
        """As Client.predict_stream(); `items` may also be an async iterable, and is read by a task of its own."""
        options = self._with_model(options)
        call = next(self._stream)()
        sender = _Sender(call, items, options, self._timeout_s(timeout_s))
        sending = asyncio.create_task(sender.run())
        try:
            async for data in call:
                sender.answered()
                yield read_prediction(data)
            sender.check()
        except grpc.RpcError as error:
            raise _from_stream(error) from None
        except DecodeError as error:
            raise rpc.damaged(error) from None
        finally:
            sending.cancel()
            call.cancel()

    async def models(self, *, timeout_s: float | None = None) -> list[Model]:
        """As Client.models()."""
        call = self._channels[0].unary_unary(rpc.LIST_MODELS, rpc.serialize_list_models, rpc.read_list_models)
        try:
            return read_models(await call(pb.ListModelsRequest(), timeout=self._timeout_s(timeout_s)))
        except grpc.RpcError as error:
            raise errors.from_rpc(error) from None

    async def ready(self, *, timeout_s: float = 1.0) -> bool:
        """As Client.ready()."""
        call = self._channels[0].unary_unary(rpc.HEALTH_CHECK, rpc.as_is, rpc.as_is)
        try:
            return rpc.is_serving(await call(rpc.health_request(), timeout=timeout_s))
        except (grpc.RpcError, DecodeError):
            return False

    def _timeout_s(self, timeout_s: float | None) -> float:
        return self.timeout_s if timeout_s is None else timeout_s

    def _with_model(self, options: Options) -> Options:
        return {"model": self.model, **options}


def _from_stream(error: Any) -> errors.CallError:
    """As errors.from_rpc(). grpc.aio forgets the server's status if a write meets the end of the stream before the
    status is read, and says INTERNAL; a stream ends so when its server drains or is gone."""
    if error.details() == "Internal error from Core":
        return errors.Unavailable("the server ended the stream while it was being sent to")
    return errors.from_rpc(error)


class _Sender:
    """Feeds one PredictStream call: numbers the messages and keeps how many are under way bounded."""

    def __init__(
        self, call: Any, items: Iterable[Item] | AsyncIterable[Item], options: Options, timeout_s: float
    ) -> None:
        self._call = call
        self._items = items
        self._options = options
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(rpc.STREAM_IN_FLIGHT_MAX)
        self._failure: Exception | None = None  # what the items raised
        self._finished = False
        self._sent = 0
        self._answered = 0

    async def run(self) -> None:
        """Items that fail end the sending; what was sent is still answered. A broken call is the reader's affair."""
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            try:
                async for message in self._messages():
                    await self._room.acquire()
                    message.request_id = self._sent
                    self._sent += 1
                    await self._call.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError):
                raise
            except Exception as error:
                self._failure = error
            self._finished = True
            await self._call.done_writing()

    async def _messages(self) -> AsyncIterator[pb.PredictRequest]:
        if isinstance(self._items, AsyncIterable):
            async for item in self._items:
                yield to_message(item, self._options, self._timeout_s)
        else:
            for item in self._items:
                yield to_message(item, self._options, self._timeout_s)

    def answered(self) -> None:
        self._answered += 1
        self._room.release()

    def check(self) -> None:
        """At the end of the answers: raises what the items raised, or Internal if an answer is missing."""
        if self._failure:
            raise self._failure
        if not self._finished or self._answered != self._sent:
            raise errors.Internal(f"the server ended the stream after {self._answered} of {self._sent} answers")
