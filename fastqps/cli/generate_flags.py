"""The flags of ``fastqps predict`` for models that generate: one for each of ``GenerateOptions``."""

from __future__ import annotations

import argparse
from typing import Any

from fastqps.api.request import GenerateOptions, option_type
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for generating a text, and for showing it."""
    group = parser.add_argument_group("models that generate")
    for name, kind in GenerateOptions.__annotations__.items():
        if name != "add_special_tokens":
            flag = f"--{name.replace('_', '-')}"
            group.add_argument(
                flag, help=kind.__metadata__[0] + _MORE.get(name, ""), default=None, **_KINDS[option_type(name)]
            )
    group.add_argument(
        "--no-special-tokens",
        dest="add_special_tokens",
        action="store_false",
        default=None,
        help="Put no special tokens around a text, such as a chat template's.",
    )
    group.add_argument("--chat", action="store_true", help="each text is a user's message to a chat model")
    group.add_argument("--system", metavar="TEXT", help="with --chat: the system's message before it")
    group.add_argument("--stream", action="store_true", help="print the text as it is made")
    group.add_argument("--json", action="store_true", help="whole answers as JSON lines, of generators, too")


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of token ids such as 5,7") from None


def _biases(text: str) -> dict[int, float]:
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return {int(id): float(bias) for id, bias in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of tokens and values: 5:-100,7:1.5") from None


# Beside what the client says of an option.
_MORE = {
    "max_tokens": " Without --address: 1024, or what a smaller context leaves.",
    "stop": " Repeat the flag for more.",
    "choices": " Give yes,no, or repeat the flag for texts with commas.",
    "logprobs": " With --json.",
    "n": " With --json.",
    "top_logprobs": " With --json.",
    "prompt_logprobs": " With --json.",
}
# What argparse does with an option of each type.
_KINDS: dict[str, dict[str, Any]] = {
    "int": {"type": int, "metavar": "N"},
    "float": {"type": float, "metavar": "X"},
    "bool": {"action": "store_true"},
    "str": {"metavar": "TEXT"},
    "str | Mapping[str, Any]": {"metavar": "JSON"},
    "str | Sequence[str]": {"action": "append", "metavar": "TEXT"},
    "Sequence[str]": {"action": "append", "metavar": "TEXT"},
    "Sequence[int]": {"type": _ids, "metavar": "ID,…"},
    "Mapping[int, float]": {"type": _biases, "metavar": "ID:X,…"},
}


def generate_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of ``Client.generate`` that were given."""
    given = {name: getattr(options, name) for name in GenerateOptions.__annotations__}
    found = {name: value for name, value in given.items() if value is not None}
    match found.get("choices"):
        case [several]:  # as --labels has them
            found["choices"] = several.split(",")
    return found


def check_flags(options: argparse.Namespace) -> None:
    """Raises ``ConfigError`` for flags that do not go together."""
    for name in ("logprobs", "top_logprobs", "prompt_logprobs"):
        given = getattr(options, name)
        if (given or (name == "prompt_logprobs" and given == 0)) and not options.json:
            raise ConfigError(f"--{name.replace('_', '-')} has no place in bare text: add --json")
    if (options.n or 1) > 1 and not options.json:
        raise ConfigError("--n has no place in bare text: add --json")
    for name in ("stream", "chat"):
        if getattr(options, name) and options.pair:
            raise ConfigError(f"--{name} is for models that generate, which take no pairs")
    if options.system is not None and not options.chat:
        raise ConfigError("--system is a message of a conversation: add --chat")
