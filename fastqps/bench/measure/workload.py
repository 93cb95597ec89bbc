"""The workload: texts, and the file of serialized requests that the load generator sends."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastqps.errors import ConfigError
from fastqps.files.regular import read_regular
from loadgen import texts as made
from loadgen.errors import UsageError

if TYPE_CHECKING:
    from google.protobuf.message import Message


from fastqps.models import ModelError
from fastqps.models.files.reading import read_object

SERVICE = "/fastqps.v1.PredictService"
TEXTS_MAX = 1 << 20
TEXT_BYTES_MAX = 64 << 20
ITEMS_MAX = 2048  # of a PredictBatch call, where a server has the usual --max-request-items


@dataclass(frozen=True)
class Call:
    """How items are requested. ``items``: their number in one call."""

    name: str  # predict, batch:N, generate: as the user wrote it
    method: str
    rpc: str  # in loadgen's words
    items: int = 1


def parse_call(text: str) -> Call:
    """``predict``, ``batch:N`` or ``generate``; ``ConfigError`` for anything else."""
    kind, _, number = text.partition(":")
    if kind == "batch":
        if not number.isdecimal() or not 1 <= int(number) <= ITEMS_MAX:
            raise ConfigError(f"--call {text}: write batch:N with N items in a call, 1 to {ITEMS_MAX}")
        return Call(text, f"{SERVICE}/PredictBatch", "unary", int(number))
    call = {
        "predict": Call(text, f"{SERVICE}/Predict", "unary"),
        "generate": Call(text, f"{SERVICE}/Generate", "server-stream"),
    }.get(text)
    if call is None:
        raise ConfigError(f"--call {text!r} is none of predict, batch:N, generate")
    return call


@dataclass(frozen=True)
class Workload:
    """The texts of a measurement. ``text_file``: one text a line. Otherwise ``texts`` texts of ``lengths`` words are
    made."""

    call: Call
    model: str = ""  # in the requests; "": the server's default
    text_file: str = ""
    lengths: str = "30"
    texts: int = 1000
    max_tokens: int | None = None  # of a generation
    seed: int = 1

    def describe(self) -> dict[str, Any]:
        """``Result.workload``."""
        source = {"text_file": self.text_file} if self.text_file else {"texts": self.texts, "lengths": self.lengths}
        more = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return {"call": self.call.name, **source, **more, "seed": self.seed}

    def check(self) -> None:
        """Raises ``ConfigError`` for what could never be written."""
        if self.text_file:
            read_texts(Path(self.text_file))
        parse_lengths(self.lengths)

    def write(self, path: Path, vocabulary: Sequence[str] = ()) -> Payloads:
        """Writes the payload file. ``vocabulary``: words to make texts of; without, common English ones.

        Raises ``ConfigError`` for what cannot be asked, and OSError where the file cannot be written.
        """
        if self.text_file:
            texts = read_texts(Path(self.text_file))
        else:
            lengths, rng = parse_lengths(self.lengths), random.Random(self.seed)
            texts = list(made.texts(lengths, self.texts, rng, vocabulary))
        messages = self._messages(texts)
        return Payloads(write_messages(path, messages), self.call, messages[0].SerializeToString(), len(messages))

    def _messages(self, texts: Sequence[str]) -> Sequence[Message]:
        from fastqps.v1 import predict_pb2 as pb  # not for a run that fails before

        options = None if self.max_tokens is None else pb.GenerateOptions(max_tokens=self.max_tokens)
        asked = [pb.PredictRequest(model=self.model, text=text, generate=options) for text in texts]
        if self.call.method.endswith("Batch"):
            n = self.call.items
            padded = [asked[at % len(asked)] for at in range(-(-len(asked) // n) * n)]
            return [pb.PredictBatchRequest(items=padded[at : at + n]) for at in range(0, len(padded), n)]
        return asked


@dataclass(frozen=True)
class Payloads:
    """A file of messages, each behind its length as a varint."""

    path: Path
    call: Call
    first: bytes  # message
    count: int


def parse_lengths(text: str) -> made.Lengths:
    """The value of --lengths; ``ConfigError`` for anything that is no distribution."""
    try:
        return made.parse(text)
    except UsageError as error:
        raise ConfigError(f"--lengths {error}") from None


def write_messages(path: Path, messages: Iterable[Message]) -> Path:
    """Writes the messages as the load generator reads many of them, each behind its length; the path."""
    from google.protobuf.proto import serialize_length_prefixed  # not for a run that fails before

    file = io.BytesIO()
    for message in messages:
        serialize_length_prefixed(message, file)
    path.write_bytes(file.getvalue())
    return path


def read_texts(path: Path) -> list[str]:
    """The lines of a file that are not empty. ``ConfigError`` where there are none."""
    try:
        lines = read_regular(path, TEXT_BYTES_MAX).decode().splitlines()
    except OSError as error:
        raise ConfigError(f"--text-file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--text-file: {path} is not UTF-8 text") from None
    texts = [line for line in lines if line.strip()][:TEXTS_MAX]
    if not texts:
        raise ConfigError(f"--text-file: {path} has no text in it: one text a line")
    return texts


WORDS_MIN = 500  # of a vocabulary that texts are made of
WORDS_MAX = 20_000  # the commonest of a vocabulary


def vocabulary_of(checkpoint: Path) -> list[str]:
    """Whole lower-case words of a checkpoint's tokenizer, in the vocabulary's order, which is by frequency.

    Empty where it has no tokenizer.json or no such words: byte-level vocabularies spell them differently.
    """
    try:
        model = read_object(checkpoint / "tokenizer.json")["model"]
        vocabulary: dict[str, int] = model["vocab"]
        ordered = sorted(vocabulary.items(), key=lambda item: item[1])
    except (ModelError, OSError, KeyError, TypeError, AttributeError):
        return []
    words = [word for word, _ in ordered if word.isascii() and word.isalpha() and len(word) > 1 and word.islower()]
    return words[:WORDS_MAX] if len(words) > WORDS_MIN else []
