"""The flags of ``fastqps predict`` for models that generate."""

from __future__ import annotations

import argparse
from typing import Any

from fastqps.errors import ConfigError

_FLAGS = (
    *("max_tokens", "temperature", "top_k", "top_p", "seed", "stop", "stop_token_ids", "ignore_eos", "logprobs"),
    *("add_special_tokens", "repetition_penalty", "no_repeat_ngram_size", "min_tokens"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for generating a text, and for showing it."""
    group = parser.add_argument_group("models that generate")
    group.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="most tokens to make (default: 1024, or what a smaller context leaves; at --address the server's limit)",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="0: the likeliest token; higher: more varied")
    group.add_argument("--top-k", type=int, metavar="N", help="choose among so many likeliest tokens, at most 64")
    group.add_argument("--top-p", type=float, metavar="P", help="choose among tokens with this probability together")
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="the same seed gives the same text if the model is repeatable (default: random)",
    )
    group.add_argument("--stop", action="append", metavar="TEXT", help="end before this; repeat the flag for more")
    group.add_argument(
        "--stop-token-ids", type=_ids, metavar="ID,…", help="end at the first of these tokens, at most 8"
    )
    group.add_argument(
        "--no-special-tokens",
        dest="add_special_tokens",
        action="store_false",
        default=None,
        help="put no special tokens around a text, such as a chat template's",
    )
    group.add_argument("--ignore-eos", action="store_true", default=None, help="go on after the end of the text")
    group.add_argument(
        "--logprobs", action="store_true", default=None, help="with --json: each token's log probability"
    )
    group.add_argument(
        "--repetition-penalty", type=float, metavar="P", help="above 1: tokens that were there become less likely"
    )
    group.add_argument("--no-repeat-ngram-size", type=int, metavar="N", help="no N tokens come twice, at most 64")
    group.add_argument("--min-tokens", type=int, metavar="N", help="the model cannot end the text before N tokens")
    group.add_argument("--stream", action="store_true", help="print the text as it is made")
    group.add_argument("--json", action="store_true", help="whole answers as JSON lines, of generators, too")


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of token ids such as 5,7") from None


def generate_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of ``Client.generate`` that were given."""
    return {name: getattr(options, name) for name in _FLAGS if getattr(options, name) is not None}


def check_flags(options: argparse.Namespace) -> None:
    """Raises ``ConfigError`` for flags that do not go together."""
    if options.logprobs and not options.json:
        raise ConfigError("--logprobs has no place in bare text: add --json")
    if options.stream and options.pair:
        raise ConfigError("--stream is for models that generate, which take no pairs")
