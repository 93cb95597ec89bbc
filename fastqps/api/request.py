"""An item, its options, and the messages that they become. Shared by both clients."""

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

from .. import errors
from ..v1 import predict_pb2 as pb
from .chat import Chat
from .structures import structure_of

# A text, a pair of texts, token ids (with special tokens), a conversation, or a whole request message for all other
# options.
Item = str | tuple[str, str] | Sequence[int] | Chat | pb.PredictRequest

Priority = Literal["low", "normal", "high"]
DType = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]
Aggregation = Literal["none", "simple", "first", "average", "max"]

_Enum = TypeVar("_Enum")
_Text = TypeVar("_Text")

_PRIORITIES = {"low": pb.PRIORITY_LOW, "normal": pb.PRIORITY_NORMAL, "high": pb.PRIORITY_HIGH}
_AGGREGATIONS = {
    "none": pb.AGGREGATION_NONE,
    "simple": pb.AGGREGATION_SIMPLE,
    "first": pb.AGGREGATION_FIRST,
    "average": pb.AGGREGATION_AVERAGE,
    "max": pb.AGGREGATION_MAX,
}
_STRUCTURES = {
    "json_object": pb.STRUCTURE_JSON_OBJECT,
    "json_schema": pb.STRUCTURE_JSON_SCHEMA,
    "regex": pb.STRUCTURE_REGEX,
    "grammar": pb.STRUCTURE_GRAMMAR,
}
_DTYPES = {
    "float32": pb.DTYPE_FLOAT32,
    "float16": pb.DTYPE_FLOAT16,
    "int8": pb.DTYPE_INT8,
    "uint8": pb.DTYPE_UINT8,
    "binary": pb.DTYPE_BINARY,
    "ubinary": pb.DTYPE_UBINARY,
}

_GENERATE_OPTIONS = tuple(
    field.name for field in pb.GenerateOptions.DESCRIPTOR.fields if not field.name.startswith("structure")
)
_COUNTS = (
    "n",
    "best_of",
    "dimensions",
    "top_labels",
    "max_active_dims",
)  # 0 is "not given" in their fields

# The limits of one PredictBatch call: servers accept 4 MiB, and smaller calls spread better.
BATCH_ITEMS_MAX = 256
BATCH_BYTES_MAX = 1 << 20
MULTI_ITEMS_MAX = 32  # with a vector for each token an answer may have a megabyte, and clients accept 64


class GenerateOptions(TypedDict, total=False):
    """The options of a generation."""

    max_tokens: Annotated[
        int, "Make at most so many tokens, at least 1; with prompt_logprobs 0, too. Default: the server's limit."
    ]
    temperature: Annotated[float, "0: always the likeliest token, the default; higher: more varied."]
    top_k: Annotated[int, "Choose among so many likeliest tokens, at most 64. Default: all."]
    top_p: Annotated[
        float,
        "Choose among the likeliest tokens whose probabilities add up to this share of all, or of top_k. Default: all.",
    ]
    seed: Annotated[
        int, "The same seed, prompt and options give the same tokens if `Model.repeatable`. Default: random."
    ]
    stop: Annotated[str | Sequence[str], "End before the first of these strings. Default: none."]
    stop_token_ids: Annotated[Sequence[int], "End at the first of these tokens, at most 8. Default: none."]
    ignore_eos: Annotated[bool, "Go on after the token with which the model ends a text. Default: False."]
    logprobs: Annotated[bool, "Say each token's log probability. Default: False."]
    repetition_penalty: Annotated[
        float,
        "Above 1: the tokens of prompt and answer become less likely; 1: off. Default: the checkpoint's.",
    ]
    no_repeat_ngram_size: Annotated[
        int,
        "No sequence of so many tokens comes twice in prompt and answer; 0: off; at most 64. Default: the "
        "checkpoint's.",
    ]
    min_tokens: Annotated[
        int,
        "The model cannot end the text before so many tokens, at most max_tokens; 0: off. Default: the checkpoint's.",
    ]
    add_special_tokens: Annotated[
        bool,
        "Put the tokenizer's special tokens around a text. Default: True; those in front of a text that begins with "
        "them stand there once.",
    ]
    suppress_token_ids: Annotated[
        Sequence[int],
        "Never choose these tokens, at most 8, beside the checkpoint's. Default: none.",
    ]
    presence_penalty: Annotated[
        float, "Subtract so much from the logit of each token that the answer has, -2 to 2. Default: 0."
    ]
    frequency_penalty: Annotated[float, "The same for each time that the answer has the token, -2 to 2. Default: 0."]
    min_p: Annotated[
        float, "Choose no token whose probability is below this share of the likeliest's, 0 to 1. Default: 0."
    ]
    typical_p: Annotated[
        float,
        "Choose among the tokens of the most typical probability, until theirs add up to this share of all that the "
        "options before leave: above 0, at most 1. Default: 1, off.",
    ]
    logit_bias: Annotated[
        Mapping[int, float], "Add these values, -100 to 100, to the logits of tokens, at most 300. Default: none."
    ]
    include_stop_text: Annotated[
        bool, "The text keeps the stop string, or the stop token, that ends it. Default: False."
    ]
    n: Annotated[
        int,
        "Give so many answers, at most 128: `Generation.other_choices`, `Chunk.choice`. The seed of each is by 1 above "
        "that of the one before. Not of predict_batch() and predict_stream(). Default: 1.",
    ]
    best_of: Annotated[
        int,
        "Make so many, at least n, and give the n whose tokens have the highest mean log probability, best first. Not "
        "of generate_stream(). Default: n.",
    ]
    choices: Annotated[
        Sequence[str],
        "The text is one of these, at most 64: the likeliest, or with a temperature one drawn by their probabilities. "
        "`Generation.choice_scores` has them all. Default: any text.",
    ]
    top_logprobs: Annotated[
        int,
        "Say the log probabilities of so many likeliest tokens in the place of each token, at most 20, and those of "
        "the tokens themselves. Default: 0.",
    ]
    prompt_logprobs: Annotated[
        int,
        "Say the log probabilities of the prompt's own tokens, and of so many likeliest ones in the place of each, at "
        "most 20: `Generation.prompt_logprobs`. With max_tokens 0 nothing is generated. Default: none.",
    ]
    json_object: Annotated[
        bool, "The text is a JSON object. Default: False. This and the next three exclude each other."
    ]
    json_schema: Annotated[str | Mapping[str, Any], "The text is JSON that this schema allows. Default: none."]
    regex: Annotated[str, "The whole text matches this regular expression. Default: none."]
    grammar: Annotated[str, "The text is one of this context-free grammar, in Lark's form. Default: none."]


class Options(GenerateOptions, total=False):
    """The options of an item. Items that are whole request messages take none of them."""

    model: Annotated[str, "A served model's name. Default: the client's, else the server's default model."]
    priority: Annotated[Priority, "The class of service. Default: normal."]
    truncate: Annotated[
        bool,
        "Cut an input that is too long. False: refuse it with InvalidArgument. Default: the server's --auto-truncate.",
    ]
    keep_second: Annotated[bool, "Of a pair, truncate cuts the first text alone. Default: False: the longer one first."]
    tenant: Annotated[str, "Whose share of the service the item takes, at most 256 bytes. Default: the client's."]
    group: Annotated[
        str,
        "Items of the same group and tenant are served together, 64 of them at the most. At most 128 bytes. "
        "Default: none.",
    ]
    prompt_name: Annotated[
        str,
        "Put this prompt of the model (Model.prompt_names) in front of a text, or of a pair's first. Default: the "
        "model's default prompt, if it has one.",
    ]
    dtype: Annotated[
        DType,
        'Number format in which an embedding travels. It arrives as float32; "binary" and "ubinary" arrive as int8 '
        'and uint8, eight signs to a number, as quantize_embeddings of sentence-transformers makes them. "int8" and '
        '"uint8" hold values from -1 to 1 only: of an embedding that is not normalized they are refused. '
        "Default: float32.",
    ]
    dimensions: Annotated[int, "Keep only so many leading dimensions of an embedding, at least 1. Default: all."]
    normalize: Annotated[bool, "Scale an embedding to length 1. Default: as the model says."]
    top_labels: Annotated[int, "Return only so many labels, best first, at least 1. Default: all."]
    raw_scores: Annotated[bool, "Scores without softmax or sigmoid. Default: False."]
    aggregation: Annotated[
        Aggregation,
        "How the labels of tokens become entities, as in transformers' pipeline. Default: simple.",
    ]
    max_active_dims: Annotated[
        int,
        "Keep only so many weights of a sparse embedding, the largest, at least 1. Default: as the model says.",
    ]
    timings: Annotated[bool, "Say where the item's time went. Default: False."]


_OPTIONS = frozenset(Options.__annotations__)


def option_type(name: str) -> str:
    """The type of an option as its users write it."""
    return re.sub(
        r"(typing|collections\.abc)\.", "", inspect.formatannotation(Options.__annotations__[name].__origin__)
    )


def options_help() -> str:
    """A paragraph for each option: its name, its type and what it does."""
    return "\n".join(
        textwrap.fill(f"{name}: {option_type(name)}. {kind.__metadata__[0]}", 110, subsequent_indent="    ")
        for name, kind in Options.__annotations__.items()
    )


class Asked(NamedTuple):
    """An item among others. One that cannot be sent has an error and no input: the server refuses it in its turn."""

    message: pb.PredictRequest
    error: errors.InvalidArgument | None = None


class Requests:
    """Makes the messages of one call. The options that its items share are checked and set once.

    Raises TypeError for an unknown option, ValueError for an unknown priority, dtype or aggregation, for a number
    that its field cannot hold, and for a count of 0.

    timeout_s: the time allowed for each item, in seconds; None: only the call's own deadline holds.
    """

    def __init__(self, options: Options, timeout_s: float | None = None) -> None:
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(f"{min(unknown)} is no option; there are: {', '.join(Options.__annotations__)}")
        if zero := [name for name in _COUNTS if options.get(name) == 0]:
            raise ValueError(f"{zero[0]}: 0, must be at least 1")
        if options.get("max_tokens") == 0 and options.get("prompt_logprobs") is None:
            raise ValueError("max_tokens: 0, must be at least 1 without prompt_logprobs")
        self._defaults = pb.PredictRequest(model=options.get("model", ""))
        if timeout_s is not None:
            self._defaults.timeout_us = max(1, round(timeout_s * 1e6))
        self._options = pb.PredictRequest()
        self._options.CopyFrom(self._defaults)
        _set_options(self._options, options)

    def message(self, item: Item) -> pb.PredictRequest:
        """Raises InvalidArgument for an item of no known kind and one that no message can hold."""
        message = pb.PredictRequest()
        if isinstance(item, pb.PredictRequest):
            message.CopyFrom(self._defaults)
            message.MergeFrom(item)  # its own model and timeout win
            return message
        message.CopyFrom(self._options)
        try:
            _set_input(message, item)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgument(str(error)) from None
        return message

    def asked(self, item: Item, place: int) -> Asked:
        """An item among others, which an error of its own does not keep from being sent."""
        try:
            return Asked(self.message(item))
        except errors.InvalidArgument as error:
            return Asked(pb.PredictRequest(request_id=place), error)


def _set_input(message: pb.PredictRequest, item: str | tuple[str, str] | Sequence[int] | Chat) -> None:
    if isinstance(item, str):
        message.text = item
    elif isinstance(item, Chat):
        item.set_in(message)
    elif isinstance(item, bytes | bytearray | memoryview):
        raise TypeError("an item is text, not bytes: decode it first")
    elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        message.pair.first, message.pair.second = item
    else:
        _set_token_ids(message, item)


def _set_token_ids(message: pb.PredictRequest, item: Sequence[int]) -> None:
    try:
        message.token_ids.ids.extend(item)
    except TypeError:
        kind = type(item).__name__
        said = f"an item is a text, a pair of texts (a tuple), token ids, or a Chat of messages; this {kind} is none"
        raise TypeError(said) from None
    message.token_ids.SetInParent()


def _set_options(message: pb.PredictRequest, options: Options) -> None:
    if "truncate" in options:
        message.truncate = options["truncate"]
    if options.get("keep_second"):
        message.pair.keep_second = True  # an input of another kind replaces it
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
    if structure := structure_of(options):
        generate.structure, generate.structure_text = _STRUCTURES[structure[0]], structure[1]
    for name in _GENERATE_OPTIONS:
        value = options.get(name)
        if value is None:
            continue
        try:
            if name == "choices" and not value:
                raise ValueError("no text, must be at least 1")
            if name in ("stop", "choices", "stop_token_ids", "suppress_token_ids"):
                getattr(generate, name).extend(value if name.endswith("ids") else _texts(value))
            elif name == "logit_bias":
                generate.logit_bias.update(options["logit_bias"])
            else:
                setattr(generate, name, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None


def _texts(value: object) -> Sequence[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise TypeError("a text or a list of texts")
    return texts


def texts_only(texts: Sequence[_Text]) -> Sequence[_Text]:
    """Returns the texts. Raises TypeError for a single text, which would be read as a list of letters."""
    if isinstance(texts, str):
        raise TypeError("wants a list of texts, not one text")
    return texts
