"""The synchronous client."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
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


class Client(ClientBase):
    """Calls one server. Safe to use from many threads; close it, or use it in a `with` statement.

        with fastqps.Client("127.0.0.1:50051") as client:
            vectors = client.embed(["a text", "another"])  # [2, d] float32

    By default nothing is tried again but calls that could not leave this machine (gRPC's transparent retries): what a
    server has seen may have run. With `retries`, what the server refused before it ran is tried again as well. Errors
    are those of `fastqps.errors`, importable from `fastqps`; their docstrings say when trying again helps.
    """

    def _prepare(self) -> None:
        self._channels = self._open(grpc)
        self._methods = Methods(self._channels)

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
        """Asks for one item: a text, a pair of texts, token ids with the special ones, or a Chat.

        timeout_s: seconds for the call, retries included. Raises errors.CallError.
        """
        message = self._requests(options).message(item)
        attempts = self._attempts(timeout_s)
        while True:
            try:
                with mapped_errors():
                    data = next(self._methods.predict)(message, timeout=attempts.left_s(), metadata=self._metadata)
                    return read_answer(data, message.request_id)
            except errors.CallError as error:
                wait_s = attempts.wait_s(error)
            time.sleep(wait_s)

    def predict_batch(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Prediction | PredictionError]:
        """Asks for many items at once. Answers in the same order; a bad item is a PredictionError in its place.

        More than 256 items or 1 MiB go as several calls, at most four under way. timeout_s: seconds for each of them,
        and for all calls that retry refused items. Raises errors.CallError if a call of the first attempt fails.
        """
        return self._predict_batches(items, timeout_s, options, BATCH_ITEMS_MAX)

    def _predict_batches(
        self, items: Iterable[Item], timeout_s: float | None, options: Options, items_max: int
    ) -> list[Prediction | PredictionError]:
        requests = self._requests(options)
        asked = (requests.asked(item, place) for place, item in enumerate(items))
        if not self.retries:
            return self._ask_batches(asked, self._timeout_s(timeout_s), items_max)
        kept = list(asked)
        out = self._ask_batches(kept, self._timeout_s(timeout_s), items_max)
        attempts = self._attempts(timeout_s)
        while True:
            places, wait_s = attempts.batch_wait_s(out)
            if not places:
                return out
            time.sleep(wait_s)
            try:
                again = self._ask_batches([kept[place] for place in places], attempts.left_s(), items_max)
            except errors.CallError:  # the others' answers stay, and these have the server's refusals
                return out
            for place, result in zip(places, again, strict=True):
                out[place] = result

    def _ask_batches(
        self, items: Iterable[Asked], timeout_s: float, items_max: int
    ) -> list[Prediction | PredictionError]:
        under_way: deque[tuple[Batch, Any]] = deque()
        out: list[Prediction | PredictionError] = []
        try:
            with mapped_errors():
                for batch in split_batches(items, items_max):
                    if len(under_way) == rpc.BATCHES_IN_FLIGHT_MAX:
                        out += _results(*under_way.popleft())
                    ask = next(self._methods.batch).future
                    under_way.append((batch, ask(batch.message, timeout=timeout_s, metadata=self._metadata)))
                while under_way:
                    out += _results(*under_way.popleft())
        finally:
            for _, call in under_way:
                call.cancel()
        return out

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]) -> Vector:
        """Embeddings of texts: float32 of shape [len(texts), dimensions]; [0, 0] for no text.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return rpc.embeddings_or_raise(results)

    def classify(
        self, texts: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Label]]:
        """Labels of texts or pairs, best first, `top_labels` of them if that is given.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.labels_or_raise(value) for value in rpc.values_or_raise(results)]

    def rerank(
        self, query: str, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Rank]:
        """Ranks texts by how well they answer a query, best first: for cross-encoders with one label.

        The scores are the model's own; with `raw_scores` those before its activation. timeout_s: as in predict_batch().
        Raises errors.CallError as classify() does, and Unimplemented for a model with more labels.
        """
        pairs = [(query, text) for text in texts_only(texts)]
        results = self.predict_batch(pairs, timeout_s=timeout_s, **options)
        return rpc.ranks_or_raise(results)

    def zero_shot(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis: str = zero_shot.HYPOTHESIS,
        multi_label: bool = False,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> list[list[Label]]:
        """Labels that the model was not trained for, best first: does the text entail ``hypothesis`` with the label?

        For classifiers of entailment. The scores of a text's labels add up to 1; with ``multi_label`` each label has a
        probability of its own. ``truncate`` cuts the texts, and never a hypothesis. Raises ValueError where the model
        has no label that begins with "entail"; the rest as classify().
        """
        asked = zero_shot.pairs(texts, labels, hypothesis)
        options |= {"raw_scores": True, "keep_second": True}
        options.pop("top_labels", None)  # the scores of all labels decide
        results = self.predict_batch(asked, timeout_s=timeout_s, **options)
        return rpc.zero_shot_or_raise(results, labels, multi_label)

    def embed_multi(
        self, items: Sequence[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[Vector]:
        """A vector for each token of each item: float32 arrays [tokens, dimensions].

        `prompt_name="query"` or `"document"` says what the items are. timeout_s: as in predict_batch(). Raises
        errors.CallError as entities() does.
        """
        results = self._predict_batches(texts_only(items), timeout_s, options, MULTI_ITEMS_MAX)
        return [rpc.multi_or_raise(value) for value in rpc.values_or_raise(results)]

    def entities(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[list[Entity]]:
        """The entities in each text, in its order. `aggregation` says how the labels of tokens become entities.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.entities_or_raise(value) for value in rpc.values_or_raise(results)]

    def embed_sparse(
        self, texts: Sequence[str], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> list[SparseEmbedding]:
        """The sparse embedding of each text. `max_active_dims` limits the number of its weights.

        timeout_s: as in predict_batch(). Raises errors.CallError, also if only one of the texts fails: the message
        says which, from 0; predict_batch() and predict_stream() go on.
        """
        results = self.predict_batch(texts_only(texts), timeout_s=timeout_s, **options)
        return [rpc.sparse_or_raise(value) for value in rpc.values_or_raise(results)]

    def generate(self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]) -> Generation:
        """The text that a model makes of a prompt (a text or token ids), when it is complete.

        timeout_s: seconds for the whole of it. Raises errors.CallError. For many prompts at once predict_batch() and
        predict_stream() take the same options; each answer's `generation` is set.
        """
        return rpc.generation_or_raise(self.predict(item, timeout_s=timeout_s, **options))

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        **options: Unpack[Options],
    ) -> Generation:
        """The answer of a model with a chat template: generate() of a Chat, which generate_stream() takes, too.

        client.chat([{"role": "user", "content": "Hello"}], max_tokens=50).text
        """
        chat = Chat(messages, continue_final_message, variables or {})
        return self.generate(chat, timeout_s=timeout_s, **options)

    def generate_stream(
        self, item: Item, *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Iterator[Chunk]:
        """The same, as it is made: at least one chunk, the last one with `finish_reason` and `usage`.

            for chunk in client.generate_stream("Once upon a time", max_tokens=50):
                print(chunk.text, end="", flush=True)

        The call begins with the first chunk that is asked for. Closing the iterator, as leaving such a loop does,
        cancels it at the server. timeout_s: seconds for the whole of it. Raises errors.CallError.
        """
        message = self._requests(options).message(item)
        attempts = self._attempts(timeout_s)
        while True:
            chunks = Chunks(message)
            call: Any = next(self._methods.generate)(message, timeout=attempts.left_s(), metadata=self._metadata)
            try:
                with mapped_errors():
                    for data in call:
                        yield chunks.read(data)
                chunks.check_end()
                return
            except errors.CallError as error:
                if chunks.begun:
                    raise
                wait_s = attempts.wait_s(error)
            finally:
                call.cancel()
            time.sleep(wait_s)

    def predict_stream(
        self, items: Iterable[Item], *, timeout_s: float | None = None, **options: Unpack[Options]
    ) -> Iterator[Prediction | PredictionError]:
        """Asks for items as they come from `items`, at most 512 under way, and yields answers as they finish.

        The answers' order is not the items': `request_id` is the item's place in `items`, from 0. A bad item is a
        PredictionError; the others go on. `items` is read in another thread, and may be endless.
        timeout_s: seconds for each item. Raises errors.CallError if the stream breaks or the server says nothing for a
        second longer than that, and what `items` raises.
        """
        item_timeout_s = self._timeout_s(timeout_s)
        stream = _Stream(items, self._requests(options, item_timeout_s), item_timeout_s)
        call: Any = next(self._methods.stream)(stream.messages(), metadata=self._metadata)
        try:
            with mapped_errors():
                stream.begin(call)
                for data in call:
                    yield stream.answer(data)
                    stream.await_answer()
            stream.check_end()
        except errors.Cancelled:
            if stream.silent:
                raise stream.silence() from None
            raise
        finally:
            stream.stop()
            call.cancel()

    def models(self, *, timeout_s: float | None = None) -> list[Model]:
        """The models that are served. timeout_s: seconds for the call. Raises errors.CallError."""
        with mapped_errors():
            return read_models(
                self._methods.models(
                    pb.ListModelsRequest(), timeout=self._timeout_s(timeout_s), metadata=self._metadata
                )
            )

    def ready(self, *, timeout_s: float = 1.0) -> bool:
        """Whether the server is reachable and reports that it serves. timeout_s: seconds to wait for its answer."""
        try:
            return rpc.is_serving(
                self._methods.health(rpc.health_request(), timeout=timeout_s, metadata=self._metadata)
            )
        except (grpc.RpcError, DecodeError):
            return False


def _results(batch: Batch, call: Any) -> list[Prediction | PredictionError]:
    return batch.read(call.result())


class _Stream(Stream):
    """Feeds one PredictStream call, bounds how many messages are under way, and ends it if the server is silent."""

    def __init__(self, items: Iterable[Item], requests: Requests, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self._source = iter(items)
        self._requests = requests
        self._room = threading.Semaphore(rpc.STREAM_IN_FLIGHT_MAX)
        self._stopped = threading.Event()

    def messages(self) -> Iterator[pb.PredictRequest]:
        """Runs in a thread of gRPC's. A source that fails ends the sending; what was sent is still answered."""
        while True:
            try:
                item = next(self._source)
            except StopIteration:
                self.finish()
                return
            except BaseException as error:
                self.finish(error)
                return
            self._room.acquire()
            if self._stopped.is_set():
                return
            yield self.send(self._requests, item)

    def begin(self, call: Any) -> None:
        self.await_answer()
        threading.Thread(target=self._watch, args=(call,), name="fastqps-predict-stream", daemon=True).start()

    def answer(self, data: bytes) -> Prediction | PredictionError:
        self._room.release()
        return self.take(data)

    def stop(self) -> None:
        self._stopped.set()
        self._room.release()  # for a thread that waits for room

    def _watch(self, call: Any) -> None:
        """Runs in a thread of its own: gRPC's wait for an answer has no limit."""
        while left_s := self.look_in_s():
            if self._stopped.wait(left_s):
                return
        call.cancel()
