"""An item, its options, and the messages that they become. Shared by both clients."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypedDict, TypeVar

from ..v1 import predict_pb2 as pb

# A text, a pair of texts, token ids (with special tokens), or a whole request message for all other options.
Item = str | tuple[str, str] | Sequence[int] | pb.PredictRequest

Priority = Literal["low", "normal", "high"]
DType = Literal["float32", "float16", "int8"]
Aggregation = Literal["none", "simple", "first", "average", "max"]

_Enum = TypeVar("_Enum")

_PRIORITIES = {"low": pb.PRIORITY_LOW, "normal": pb.PRIORITY_NORMAL, "high": pb.PRIORITY_HIGH}
_AGGREGATIONS = {
    "none": pb.AGGREGATION_NONE,
    "simple": pb.AGGREGATION_SIMPLE,
    "first": pb.AGGREGATION_FIRST,
    "average": pb.AGGREGATION_AVERAGE,
    "max": pb.AGGREGATION_MAX,
}
_DTYPES = {"float32": pb.DTYPE_FLOAT32, "float16": pb.DTYPE_FLOAT16, "int8": pb.DTYPE_INT8}

_GENERATE_OPTIONS = tuple(field.name for field in pb.GenerateOptions.DESCRIPTOR.fields)
_COUNTS = ("max_tokens", "dimensions", "top_labels", "max_active_dims")  # 0 is "not given" in their fields

# The limits of one PredictBatch call: servers accept 4 MiB, and smaller calls spread better.
BATCH_ITEMS_MAX = 256
BATCH_BYTES_MAX = 1 << 20
MULTI_ITEMS_MAX = 32  # with a vector for each token an answer may have a megabyte, and clients accept 64


class GenerateOptions(TypedDict, total=False):
    """The options of a generation."""

    max_tokens: int
    """Make at most so many tokens, at least 1. Default: the server's limit."""
    temperature: float
    """0: always the likeliest token, the default; higher: more varied."""
    top_k: int
    """Choose among so many likeliest tokens, at most 64. Default: all."""
    top_p: float
    """Choose among the likeliest tokens whose probabilities add up to this share of all, or of top_k. Default: all."""
    seed: int
    """The same seed, prompt and options give the same tokens. Default: random."""
    stop: str | Sequence[str]
    """End before the first of these strings. Default: none."""
    stop_token_ids: Sequence[int]
    """End at the first of these tokens, at most 8. Default: none."""
    ignore_eos: bool
    """Go on after the token with which the model ends a text. Default: False."""
    logprobs: bool
    """Say each token's log probability. Default: False."""
    repetition_penalty: float
    """Above 1: the tokens of prompt and answer become less likely; 1: off. Default: the checkpoint's."""
    no_repeat_ngram_size: int
    """No sequence of so many tokens comes twice in prompt and answer; 0: off; at most 64. Default: the checkpoint's."""
    min_tokens: int
    """The model cannot end the text before so many tokens, at most max_tokens; 0: off. Default: the checkpoint's."""
    add_special_tokens: bool
    """Put the tokenizer's special tokens around a text. Default: True; those in front of a text that begins with them
    stand there once."""
    suppress_token_ids: Sequence[int]
    """Never choose these tokens, at most 8, beside the checkpoint's. Default: none."""


class Options(GenerateOptions, total=False):
    """The options of an item. Items that are whole request messages take none of them."""

    model: str
    """A served model's name. Default: the client's, else the server's default model."""
    priority: Priority
    """Default: normal."""
    truncate: bool
    """Cut an input that is too long, instead of refusing it with InvalidArgument. Default: False."""
    tenant: str
    """Whose share of the service the item takes, at most 256 bytes. Default: the client's."""
    group: str
    """Items of the same group and tenant are served together, 64 of them at the most. At most 128 bytes. Default:
    none."""
    prompt_name: str
    """Put this prompt of the model (Model.prompt_names) in front of a text, or of a pair's first. Default: the model's
    default prompt, if it has one."""
    dtype: DType
    """Number format in which an embedding travels; it arrives as float32 in any case. "int8" holds values from -1 to 1
    only: of an embedding that is not normalized it is refused. Default: float32."""
    dimensions: int
    """Keep only so many leading dimensions of an embedding, at least 1. Default: all."""
    normalize: bool
    """Scale an embedding to length 1. Default: as the model says."""
    top_labels: int
    """Return only so many labels, best first, at least 1. Default: all."""
    raw_scores: bool
    """Scores without softmax or sigmoid. Default: False."""
    aggregation: Aggregation
    """How the labels of tokens become entities, as in transformers' pipeline. Default: simple."""
    max_active_dims: int
    """Keep only so many weights of a sparse embedding, the largest, at least 1. Default: as the model says."""
    timings: bool
    """Say where the item's time went. Default: False."""


_OPTIONS = frozenset(Options.__annotations__)


def to_message(item: Item, options: Options, timeout_s: float = 0) -> pb.PredictRequest:
    """Raises TypeError for an item of no known kind and an unknown option, ValueError for an unknown priority,
    dtype or aggregation, a number that its field cannot hold, and a count of 0.

    timeout_s: the time allowed for this item, in seconds; 0: only the call's own deadline holds.
    """
    message = pb.PredictRequest(model=options.get("model", ""))
    if timeout_s:
        message.timeout_us = max(1, round(timeout_s * 1e6))
    if unknown := options.keys() - _OPTIONS:
        raise TypeError(f"{min(unknown)} is no option; there are: {', '.join(Options.__annotations__)}")
    if zero := [name for name in _COUNTS if options.get(name) == 0]:
        raise ValueError(f"{zero[0]}: 0, must be at least 1")
    if isinstance(item, pb.PredictRequest):
        message.MergeFrom(item)  # its own model and timeout win
        return message
    _set_input(message, item)
    _set_options(message, options)
    return message


def _set_input(message: pb.PredictRequest, item: str | tuple[str, str] | Sequence[int]) -> None:
    if isinstance(item, str):
        message.text = item
    elif isinstance(item, bytes | bytearray | memoryview):
        raise TypeError("an item is text, not bytes: decode it first")
    elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        message.pair.first, message.pair.second = item
    else:
        try:
            message.token_ids.ids.extend(item)
        except TypeError:
            kind = type(item).__name__
            raise TypeError(
                f"an item is a text, a pair of texts (a tuple), or token ids; this {kind} is none"
            ) from None
        message.token_ids.SetInParent()


def _set_options(message: pb.PredictRequest, options: Options) -> None:
    message.truncate = options.get("truncate", False)
    message.prompt_name = options.get("prompt_name", "")
    message.tenant = options.get("tenant", "")
    message.group = options.get("group", "")
    if "priority" in options:
        message.priority = _choice("priority", options["priority"], _PRIORITIES)
    output = message.output
    if "dtype" in options:
        output.dtype = _choice("dtype", options["dtype"], _DTYPES)
    if "aggregation" in options:
        output.aggregation = _choice("aggregation", options["aggregation"], _AGGREGATIONS)
    if "normalize" in options:
        output.normalize = options["normalize"]
    for name in ("dimensions", "top_labels", "raw_scores", "max_active_dims", "timings"):
        if name in options:
            try:
                setattr(output, name, options[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error}") from None
    _set_generate(message, options)


def _choice(name: str, value: str, known: Mapping[str, _Enum]) -> _Enum:
    if value not in known:
        raise ValueError(f"{name}: {value!r}, must be one of {', '.join(known)}")
    return known[value]


def _set_generate(message: pb.PredictRequest, options: Options) -> None:
    generate = message.generate  # absent in the message until something in it is set
    for name in _GENERATE_OPTIONS:
        value = options.get(name)
        if value is None:
            continue
        try:
            if name in ("stop", "stop_token_ids", "suppress_token_ids"):
                getattr(generate, name).extend(_texts(value) if name == "stop" else value)
            else:
                setattr(generate, name, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None


def _texts(value: object) -> Sequence[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise TypeError("a text or a list of texts")
    return texts


def split_batches(messages: Iterable[pb.PredictRequest], items_max: int) -> Iterator[pb.PredictBatchRequest]:
    """Batches of at most items_max items and, unless one item alone is larger, BATCH_BYTES_MAX bytes."""
    batch, size = pb.PredictBatchRequest(), 0
    for message in messages:
        size += message.ByteSize()
        if batch.items and (len(batch.items) == items_max or size > BATCH_BYTES_MAX):
            yield batch
            batch, size = pb.PredictBatchRequest(), message.ByteSize()
        batch.items.append(message)
    if batch.items:
        yield batch


def texts_only(texts: Sequence[Item]) -> Sequence[Item]:
    """Returns the texts. Raises TypeError for a single text, which would be read as a list of letters."""
    if isinstance(texts, str):
        raise TypeError("wants a list of texts, not one text")
    return texts
