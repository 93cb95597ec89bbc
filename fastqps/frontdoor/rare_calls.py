"""The calls that Python answers in a front door: reflection and the lists of models, never a prediction."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from fastqps import _front
from fastqps.api import reflection
from fastqps.errors import StatusCode
from fastqps.frontdoor.rare_routes import RareRoute, Request
from fastqps.frontdoor.served import ServedModel, ServedModels
from fastqps.v1 import predict_pb2

MESSAGE, HALF_CLOSE, GONE = 0, 1, 2  # transport::RareEvent
SLOW_WAITING_MAX = 64  # messages
RareEvent = tuple[tuple[int, int], int, int, bytes, bool, tuple[str, list[str]] | None]
"""What ``Door.next_rare`` returns."""


def list_models(models: list[ServedModel]) -> bytes:
    """The serialized ``ListModelsResponse``."""
    answer = predict_pb2.ListModelsResponse()
    for i, model in enumerate(models):
        card = model.card
        form = card.traits.form
        answer.models.add(
            name=card.name,
            version=card.version,
            task=predict_pb2.Task.ValueType(card.traits.number),
            is_default=i == 0,
            input_tokens_max=card.max_input_tokens,
            output_tokens_max=card.max_output_tokens,
            dimensions=card.vocab_size if form == "sparse" else card.dimensions * (form == "vector"),
            labels=card.labels,
            native_tokenizer=model.native,
            warnings=card.warnings,
            prompt_names=[name for name, _ in card.prompts],
            default_prompt_name=card.default_prompt,
            repeatable=model.repeatable,
            takes_chats=model.card.chat is not None,
        )
    return answer.SerializeToString()


class CallFailed(Exception):
    """Ends a call with this status code of gRPC and this message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RareMethod(NamedTuple):
    """One method: ``answer`` takes a serialized request and returns a serialized response."""

    path: str
    unary: bool  # otherwise a bidirectional stream with one response for each request
    answer: Callable[[bytes], bytes]
    # Takes as much text as --max-tokenize-bytes, and is answered on a second thread: the other calls do not wait.
    slow: bool = False


def rare_methods(models: ServedModels) -> list[RareMethod]:
    """The table of the methods of fastqps and of reflection."""
    reflect = "ServerReflection/ServerReflectionInfo"
    return [
        RareMethod("/fastqps.v1.PredictService/ListModels", True, lambda _: list_models(models.all())),
        RareMethod(f"/grpc.reflection.v1.{reflect}", False, lambda request: reflection.answer(request, "v1")),
        RareMethod(f"/grpc.reflection.v1alpha.{reflect}", False, lambda request: reflection.answer(request, "v1alpha")),
    ]


def serve(door: _front.Door, methods: list[RareMethod], routes: list[RareRoute]) -> None:
    """Adds methods and routes, and answers their calls on separate threads until the door stops running."""
    for number, method in enumerate(methods):
        door.add_rare_method(method.path, method.unary, method.slow, number)
    for number, route in enumerate(routes, len(methods)):
        door.add_rare_route(route.verb, route.pattern, route.protocol, route.slow, number)

    rows: list[RareMethod | RareRoute] = [*methods, *routes]
    slow: queue.Queue[RareEvent] = queue.Queue(SLOW_WAITING_MAX)

    def answer(taken: RareEvent) -> None:
        call, number, event, message, _, http = taken
        row = rows[number]
        try:
            if isinstance(row, RareRoute):
                assert http is not None
                response = row.answer(Request(*http, message))
                door.answer_rare_route(call, response.body, response.status, response.content_type)
                return
            body = row.answer(message) if event == MESSAGE else None
        except CallFailed as error:
            door.answer_rare(call, None, True, error.code, str(error))
        except Exception as error:  # the call must be answered whatever it contains
            door.answer_rare(call, None, True, StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        else:
            # Only a half-close ends a stream's input: several messages may arrive together before it.
            door.answer_rare(call, body, row.unary or event == HALF_CLOSE)

    waiting: Counter[tuple[int, int]] = Counter()  # how many messages of each call are in `slow`, unless it is gone
    lock = threading.Lock()

    def work() -> None:
        while (taken := door.next_rare(-1)) is not None:
            call, number, event, *_ = taken
            if event == GONE:
                with lock:
                    waiting.pop(call, None)
                continue
            if not rows[number].slow:
                answer(taken)
                continue
            with lock:
                waiting[call] += 1
            try:
                slow.put_nowait(taken)
            except queue.Full:
                with lock:
                    waiting[call] -= 1
                door.answer_rare(call, None, True, StatusCode.RESOURCE_EXHAUSTED, "too many calls of this kind wait")

    def work_slowly() -> None:
        while True:
            taken = slow.get()
            with lock:
                left = waiting.pop(taken[0], 0)
                if left > 1:
                    waiting[taken[0]] = left - 1
            if left:
                answer(taken)

    threading.Thread(target=work, name="rare calls", daemon=True).start()
    threading.Thread(target=work_slowly, name="slow rare calls", daemon=True).start()
