"""The rare methods of tei.v1, text-embeddings-inference's gRPC API: Info and Tokenize.

They concern the default model, because the API has no model names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastqps import __version__
from fastqps.api.reflection import message_class
from fastqps.errors import StatusCode
from fastqps.frontdoor.default_tokenizer import DefaultTokenizer
from fastqps.frontdoor.rare_calls import CallFailed, RareMethod
from fastqps.frontdoor.served import ServedModels
from fastqps.models.card import ModelCard


def methods(models: ServedModels, dtype: str, tokenizer: DefaultTokenizer) -> list[RareMethod]:
    """The table of the methods that Python answers. ``dtype``: of models that are not static."""

    def info(_request: Any, response: Any) -> None:
        for name, value in facts(models, dtype).items():
            setattr(response, name, value)
        numbers = response.DESCRIPTOR.fields_by_name["model_type"].enum_type.values_by_name
        response.model_type = numbers[f"MODEL_TYPE_{model_type(models.all()[0].card).upper()}"].number

    def tokenize(request: Any, response: Any) -> None:
        prompt_name = request.prompt_name if request.HasField("prompt_name") else None
        found = tokenizer.pieces(request.inputs, prompt_name, special_tokens=request.add_special_tokens)
        for piece in found:
            response.tokens.add(**piece._asdict())

    def decode(request: Any, response: Any) -> None:
        response.text = tokenizer.decode(request.ids, skip_special_tokens=request.skip_special_tokens)

    served = [_rare("/tei.v1.Info/Info", "InfoRequest", "InfoResponse", info)]
    for name, unary in (("Tokenize", True), ("TokenizeStream", False)):
        path = f"/tei.v1.Tokenize/{name}"
        served.append(_rare(path, "EncodeRequest", "EncodeResponse", tokenize, unary=unary, slow=True))
    for name, unary in (("Decode", True), ("DecodeStream", False)):
        path = f"/tei.v1.Tokenize/{name}"
        served.append(_rare(path, "DecodeRequest", "DecodeResponse", decode, unary=unary, slow=True))
    return served


def _rare(
    path: str,
    request_name: str,
    response_name: str,
    answer: Callable[[Any, Any], None],
    *,
    unary: bool = True,
    slow: bool = False,
) -> RareMethod:
    request_type, response_type = message_class(f"tei.v1.{request_name}"), message_class(f"tei.v1.{response_name}")

    def call(message: bytes) -> bytes:
        response = response_type()
        try:
            request = request_type.FromString(message)
        except Exception:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, "not valid protobuf") from None
        answer(request, response)
        return bytes(response.SerializeToString())

    return RareMethod(path, unary, call, slow)


def model_type(card: ModelCard) -> str:
    """The kind of a model as TEI names it. A model with one score ranks."""
    if card.task in ("embed", "embed_sparse"):
        return "embedding"
    if card.task == "classify":
        return "reranker" if len(card.labels) == 1 else "classifier"
    raise CallFailed(
        StatusCode.FAILED_PRECONDITION,
        f"the default model '{card.name}' {card.traits.does}, for which this API has no model type",
    )


def facts(models: ServedModels, dtype: str) -> dict[str, str | int]:
    """The default model and its limits, by the names that both forms of the API have for them."""
    model = models.all()[0]
    limits = models.limits(model)
    found: dict[str, str | int] = {
        "version": __version__,
        "model_id": model.card.name,
        "model_sha": model.card.version,
        "model_dtype": "float32" if model.card.static else dtype,
        "max_concurrent_requests": models.sizes.slots,
        "max_input_length": model.card.max_input_tokens,
        "max_batch_tokens": limits.max_batch_tokens,
        "max_client_batch_size": models.items_max,
        "tokenization_workers": models.sizes.doors,
    }
    if limits.max_batch_items:  # else its dispatchers have not chosen it yet
        found["max_batch_requests"] = limits.max_batch_items
    return found
