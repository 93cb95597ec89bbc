"""The calls that Python answers in a front door: reflection and the list of models, never a prediction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from fastqps import _front
from fastqps.api import reflection
from fastqps.frontdoor.served import ServedModel, ServedModels
from fastqps.v1 import predict_pb2

MESSAGE, HALF_CLOSE, GONE = 0, 1, 2  # front::RareEvent
INTERNAL = 13
_TASKS = {
    "embed": predict_pb2.TASK_EMBED,
    "classify": predict_pb2.TASK_CLASSIFY,
    "generate": predict_pb2.TASK_GENERATE,
}


def list_models(models: list[ServedModel]) -> bytes:
    """The serialized ``ListModelsResponse``."""
    answer = predict_pb2.ListModelsResponse()
    for i, model in enumerate(models):
        card = model.card
        answer.models.add(
            name=card.name,
            version=card.version,
            task=_TASKS[card.task],
            is_default=i == 0,
            input_tokens_max=card.max_input_tokens,
            output_tokens_max=card.max_output_tokens,
            dimensions=card.dimensions if card.task == "embed" else 0,
            labels=card.labels,
            native_tokenizer=model.native,
            warnings=card.warnings,
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


def rare_methods(models: ServedModels) -> list[RareMethod]:
    """The table of the methods of fastqps and of reflection."""
    reflect = "ServerReflection/ServerReflectionInfo"
    return [
        RareMethod("/fastqps.v1.PredictService/ListModels", True, lambda _: list_models(models.all())),
        RareMethod(f"/grpc.reflection.v1.{reflect}", False, lambda request: reflection.answer(request, "v1")),
        RareMethod(f"/grpc.reflection.v1alpha.{reflect}", False, lambda request: reflection.answer(request, "v1alpha")),
    ]


def serve(door: _front.Door, methods: list[RareMethod]) -> None:
    """Adds the methods, and answers their calls on a separate thread until the door stops running."""
    for number, method in enumerate(methods):
        door.add_rare_method(method.path, method.unary, number)

    def work() -> None:
        while (taken := door.next_rare(-1)) is not None:
            call, number, event, message, _ = taken
            if event == GONE:
                continue
            method = methods[number]
            try:
                body = method.answer(message) if event == MESSAGE else None
            except CallFailed as failure:
                door.answer_rare(call, None, True, failure.code, str(failure))
                continue
            except Exception as error:  # the call must be answered whatever it contains
                door.answer_rare(call, None, True, INTERNAL, f"{type(error).__name__}: {error}")
                continue
            # Only a half-close ends a stream's input: several messages may arrive together before it.
            door.answer_rare(call, body, method.unary or event == HALF_CLOSE)

    threading.Thread(target=work, name="rare calls", daemon=True).start()
