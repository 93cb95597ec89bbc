"""The client for asyncio and uvloop."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from .. import errors
from ..api import rpc, zero_shot
from ..api.chat import Chat
from ..api.prediction import (
    Chunk,
    Entity,
    Generation,
    Label,
    Prediction,
    PredictionError,
    Rank,
    SparseEmbedding,
    Vector,
)
from ..api.request import BATCH_ITEMS_MAX, MULTI_ITEMS_MAX, Asked, Item, Options, Requests, texts_only
from ..api.served_model import Model, read_models
from ..v1 import predict_pb2 as pb
from .answers import Batch, Chunks, read_answer, split_batches
from .base import ClientBase, Methods, mapped_errors
from .stream import Stream


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
        """Like Client.predict()."""
        message = self._requests(options).message(item)
        attempts = self._attempts(timeout_s)
        while True:
            try:
                with mapped_errors():
                    data = await next(self._methods.predict)(
                        message, timeout=attempts.left_s(), metadata=self._metadata
                    )
                    return read_answer(data, message.request_id)
            except errors.CallError as error:
                wait_s = attempts.wait_s(error)
            await asyncio.sleep(wait_s)

    async def predict_batch(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Prediction | PredictionError]:
        """Like Client.predict_batch()."""
        return await self._predict_batches(items, timeout_s, options, BATCH_ITEMS_MAX)

    async def _predict_batches(
        self, items: Iterable[Item], timeout_s: float | None, options: Options, items_max: int
    ) -> list[Prediction | PredictionError]:
        requests = self._requests(options)
        asked = (requests.asked(item, place) for place, item in enumerate(items))
        if not self.retries:
            return await self._ask_batches(asked, self._timeout_s(timeout_s), items_max)
        kept = list(asked)
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
        self, items: Iterable[Asked], timeout_s: float, items_max: int
    ) -> list[Prediction | PredictionError]:
        under_way: deque[tuple[Batch, Any]] = deque()
        out: list[Prediction | PredictionError] = []
        try:
            with mapped_errors():
                for batch in split_batches(items, items_max):
                    if len(under_way) == rpc.BATCHES_IN_FLIGHT_MAX:
                        out += await _results(*under_way.popleft())
                    ask = next(self._methods.batch)
                    under_way.append((batch, ask(batch.message, timeout=timeout_s, metadata=self._metadata)))
                while under_way:
                    out += await _results(*under_way.popleft())
        finally:
            for _, call in under_way:
                call.cancel()
        return out

    async def embed(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Vector:
        """Like Client.embed()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return rpc.embeddings_or_raise(results)

    async def classify(
        self, texts: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Label]]:
        """Like Client.classify()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.labels_or_raise(value) for value in rpc.values_or_raise(results)]

    async def rerank(
        self, query: str, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Rank]:
        """Like Client.rerank()."""
        pairs = [(query, text) for text in texts_only(texts)]
        results = await self.predict_batch(pairs, timeout_s=timeout_s, **options)
        return rpc.ranks_or_raise(results)

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
        """Like Client.zero_shot()."""
        asked = zero_shot.pairs(texts, labels, hypothesis)
        options |= {"raw_scores": True, "keep_second": True}
        options.pop("top_labels", None)  # the scores of all labels decide
        results = await self.predict_batch(asked, timeout_s=timeout_s, **options)
        return rpc.zero_shot_or_raise(results, labels, multi_label)

    async def embed_multi(
        self, items: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Vector]:
        """Like Client.embed_multi()."""
        results = await self._predict_batches(texts_only(items), timeout_s, options, MULTI_ITEMS_MAX)
        return [rpc.multi_or_raise(value) for value in rpc.values_or_raise(results)]

    async def entities(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Entity]]:
        """Like Client.entities()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.entities_or_raise(value) for value in rpc.values_or_raise(results)]

    async def embed_sparse(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[SparseEmbedding]:
        """Like Client.embed_sparse()."""
        results = await self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.sparse_or_raise(value) for value in rpc.values_or_raise(results)]

    async def generate(self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]) -> Generation:
        """Like Client.generate()."""
        return rpc.generation_or_raise(await self.predict(item, timeout_s=timeout_s, **options))

    async def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> Generation:
        """Like Client.chat()."""
        chat = Chat(messages, continue_final_message, variables or {})
        return await self.generate(chat, timeout_s=timeout_s, **options)

    async def generate_stream(
        self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> AsyncIterator[Chunk]:
        """Like Client.generate_stream(). Leaving an `async for` does not close its iterator at once; to cancel there
        and then, use `contextlib.aclosing`, or cancel the task."""
        message = self._requests(options).message(item)
        attempts = self._attempts(timeout_s)
        while True:
            chunks = Chunks(message)
            call = next(self._methods.generate)(message, timeout=attempts.left_s(), metadata=self._metadata)
            try:
                with mapped_errors():
                    async for data in call:
                        yield chunks.read(data)
                chunks.check_end()
                return
            except errors.CallError as error:
                if chunks.begun:
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
        """Like Client.predict_stream(); `items` may also be an async iterable, and is read by a task of its own."""
        item_timeout_s = self._timeout_s(timeout_s)
        source = aiter(items) if isinstance(items, AsyncIterable) else _each(iter(items))
        call = next(self._methods.stream)(metadata=self._metadata)
        stream = _Stream(call, source, self._requests(options, item_timeout_s), item_timeout_s)
        sending = asyncio.create_task(stream.send_all())
        try:
            with mapped_errors():
                try:
                    stream.begin()
                    async for data in call:
                        yield stream.answer(data)
                        stream.await_answer()
                except grpc.RpcError as error:
                    raise _from_stream(error) from None
            stream.check_end()
        except asyncio.CancelledError:
            if stream.silent:
                raise stream.silence() from None
            raise
        finally:
            sending.cancel()
            stream.stop()
            call.cancel()

    async def models(self, *, timeout_s: float | None = None) -> list[Model]:
        """Like Client.models()."""
        with mapped_errors():
            return read_models(
                await self._methods.models(
                    pb.ListModelsRequest(), timeout=self._timeout_s(timeout_s), metadata=self._metadata
                )
            )

    async def ready(self, *, timeout_s: float = 1.0) -> bool:
        """Like Client.ready()."""
        try:
            return rpc.is_serving(
                await self._methods.health(rpc.health_request(), timeout=timeout_s, metadata=self._metadata)
            )
        except (grpc.RpcError, DecodeError):
            return False


def _from_stream(error: Any) -> errors.CallError:
    """Like errors.from_rpc(). grpc.aio forgets the server's status if a write meets the end of the stream before the
    status is read, and says INTERNAL; a stream ends so when its server drains or is gone."""
    if error.details() == "Internal error from Core":
        return errors.Unavailable("the server ended the stream while it was being sent to")
    return errors.from_rpc(error)


async def _results(batch: Batch, call: Any) -> list[Prediction | PredictionError]:
    return batch.read(await call)


async def _each(items: Iterator[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item


class _Stream(Stream):
    """Feeds one PredictStream call, bounds how many messages are under way, and ends it if the server is silent."""

    def __init__(self, call: Any, source: AsyncIterator[Item], requests: Requests, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self._call = call
        self._source = source
        self._requests = requests
        self._room = asyncio.Semaphore(rpc.STREAM_IN_FLIGHT_MAX)
        self._look: asyncio.TimerHandle | None = None

    async def send_all(self) -> None:
        """Sends the items. A source that fails ends the sending; what was sent is still answered. The reader handles a
        broken call."""
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            while await self._send_next():
                pass
            await self._call.done_writing()

    async def _send_next(self) -> bool:
        """Whether there was an item."""
        try:
            item = await anext(self._source)
        except StopAsyncIteration:
            self.finish()
            return False
        except BaseException as error:
            if cast(asyncio.Task[None], asyncio.current_task()).cancelling():  # the reader has left
                raise
            self.finish(error)
            return False
        await self._room.acquire()
        await self._call.write(self.send(self._requests, item))
        return True

    def begin(self) -> None:
        self.await_answer()
        self._watch()

    def answer(self, data: bytes) -> Prediction | PredictionError:
        self._room.release()
        return self.take(data)

    def stop(self) -> None:
        if self._look:
            self._look.cancel()

    def _watch(self) -> None:
        if left_s := self.look_in_s():
            self._look = asyncio.get_running_loop().call_later(left_s, self._watch)
        else:
            self._call.cancel()
