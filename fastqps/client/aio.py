"""The client for asyncio and uvloop."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from .. import errors
from ..api import rpc, zero_shot
from ..api.prediction import (
    Chunk,
    Entity,
    Generation,
    Label,
    Prediction,
    PredictionError,
    SparseEmbedding,
    Vector,
    read_batch,
    read_chunk,
    read_prediction,
)
from ..api.request import BATCH_ITEMS_MAX, MULTI_ITEMS_MAX, Item, Options, split_batches, texts_only, to_message
from ..api.served_model import Model, read_models
from ..v1 import predict_pb2 as pb
from .base import ClientBase, Methods, StreamCount, mapped_errors


class AsyncClient(ClientBase):
    """Calls one server from one event loop. The same calls as `fastqps.Client`, with the same arguments and errors.

        async with fastqps.AsyncClient("127.0.0.1:50051") as client:
            vectors = await client.embed(["a text", "another"])  # [2, d] float32

    Cancelling a task cancels its call at the server too.
    """

    @cached_property
    def _channels(self) -> list[Any]:
        return self._open(grpc.aio)

    @cached_property
    def _methods(self) -> Methods:
        return Methods(self._channels)

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
        attempts = self._attempts(timeout_s)
        while True:
            try:
                with mapped_errors():
                    data = await next(self._methods.predict)(
                        message, timeout=attempts.left_s(), metadata=self._metadata
                    )
                    return rpc.value_or_raise(read_prediction(data))
            except errors.CallError as error:
                wait_s = attempts.wait_s(error)
            await asyncio.sleep(wait_s)

    async def predict_batch(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Prediction | PredictionError]:
        """As Client.predict_batch()."""
        return await self._predict_batches(items, timeout_s, options, BATCH_ITEMS_MAX)

    async def _predict_batches(
        self, items: Iterable[Item], timeout_s: float | None, options: Options, items_max: int
    ) -> list[Prediction | PredictionError]:
        options = self._with_model(options)
        messages = (to_message(item, options) for item in items)
        if not self.retries:
            return await self._ask_batches(messages, self._timeout_s(timeout_s), items_max)
        kept = list(messages)
        out = await self._ask_batches(kept, self._timeout_s(timeout_s), items_max)
        attempts = self._attempts(timeout_s)
        while True:
            places, wait_s = attempts.batch_wait_s(out)
            if not places:
                return out
            await asyncio.sleep(wait_s)
            try:
                again = await self._ask_batches([kept[place] for place in places], attempts.left_s(), items_max)
            except errors.CallError:  # the others' answers stay, and these have the server's refusals
                return out
            for place, result in zip(places, again, strict=True):
                out[place] = result

    async def _ask_batches(
        self, messages: Iterable[pb.PredictRequest], timeout_s: float, items_max: int
    ) -> list[Prediction | PredictionError]:
        under_way: deque[Any] = deque()
        out: list[Prediction | PredictionError] = []
        try:
            with mapped_errors():
                for batch in split_batches(messages, items_max):
                    if len(under_way) == rpc.BATCHES_IN_FLIGHT_MAX:
                        out += read_batch(await under_way.popleft())
                    under_way.append(next(self._methods.batch)(batch, timeout=timeout_s, metadata=self._metadata))
                while under_way:
                    out += read_batch(await under_way.popleft())
        finally:
            for call in under_way:
                call.cancel()
        return out

    async def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Vector:
        """As Client.embed()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return rpc.embeddings_or_raise(results)

    async def classify(
        self, texts: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Label]]:
        """As Client.classify()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.labels_or_raise(value) for value in rpc.values_or_raise(results)]

    async def zero_shot(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis: str = zero_shot.HYPOTHESIS,
        multi_label: bool = False,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> list[list[Label]]:
        """As Client.zero_shot()."""
        asked = zero_shot.pairs(texts, labels, hypothesis)
        options |= {"raw_scores": True, "top_labels": 0, "keep_second": True}
        results = await self.predict_batch(asked, timeout_s=timeout_s, **options)
        return rpc.zero_shot_or_raise(results, labels, multi_label)

    async def embed_multi(
        self, items: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Vector]:
        """As Client.embed_multi()."""
        results = await self._predict_batches(texts_only(items), timeout_s, options, MULTI_ITEMS_MAX)
        return [rpc.multi_or_raise(value) for value in rpc.values_or_raise(results)]

    async def entities(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Entity]]:
        """As Client.entities()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.entities_or_raise(value) for value in rpc.values_or_raise(results)]

    async def embed_sparse(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[SparseEmbedding]:
        """As Client.embed_sparse()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.sparse_or_raise(value) for value in rpc.values_or_raise(results)]

    async def generate(self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]) -> Generation:
        """As Client.generate()."""
        return rpc.generation_or_raise(await self.predict(item, timeout_s=timeout_s, **options))

    async def generate_stream(
        self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> AsyncIterator[Chunk]:
        """As Client.generate_stream(). Leaving an `async for` does not close its iterator at once; to cancel there and
        then, use `contextlib.aclosing`, or cancel the task."""
        message = to_message(item, self._with_model(options))
        attempts = self._attempts(timeout_s)
        chunk: Chunk | None = None
        while True:
            call = next(self._methods.generate)(message, timeout=attempts.left_s(), metadata=self._metadata)
            try:
                with mapped_errors():
                    async for data in call:
                        chunk = read_chunk(data)
                        yield chunk
                rpc.check_end(chunk)
                return
            except errors.CallError as error:
                if chunk:
                    raise
                wait_s = attempts.wait_s(error)
            finally:
                call.cancel()
            await asyncio.sleep(wait_s)

    async def predict_stream(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> AsyncIterator[Prediction | PredictionError]:
        """As Client.predict_stream(); `items` may also be an async iterable, and is read by a task of its own."""
        options = self._with_model(options)
        call = next(self._methods.stream)(metadata=self._metadata)
        sender = _Sender(call, items, options, self._timeout_s(timeout_s))
        sending = asyncio.create_task(sender.run())
        try:
            with mapped_errors():
                try:
                    async for data in call:
                        sender.answered()
                        yield read_prediction(data)
                except grpc.RpcError as error:
                    raise _from_stream(error) from None
            sender.check()
        finally:
            sending.cancel()
            call.cancel()

    async def models(self, *, timeout_s: float | None = None) -> list[Model]:
        """As Client.models()."""
        with mapped_errors():
            return read_models(
                await self._methods.models(
                    pb.ListModelsRequest(), timeout=self._timeout_s(timeout_s), metadata=self._metadata
                )
            )

    async def ready(self, *, timeout_s: float = 1.0) -> bool:
        """As Client.ready()."""
        try:
            return rpc.is_serving(
                await self._methods.health(rpc.health_request(), timeout=timeout_s, metadata=self._metadata)
            )
        except (grpc.RpcError, DecodeError):
            return False


def _from_stream(error: Any) -> errors.CallError:
    """As errors.from_rpc(). grpc.aio forgets the server's status if a write meets the end of the stream before the
    status is read, and says INTERNAL; a stream ends so when its server drains or is gone."""
    if error.details() == "Internal error from Core":
        return errors.Unavailable("the server ended the stream while it was being sent to")
    return errors.from_rpc(error)


class _Sender(StreamCount):
    """Feeds one PredictStream call, and keeps how many messages are under way bounded."""

    def __init__(
        self, call: Any, items: Iterable[Item] | AsyncIterable[Item], options: Options, timeout_s: float
    ) -> None:
        super().__init__()
        self._call = call
        self._items = items
        self._options = options
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(rpc.STREAM_IN_FLIGHT_MAX)

    async def run(self) -> None:
        """Sends the items. An item that fails ends the sending, and sent items are still answered. The reader handles a
        broken call."""
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            try:
                async for message in self._messages():
                    await self._room.acquire()
                    await self._call.write(self._numbered(message))
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
