"""``fastqps predict``: text in, JSON lines or a generator's text out; in this process, or at a server."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from fastqps.api.chat import Chat
from fastqps.cli import generate_flags, server_flags
from fastqps.cli.generate_flags import generate_options
from fastqps.errors import FAILURE, OK, ConfigError

if TYPE_CHECKING:
    from fastqps.api.prediction import Chunk
    from fastqps.client.sync import Client
    from fastqps.engine.engine import Engine

Text = str | tuple[str, str]
Item = Text | Chat
Ask = Callable[[list[Item]], list[dict[str, Any]]]
Stream = Callable[[Item], "Iterator[Chunk]"]
_FLAGS_OF_OPTIONS = {"truncate=True": "--truncate", "give a pair, or set allow_single_texts": "give pairs with --pair"}
_PATIENCE_S = 600.0  # of a request: whoever waits at a terminal can end it
_SHOWN = 8  # items of a list on a terminal
BATCH = 256  # lines of stdin that are answered together
_RUNNING, _RUNNING_TOKENS = 64, 1 << 16  # most sequences of a generator at a time, and tokens of their answers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Texts and where they go."""
    parser.add_argument("text", nargs="*", metavar="TEXT", help="text; without any, the lines of stdin")
    parser.add_argument("--model", metavar="NAME_OR_DIR", help="model (default: minilm; with --address: the server's)")
    parser.add_argument("--adapter", metavar="DIR", help="LoRA adapter of PEFT to merge into the model's weights")
    parser.add_argument("--labels", metavar="LABEL,...", help="score these tokens of a decoder as labels")
    parser.add_argument("--template", metavar="FILE", help="how a text or a pair is put to a classifier")
    parser.add_argument("--address", metavar="HOST:PORT", help="ask this server instead of loading the model here")
    server_flags.add_arguments(parser)
    parser.add_argument(
        "--device", metavar="DEVICE", help="where to run the model: cpu, cuda, cuda:1, auto or null (default: cpu)"
    )
    parser.add_argument(
        "--quantization",
        choices=("none", "fp8", "int8", "auto"),
        help="quantised matrix products, of a model here (default: none)",
    )
    parser.add_argument(
        "--pair", action="store_true", help="texts come in pairs: each two arguments, or lines with a tab between"
    )
    parser.add_argument(
        "--prompt-name", metavar="NAME", default="", help="the model's prompt in front of each text (default: its own)"
    )
    parser.add_argument("--tenant", metavar="NAME", default="", help="whose share of a server at --address to take")
    parser.add_argument("--group", metavar="NAME", default="", help="the server serves the texts of a group together")
    parser.add_argument(
        "--truncate",
        action="store_true",
        help="cut a text that is too long (a server does so by its --auto-truncate, too)",
    )
    generate_flags.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """A JSON line for each text, or the text that a generator makes of it.

    1 where an item was refused, with the reason in its line or on stderr.
    """
    if options.address and options.device:
        raise ConfigError("--device says where to run a model here; a server (--address) has chosen its own")
    if options.address and options.quantization:
        raise ConfigError("--quantization says how to run a model here; a server (--address) has chosen its own")
    if options.address and options.adapter:
        raise ConfigError("--adapter is merged into a model here; a server (--address) has merged its own")
    for name in ("labels", "template"):
        if options.address and getattr(options, name):
            raise ConfigError(f"--{name} is of a model here; a server (--address) has chosen its own")
    for name in ("tenant", "group"):
        if getattr(options, name) and not options.address:
            raise ConfigError(f"--{name} is for a server: add --address HOST:PORT")
    server_flags.check_flags(options)
    generate_flags.check_flags(options)
    texts = _utf8(_from_arguments(options.text, options.pair) if options.text else _from_lines(sys.stdin, options.pair))
    items: Iterator[Item] = _conversations(options.system, texts) if options.chat else iter(texts)
    if options.stream:
        return _stream(options, items)
    ask = _at_server(options) if options.address else _here(options)
    code = OK
    while batch := list(islice(items, BATCH)):
        for answer in ask(batch):
            bare = "finish_reason" in answer and not options.json
            shown = answer if options.json or not sys.stdout.isatty() else _short(answer)
            print(answer["text"] if bare else json.dumps(shown, ensure_ascii=False), flush=True)
            if "error" in answer:
                code = FAILURE
    return code


def _short(value: Any) -> Any:
    """An answer for a terminal: of a long list its beginning, and how many follow."""
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    more = [f"… {len(value) - _SHOWN} more; all with --json"] if len(value) > _SHOWN + 1 else []
    return [*map(_short, value[:_SHOWN] if more else value), *more]


def _here(options: argparse.Namespace) -> Ask:
    from fastqps.api.prediction_json import answer_json, generation_json

    engine = _engine(options)
    asked: Any = {"truncate": options.truncate, **generate_options(options)}

    def ask(items: list[Item]) -> list[dict[str, Any]]:
        try:
            if engine.card.generates:
                return [generation_json(generation) for generation in engine.generate(_prompts(items), **asked)]
            texts = [item for item in items if not isinstance(item, Chat)]  # --chat is refused for such a model
            predictions = engine.predict(texts, prompt_name=options.prompt_name, truncate=options.truncate)
            return [answer_json(each) for each in predictions]
        except ValueError as error:
            raise _wrong(error) from None

    return ask


def _engine(options: argparse.Namespace) -> Engine:
    from fastqps.engine.engine import Engine

    asked = max(options.max_tokens or 0, 0)
    engine = Engine(
        options.model or "minilm",
        max_output_tokens=asked or None,
        max_running=min(_RUNNING, max(1, _RUNNING_TOKENS // max(asked, 1))),
        device=options.device or "cpu",
        quantization=options.quantization or "none",
        adapter=options.adapter or "",
        labels=options.labels.split(",") if options.labels else (),
        template=options.template or "",
    )
    given = [*generate_options(options), *(name for name in ("stream", "chat") if getattr(options, name))]
    if given and not engine.card.generates:
        flag = given[0].replace("_", "-")
        raise ConfigError(f"--{flag}: the model {engine.card.name} does not generate text")
    if options.prompt_name and engine.card.generates:
        raise ConfigError(f"--prompt-name: the model {engine.card.name} generates text, and has no prompts")
    return engine


def _wrong(error: ValueError) -> ConfigError:
    """The engine's error with this command's flags in place of the engine's options."""
    message = str(error)
    for option, flag in _FLAGS_OF_OPTIONS.items():
        message = message.replace(option, flag)
    return ConfigError(message)


def _prompts(items: list[Item]) -> list[str | Chat]:
    if any(isinstance(item, tuple) for item in items):
        raise ConfigError("--pair: a model that generates takes one text, not two")
    return [item for item in items if not isinstance(item, tuple)]


def _at_server(options: argparse.Namespace) -> Ask:
    from fastqps.api.prediction_json import prediction_json

    client, asked = _connect(options), _asked(options)
    if {"n", "best_of"} & asked.keys():  # items of a batch have one answer each
        return lambda items: [prediction_json(client.predict(item, **asked)) for item in items]
    return lambda items: [prediction_json(prediction) for prediction in client.predict_batch(items, **asked)]


def _stream(options: argparse.Namespace, items: Iterator[Item]) -> int:
    """Prints the tokens of one answer after the other as they are made."""
    from fastqps.api.prediction_json import chunk_json

    stream = _stream_at_server(options) if options.address else _stream_here(options)
    for item in items:
        for chunk in stream(item):
            if options.json:
                print(json.dumps(chunk_json(chunk), ensure_ascii=False), flush=True)
            else:
                print(chunk.text, end="" if chunk.finish_reason is None else "\n", flush=True)
    return OK


def _stream_at_server(options: argparse.Namespace) -> Stream:
    client, asked = _connect(options), _asked(options)
    return lambda item: client.generate_stream(item, **asked)


def _stream_here(options: argparse.Namespace) -> Stream:
    engine = _engine(options)
    asked: Any = {"truncate": options.truncate, **generate_options(options)}

    def stream(item: Item) -> Iterator[Chunk]:
        try:
            yield from engine.generate_stream(*_prompts([item]), **asked)
        except ValueError as error:
            raise _wrong(error) from None

    return stream


def _connect(options: argparse.Namespace) -> Client:
    from fastqps.client.sync import Client

    try:
        given = server_flags.client_options(options)
        return Client(options.address, model=options.model or "", timeout_s=_PATIENCE_S, **given)
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from None


def _asked(options: argparse.Namespace) -> Any:
    """The options of each request; numbers that no message can hold are refused before a server is asked."""
    from fastqps.api.request import Requests

    names = {name: getattr(options, name) for name in ("prompt_name", "tenant", "group")}
    asked: Any = {**names, **generate_options(options)}
    if options.truncate:
        asked["truncate"] = True
    try:
        Requests(asked)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return asked


def _conversations(system: str | None, texts: Iterator[Text]) -> Iterator[Chat]:
    """Each text as a user's first message."""
    begin = [] if system is None else [{"role": "system", "content": system}]
    for text in texts:
        yield Chat([*begin, {"role": "user", "content": str(text)}])


def _utf8(texts: Iterator[Text]) -> Iterator[Text]:
    try:
        for text in texts:
            "".join(text).encode()  # Python lets other bytes in as lone surrogates, or refuses to read them at all
            yield text
    except UnicodeError:
        raise ConfigError("a text is not UTF-8") from None


def _from_arguments(texts: list[str], pairs: bool) -> Iterator[Text]:
    if not pairs:
        yield from texts
        return
    if len(texts) % 2:
        raise ConfigError(f"--pair: {len(texts)} texts do not make pairs")
    yield from zip(texts[::2], texts[1::2], strict=True)


def _from_lines(lines: Iterable[str], pairs: bool) -> Iterator[Text]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if not pairs:
            yield text
            continue
        first, tab, second = text.partition("\t")
        if not tab:
            raise ConfigError(f"--pair: line {number} has no tab")
        yield first, second
