"""The accuracy of FP8 and int8: a model's answers against those without, on the same device, without a server."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastqps.bench.accuracy import KINDS, Figures, Kind, holds, of_embeddings, of_generations, of_labels
from fastqps.bench.measure.vocabulary import vocabulary_of
from fastqps.bench.measure.workload import parse_lengths
from fastqps.bench.results.environment import commit
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.verdict import conclude
from fastqps.config.settings import SETTINGS
from fastqps.errors import ConfigError
from fastqps.terminal import say
from loadgen.texts import texts

if TYPE_CHECKING:
    from fastqps.engine.engine import Engine
    from fastqps.models.card import ModelCard

TEXTS = 1000
TEXTS_MAX = 1_000_000
IDS = 30  # of each item where there are no texts, because the model has no tokenizer
_LIMITED = {key: kind for kinds in KINDS.values() for key, kind in kinds.items() if kind.good}
Items = list[Any]  # texts, pairs of texts, or lists of token ids


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the two ways of computing it, the texts, and what is still good enough."""
    parser.add_argument("--model", metavar="NAME_OR_DIR", default="minilm", help="model (default: minilm)")
    parser.add_argument("--adapter", metavar="DIR", default="", help="LoRA adapter of PEFT to merge into the model")
    parser.add_argument("--device", metavar="DEVICE", default="cpu", help="where both run (default: cpu)")
    parser.add_argument("--dtype", metavar="DTYPE", default="auto", help="of both (default: auto)")
    parser.add_argument(
        "--quantization",
        choices=("fp8", "int8", "auto"),
        default="fp8",
        help="of the one that is judged (default: fp8)",
    )
    parser.add_argument(
        "--texts",
        metavar="FILE",
        default="",
        help="texts, one a line; behind a tab a pair's second text, or, of a model that generates, the right answer",
    )
    parser.add_argument(
        "--count", type=int, metavar="N", help=f"most texts of the file (default: all), or made ones (default: {TEXTS})"
    )
    parser.add_argument(
        "--lengths", metavar="DIST", default="uniform:4,60", help="words of made texts (default: uniform:4,60)"
    )
    parser.add_argument("--max-tokens", type=int, default=128, metavar="N", help="of each generation (default: 128)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of made texts (default: 1)")
    limits = parser.add_argument_group("limits", "the exit code is 8 where one is not kept")
    for key, kind in _LIMITED.items():
        limits.add_argument(_flag(key, kind), type=float, dest=key, metavar="X", help=f"{kind.words}: at {kind.good} X")


def run_alone(options: argparse.Namespace) -> Result:
    """``accuracy``: {texts, figures: [{key, name, share, value, limit, good, holds}]}."""
    _check(options)
    card, items, right = _items(options)
    kinds = KINDS[card.task]
    if strange := [key for key in _LIMITED if getattr(options, key) is not None and key not in kinds]:
        flag = _flag(strange[0], _LIMITED[strange[0]])
        raise ConfigError(f"{flag}: a model to {card.task} has no such figure")
    if options.exact_loss is not None and not right:
        raise ConfigError("--max-exact-loss: it needs --texts with a right answer behind each text")
    before, after = (_answers(options, quantization, items) for quantization in ("none", options.quantization))
    figures = _compare(card, before, after, right)
    result = Result(
        "accuracy",
        commit=commit(),
        seeds={} if options.texts else {"texts": options.seed},
        target={
            "model": card.name,
            "version": card.version,
            "device": options.device,
            "settings": {"dtype": options.dtype, "quantization": options.quantization},
        },
        workload={"texts": options.texts or f"{len(items)} made, {options.lengths} words"},
    )
    rows = [_row(key, kind, figures[key], getattr(options, key, None)) for key, kind in kinds.items() if key in figures]
    undecided = [row for row in rows if len(items) < texts_min(row)]
    result.notes += [
        f"{row['name']}: {len(items):,} texts cannot tell whether the limit is kept; it takes {texts_min(row):,}"
        for row in undecided
    ]
    kept = all(row["holds"] for row in rows)
    conclude(result, (), "SLO_NOT_MET" if not kept else "INCONCLUSIVE" if undecided else "VALID")
    result.extra["accuracy"] = {"texts": len(items), "figures": rows}
    result.notes.append(
        f"{card.name} on {options.device} with quantization {options.quantization} against none, {len(items):,} texts"
    )
    return result


def texts_min(row: dict[str, Any]) -> int:
    """Texts without which the limit of a share cannot be told from no difference at all: one of them may differ."""
    if row["limit"] is None or not row["share"]:
        return 0
    allowed = row["limit"] if row["good"] == "most" else 1 - row["limit"]
    return math.ceil(1 / allowed - 1e-9) if allowed > 0 else 0


def _flag(key: str, kind: Kind) -> str:
    return f"--{'min' if kind.good == 'least' else 'max'}-{key.replace('_', '-')}"


def _check(options: argparse.Namespace) -> None:
    if options.count is not None and not 1 <= options.count <= TEXTS_MAX:
        raise ConfigError(f"--count {options.count}: 1 to {TEXTS_MAX:,}")
    dtypes = next(setting.meaning.choices for setting in SETTINGS if setting.key == "dtype")
    if options.max_tokens < 1:
        raise ConfigError(f"--max-tokens {options.max_tokens}: at least 1")
    if options.dtype not in dtypes:
        raise ConfigError(f"--dtype {options.dtype!r} is not one of {', '.join(dtypes)}")
    if options.device.partition(":")[0] in ("null", "sim"):
        raise ConfigError(f"--device {options.device} computes nothing: there is no accuracy to measure")


def _items(options: argparse.Namespace) -> tuple[ModelCard, Items, list[str]]:
    """The model's card, what it is asked, and the right answers, if there are any."""
    from fastqps.models import load_card
    from fastqps.models.names import resolve

    card = load_card(options.model, max_output_tokens=options.max_tokens, adapter=options.adapter)
    if options.texts:
        return card, *_read(Path(options.texts), options.count, card.task == "generate")
    rng, count = random.Random(options.seed), options.count or TEXTS
    if not card.tokenizer:
        length = min(IDS, card.max_input_tokens)
        return card, [[rng.randrange(card.vocab_size) for _ in range(length)] for _ in range(count)], []
    words = vocabulary_of(resolve(options.model)[1])
    return card, list(texts(parse_lengths(options.lengths), count, rng, words)), []


def _read(path: Path, count: int | None, answered: bool) -> tuple[Items, list[str]]:
    """Items and right answers of a file's lines; all of them have a tab, or none."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--texts: cannot read {path}: {error}") from None
    parts = [line.split("\t") for line in lines if line.strip()][:count]
    if len({len(part) for part in parts}) != 1 or len(parts[0]) > 2:
        raise ConfigError(f"--texts: {path} has to have lines, and in all of them one tab, or in none")
    if len(parts[0]) == 1:
        return [part[0] for part in parts], []
    if answered:
        return [part[0] for part in parts], [part[1] for part in parts]
    return [(part[0], part[1]) for part in parts], []


def _answers(options: argparse.Namespace, quantization: str, items: Items) -> Sequence[Any]:
    """The model's answers in one precision. The model is freed before the next one is loaded."""
    from fastqps.engine.engine import Engine

    say(f"quantization {quantization}: {len(items):,} texts")
    engine = Engine(
        options.model,
        options.device,
        options.dtype,
        quantization=quantization,
        max_output_tokens=options.max_tokens,
        adapter=options.adapter,
    )
    try:
        return _ask(engine, items)
    except ValueError as error:
        raise BenchError(f"the model refuses what it is asked: {error}") from None
    finally:
        engine.close()


def _ask(engine: Engine, items: Items) -> Sequence[Any]:
    if engine.card.task == "generate":
        return engine.generate(items, logprobs=True, truncate=True)
    return engine.predict(items, truncate=True)


def _compare(card: ModelCard, before: Sequence[Any], after: Sequence[Any], right: list[str]) -> Figures:
    if card.task == "generate":
        return of_generations(before, after, right)
    return of_embeddings(before, after) if card.task == "embed" else of_labels(before, after)


def _row(key: str, kind: Kind, value: float, limit: float | None) -> dict[str, Any]:
    return {
        "key": key,
        "name": kind.words,
        "share": kind.share,
        "value": value,
        "limit": limit,
        "good": kind.good,
        "holds": limit is None or holds(kind, value, limit),
    }
