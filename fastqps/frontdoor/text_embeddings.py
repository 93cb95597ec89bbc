"""The rare methods of tei.v1, text-embeddings-inference's gRPC API: Info, Tokenize, and those that no model here has.

They concern the default model, because the API has no model names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastqps import __version__
from fastqps._front import ITEMS_MAX
from fastqps.api.codes import CODES
from fastqps.api.reflection import message_class
from fastqps.frontdoor.rare_calls import CallFailed, RareMethod
from fastqps.frontdoor.served import ServedModel, ServedModels
from fastqps.models.card import ModelCard, ModelError
from fastqps.models.tokenizers.text import load_tokenizer
from fastqps.models.tokenizers.tokenizer import Tokenizer

_INVALID_ARGUMENT = CODES.index("INVALID_ARGUMENT")
_FAILED_PRECONDITION = CODES.index("FAILED_PRECONDITION")
_UNIMPLEMENTED = CODES.index("UNIMPLEMENTED")
CHARACTERS_PER_TOKEN = 250  # a text that may have n tokens may have so many characters for each
_NO_SPARSE = "no model of this server has sparse embeddings; call Embed"
_NO_TOKEN_EMBEDDINGS = "this server pools every embedding; call Embed"
_UNSERVED = {
    "EmbedSparse": (True, _NO_SPARSE),
    "EmbedSparseStream": (False, _NO_SPARSE),
    "EmbedAll": (True, _NO_TOKEN_EMBEDDINGS),
    "EmbedAllStream": (False, _NO_TOKEN_EMBEDDINGS),
}


def methods(models: ServedModels, dtype: str) -> list[RareMethod]:
    """The table of the methods that Python answers. ``dtype`` is the server's setting."""
    tokenizers = DefaultTokenizer(models)

    def info(_request: Any, response: Any) -> None:
        _info(models, dtype, response)

    served = [_rare("/tei.v1.Info/Info", "InfoRequest", "InfoResponse", info)]
    for name, unary in (("Tokenize", True), ("TokenizeStream", False)):
        path = f"/tei.v1.Tokenize/{name}"
        served.append(_rare(path, "EncodeRequest", "EncodeResponse", tokenizers.tokenize, unary=unary))
    for name, unary in (("Decode", True), ("DecodeStream", False)):
        path = f"/tei.v1.Tokenize/{name}"
        served.append(_rare(path, "DecodeRequest", "DecodeResponse", tokenizers.decode, unary=unary))
    unserved = [
        RareMethod(f"/tei.v1.Embed/{name}", unary, _unserved(name, why)) for name, (unary, why) in _UNSERVED.items()
    ]
    return served + unserved


def _rare(
    path: str, request_name: str, response_name: str, answer: Callable[[Any, Any], None], *, unary: bool = True
) -> RareMethod:
    request_type, response_type = message_class(f"tei.v1.{request_name}"), message_class(f"tei.v1.{response_name}")

    def call(message: bytes) -> bytes:
        response = response_type()
        try:
            request = request_type.FromString(message)
        except Exception:
            raise CallFailed(_INVALID_ARGUMENT, "not valid protobuf") from None
        answer(request, response)
        return bytes(response.SerializeToString())

    return RareMethod(path, unary, call)


def _unserved(name: str, why: str) -> Callable[[bytes], bytes]:
    def refuse(_: bytes) -> bytes:
        raise CallFailed(_UNIMPLEMENTED, f"{name} is not served here: {why}")

    return refuse


def model_type(card: ModelCard) -> str:
    """The name of a ModelType. A model with one score ranks."""
    if card.task == "embed":
        return "MODEL_TYPE_EMBEDDING"
    if card.task == "classify":
        return "MODEL_TYPE_RERANKER" if len(card.labels) == 1 else "MODEL_TYPE_CLASSIFIER"
    raise CallFailed(
        _FAILED_PRECONDITION, f"the default model '{card.name}' generates text, for which this API has no model type"
    )


def _default(models: ServedModels) -> ServedModel:
    return models.all()[0]


def _info(models: ServedModels, dtype: str, response: Any) -> None:
    model = _default(models)
    limits = models.limits(model)
    response.version = __version__
    response.model_id = model.card.name
    response.model_sha = model.card.version
    response.model_dtype = dtype
    response.model_type = (
        response.DESCRIPTOR.fields_by_name["model_type"].enum_type.values_by_name[model_type(model.card)].number
    )
    response.max_concurrent_requests = models.sizes.slots
    response.max_input_length = model.card.max_input_tokens
    response.max_batch_tokens = limits.max_batch_tokens
    if limits.max_batch_items:  # else its dispatchers have not chosen it yet
        response.max_batch_requests = limits.max_batch_items
    response.max_client_batch_size = ITEMS_MAX
    response.tokenization_workers = models.sizes.doors


class DefaultTokenizer:
    """The tokenizer of the default model, loaded at the first call and after a reload. One thread calls it."""

    def __init__(self, models: ServedModels) -> None:
        self._models = models
        self._loaded: tuple[str, Tokenizer] | None = None  # of this version

    def tokenize(self, request: Any, response: Any) -> None:
        """Answers an EncodeRequest."""
        tokenizer = self._tokenizer()
        if request.HasField("prompt_name"):
            name = request.prompt_name[:60]
            message = f"prompt_name: '{name}', but this server has no prompts; put the prompt in front of the text"
            raise CallFailed(_INVALID_ARGUMENT, message)
        most = _default(self._models).card.max_input_tokens * CHARACTERS_PER_TOKEN
        if not 0 < len(request.inputs) <= most:
            raise CallFailed(_INVALID_ARGUMENT, f"inputs: {len(request.inputs)} characters, must have 1 to {most}")
        for piece in tokenizer.pieces(request.inputs, special_tokens=request.add_special_tokens):
            response.tokens.add(**piece._asdict())

    def decode(self, request: Any, response: Any) -> None:
        """Answers a DecodeRequest."""
        tokenizer = self._tokenizer()
        if not request.ids:
            raise CallFailed(_INVALID_ARGUMENT, "ids: 0 ids, at least 1")
        response.text = tokenizer.decode(request.ids, skip_special_tokens=request.skip_special_tokens)

    def _tokenizer(self) -> Tokenizer:
        card = _default(self._models).card
        if not self._loaded or self._loaded[0] != card.version:
            try:
                tokenizer = load_tokenizer(card)
            except ModelError as error:
                raise CallFailed(_FAILED_PRECONDITION, str(error)) from None
            if not tokenizer:
                raise CallFailed(_FAILED_PRECONDITION, f"the model '{card.name}' has no tokenizer")
            self._loaded = card.version, tokenizer
        return self._loaded[1]
