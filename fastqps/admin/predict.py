"""``POST /predict``: JSON items in, JSON answers out, through the server's own gRPC port like any other client's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastqps.metrics import CODES

if TYPE_CHECKING:
    import grpc.aio

    from fastqps.v1 import predict_pb2

ITEMS_MAX = 1024
TIMEOUT_S = 30.0
INPUTS = ("text", "pair", "token_ids")
OUTPUT_OPTIONS = ("dimensions", "normalize", "top_labels", "raw_scores", "timings")
PLAIN = ("text", "model", "truncate", "request_id")  # fields of the request of the same name
KEYS = tuple(dict.fromkeys((*INPUTS, *PLAIN, *OUTPUT_OPTIONS)))
HTTP_STATUS = {
    "OK": 200, "INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "DEADLINE_EXCEEDED": 504, "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503, "UNIMPLEMENTED": 501,
}  # fmt: skip


class BadItem(ValueError):
    """An item that cannot be turned into a request; the message says why."""


class Predict:
    """A client of this server. gRPC is imported with the first request: most servers never see one here."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel: grpc.aio.Channel | None = None

    async def __call__(self, asked: Any) -> tuple[int, Any]:
        """(HTTP status, JSON answer) for one item or a list of items. The items of a list fail one by one."""
        single = not isinstance(asked, list)
        items = [asked] if single else asked
        if not 0 < len(items) <= ITEMS_MAX:
            return 400, _error("INVALID_ARGUMENT", f"a list holds 1 to {ITEMS_MAX} items")
        await asyncio.to_thread(_import_grpc)
        try:
            requests = [_request(item, f"item {i}: " if not single else "") for i, item in enumerate(items)]
        except BadItem as error:
            return 400, _error("INVALID_ARGUMENT", str(error))
        code, answers = await self._call(requests)
        if code != "OK":
            return HTTP_STATUS.get(code, 500), answers
        if not single:
            return 200, answers
        return HTTP_STATUS.get(answers[0].get("error", {}).get("code", "OK"), 500), answers[0]

    async def close(self) -> None:
        """Gives the connection back."""
        if self._channel is not None:
            await self._channel.close(grace=None)

    async def _call(self, requests: list[predict_pb2.PredictRequest]) -> tuple[str, Any]:
        import grpc

        from fastqps.v1 import predict_pb2, predict_pb2_grpc

        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address)
        stub: Any = predict_pb2_grpc.PredictServiceStub(self._channel)  # type: ignore[no-untyped-call]
        try:
            found = await stub.PredictBatch(predict_pb2.PredictBatchRequest(items=requests), timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return error.code().name, _error(error.code().name, error.details() or "")
        return "OK", [_answer(item) for item in found.items]


def _import_grpc() -> None:
    import grpc.aio  # noqa: F401

    from fastqps.v1 import predict_pb2_grpc  # noqa: F401


def _request(item: Any, where: str) -> predict_pb2.PredictRequest:
    from fastqps.v1 import predict_pb2

    if not isinstance(item, dict):
        raise BadItem(f'{where}not an object such as {{"text": "hello"}}')
    if unknown := next((key for key in item if key not in KEYS), None):
        raise BadItem(f"{where}unknown key {unknown!r}; known: {', '.join(KEYS)}")
    if sum(key in item for key in INPUTS) != 1:
        raise BadItem(f"{where}exactly one of {', '.join(INPUTS)} is needed")
    try:
        plain: dict[str, Any] = {key: item[key] for key in PLAIN if key in item}
        request = predict_pb2.PredictRequest(**plain)
        if "pair" in item:
            first, second = item["pair"]
            request.pair.CopyFrom(predict_pb2.TextPair(first=first, second=second))
        if "token_ids" in item:
            request.token_ids.CopyFrom(predict_pb2.TokenIds(ids=item["token_ids"]))
        options = {key: item[key] for key in OUTPUT_OPTIONS if key in item}
        if options:
            request.output.CopyFrom(predict_pb2.OutputOptions(**options))
    except (TypeError, ValueError) as error:
        raise BadItem(f"{where}{error}") from None
    return request


def _answer(item: predict_pb2.PredictResponse) -> dict[str, Any]:
    if item.HasField("status") and item.status.code != 0:
        return _error(CODES[item.status.code], item.status.message)
    answer: dict[str, Any] = {}
    if item.request_id:
        answer["request_id"] = item.request_id
    if item.WhichOneof("output") == "embedding":
        answer["embedding"] = list(item.embedding.values)
    elif item.WhichOneof("output") == "classification":
        labels = item.classification.labels
        answer["labels"] = [{"name": label.name, "score": label.score, "index": label.index} for label in labels]
    answer["input_tokens"] = item.usage.input_tokens
    if item.usage.truncated:
        answer["truncated"] = True
    if item.HasField("timings"):
        answer["timings"] = {field.name: value for field, value in item.timings.ListFields()}
    return answer


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}
