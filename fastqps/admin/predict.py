"""``POST /predict``: JSON items in, JSON answers out, through the front doors like any other client's."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastqps.errors import CallError
from fastqps.process.background import in_background

if TYPE_CHECKING:
    from fastqps.client.aio import AsyncClient
    from fastqps.v1 import predict_pb2

ITEMS_MAX = 64
INPUTS = ("text", "pair", "token_ids")
KEYS = (
    *INPUTS, "model", "priority", "tenant", "group", "prompt_name", "truncate", "timings",
    "dimensions", "normalize", "top_labels", "raw_scores",
    "max_tokens", "temperature", "top_k", "top_p", "seed", "stop", "stop_token_ids", "ignore_eos", "logprobs",
    "repetition_penalty", "no_repeat_ngram_size", "min_tokens", "suppress_token_ids", "add_special_tokens",
)  # fmt: skip
HTTP_STATUS = {0: 200, 3: 400, 4: 504, 5: 404, 8: 429, 12: 501, 14: 503}  # by gRPC code; every other is 500
INVALID_ARGUMENT = 3


class Predict:
    """A client of this server. gRPC is imported with the first request: most servers never see one here."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._client: AsyncClient | None = None

    async def __call__(self, asked: Any) -> tuple[int, Any]:
        """(HTTP status, JSON answer) for one item or a list of items. The items of a list fail one by one.

        ``UnexpectedError`` where the machine has no thread to import gRPC on.
        """
        single = not isinstance(asked, list)
        items = [asked] if single else asked
        await in_background(_import)
        from fastqps.api.prediction_json import error_json, prediction_json

        if not 0 < len(items) <= ITEMS_MAX:
            return 400, error_json(INVALID_ARGUMENT, f"{len(items)} items, a list holds 1 to {ITEMS_MAX} items")
        try:
            requests = [_request(item, "" if single else f"item {i}: ") for i, item in enumerate(items)]
        except ValueError as error:
            return 400, error_json(INVALID_ARGUMENT, str(error))
        try:
            predictions = await self._connected().predict_batch(requests)
        except CallError as error:
            return HTTP_STATUS.get(error.code, 500), error_json(error.code, error.message)
        answers = [prediction_json(item) for item in predictions]
        if not single:
            return 200, answers
        failure = getattr(predictions[0], "error", None)
        return HTTP_STATUS.get(failure.code if failure else 0, 500), answers[0]

    async def close(self) -> None:
        """Gives the connection back."""
        if self._client is not None:
            await self._client.close()

    def _connected(self) -> AsyncClient:
        if self._client is None:
            from fastqps.client.aio import AsyncClient

            self._client = AsyncClient(self._target)
        return self._client


def _import() -> None:
    for module in ("client.aio", "api.prediction_json"):
        import_module(f"fastqps.{module}")


def _request(item: Any, where: str) -> predict_pb2.PredictRequest:
    from fastqps.api.request import Requests

    if not isinstance(item, dict):
        raise ValueError(f'{where}not an object such as {{"text": "hello"}}')
    if unknown := next((key for key in item if key not in KEYS), None):
        raise ValueError(f"{where}unknown key {unknown!r}; known: {', '.join(KEYS)}")
    given = [key for key in INPUTS if key in item]
    if len(given) != 1:
        raise ValueError(f"{where}exactly one of {', '.join(INPUTS)} is needed")
    options: Any = {key: value for key, value in item.items() if key not in INPUTS}
    try:
        return Requests(options).message(_input(given[0], item[given[0]]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}{error}") from None


def _input(kind: str, value: Any) -> str | tuple[str, str] | list[int]:
    if kind == "text" and isinstance(value, str):
        return value
    if kind == "pair" and isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
        return value[0], value[1]
    if kind == "token_ids" and isinstance(value, list) and all(type(v) is int for v in value):
        return value
    raise TypeError({"text": "text is not a string", "pair": "pair is not a list of two strings"}.get(
        kind, "token_ids is not a list of whole numbers"))  # fmt: skip
