"""The calls of a front door that Python answers: reflection and the list of models. Never Predict."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastqps import _front
from fastqps.api import reflection
from fastqps.models.card import ModelCard
from fastqps.v1 import predict_pb2

MESSAGE, HALF_CLOSE, GONE = 0, 1, 2  # front::RareEvent
INTERNAL = 13
_TASKS = {
    "embed": predict_pb2.TASK_EMBED,
    "classify": predict_pb2.TASK_CLASSIFY,
    "generate": predict_pb2.TASK_GENERATE,
}


def list_models(cards: list[ModelCard], native: list[bool]) -> bytes:
    """The serialized ``ListModelsResponse``."""
    answer = predict_pb2.ListModelsResponse()
    for i, (card, is_native) in enumerate(zip(cards, native, strict=True)):
        answer.models.add(
            name=card.name,
            version=card.version,
            task=_TASKS[card.task],
            is_default=i == 0,
            input_tokens_max=card.max_input_tokens,
            output_tokens_max=card.max_output_tokens,
            dimensions=card.dimensions if card.task == "embed" else 0,
            labels=card.labels,
            native_tokenizer=is_native,
            warnings=card.warnings,
        )
    return answer.SerializeToString()


def serve(door: _front.Door, models: Callable[[], bytes]) -> None:
    """Answers rare calls on a thread of its own until the door has stopped running. ``models``: as ``list_models``."""
    answers: list[Callable[[bytes], bytes]] = [
        lambda request: models(),
        lambda request: reflection.answer(request, "v1"),
        lambda request: reflection.answer(request, "v1alpha"),
    ]

    def work() -> None:
        while (found := door.next_rare(-1)) is not None:
            call, method, event, message, _ = found
            if event == GONE:
                continue
            unary = method == 0
            try:
                body = answers[method](message) if event == MESSAGE else None
            except Exception as error:  # a reply must go out whatever this call holds
                door.answer_rare(call, None, True, INTERNAL, f"{type(error).__name__}: {error}")
                continue
            # Only a half-close ends a stream's input: several messages may arrive together before it.
            door.answer_rare(call, body, unary or event == HALF_CLOSE)

    threading.Thread(target=work, name="rare calls", daemon=True).start()
